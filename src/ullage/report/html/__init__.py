"""The report as one page for a browser: one file, no network, readable without a script."""

from .document import to_html

__all__ = ["to_html"]

"""What a piece of text is: a JSON document, the repr of a dict, a metrics page; or why it is none of them."""

from __future__ import annotations

import re

from ..evidence import Content, Document, Failure
from ..masking import Masker
from . import json_text, metrics_text

_HTML = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_HEADERS = re.compile(r"HTTP/[\d.]+ \d{3}.*?\r?\n\r?\n", re.DOTALL)


def content_of(text: str, masker: Masker) -> Content:
    """Documents and metrics, masked, else a Failure."""
    text = without_headers(text)
    if not text.strip():
        return Failure("empty", "nothing in it")
    if looks_like_html(text):
        return Failure("html", "a web page, not JSON or metrics", "this may be a login page or another program")
    if text.lstrip()[0] in "{[(":
        return document(text, masker)
    if metrics_text.looks_like_metrics(text):
        return metrics_text.parse(text, masker)
    return _scalar(text, masker)


def looks_like_html(text: str) -> bool:
    return _HTML.match(text) is not None


def without_headers(text: str) -> str:
    """The body alone, where `curl -i` saved the headers as well; and no byte order mark."""
    text = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    headers = _HEADERS.match(text) if text.startswith("HTTP/") else None
    return metrics_text.unquoted(text[headers.end() :] if headers else text)


def document(text: str, masker: Masker) -> Document | Failure:
    try:
        return Document(masker.document(json_text.load(text)))
    except ValueError as error:
        reason = str(error)
    if json_text.looks_like_repr(text):
        try:
            return Document(masker.document(json_text.load_repr(text)))
        except ValueError:
            pass
    return Failure("not json", f"starts like JSON but is not: {masker.text(reason)}", "it may have been cut off")


def _scalar(text: str, masker: Masker) -> Document | Failure:
    """A bare JSON value ("ok", 12, true) is a document too."""
    try:
        return Document(masker.document(json_text.load(text)))
    except ValueError:
        words = " ".join(masker.text(text[:4096]).split())[:80]
        return Failure("not understood", f"neither JSON nor metrics: {words}")

"""Who routes to whom, and where each server runs on this host: the tree of the terminal."""

from __future__ import annotations

from ...deployment import Deployment
from ..topology import Line, tree
from .markup import Html, tag


def servers_section(deployment: Deployment) -> Html:
    lines = map(_line, tree(deployment, letters=True))
    return tag("section", tag("h2", "Servers"), tag("ul", *lines, class_="tree"), id="servers")


def _line(line: Line) -> Html:
    """The branches are drawn; what is read aloud is the words."""
    branches = tag("span", line.lead, class_="branches", aria_hidden="true")
    return tag("li", branches, tag("b" if line.strong else "span", line.text))

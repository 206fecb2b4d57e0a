"""The page put together: its template, style and script are the files beside this one."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from hashlib import sha256
from pathlib import Path
from string import Template

from ... import __version__
from ...deployment import Deployment
from ...engines.server import Role
from ..curve import curves_of
from ..model import Report
from ..rows import grouped, model_of, not_read
from .chart import looks_of
from .findings import findings_section
from .headline import headlines
from .limits import limits_section
from .markup import Html, joined, tag, text
from .numbers import Numbers, legend
from .servers import read_section, settings_section, tanks_section
from .tanks import patterns
from .topology import servers_section

_HERE = Path(__file__).parent


def to_html(report: Report) -> str:
    numbers = Numbers()
    curves = curves_of(report.deployment)
    style, script = (_file(name) for name in ("page.css", "page.js"))
    main = joined(
        servers_section(report.deployment),
        limits_section(report, curves, looks_of(curves), numbers),
        tanks_section(report.deployment, numbers),
        findings_section(report.findings, numbers),
        settings_section(report.deployment, numbers),
        _not_read(report),
        read_section(report.deployment, numbers),
    )
    return Template(_file("page.html")).substitute(
        title=text(f"{_name(report)}: what it holds"),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        patterns=patterns(),
        header=_header(report),
        main=main,
        footer=_footer(report),
        panels=numbers.panels(),
    )


def _file(name: str) -> str:
    return _HERE.joinpath(name).read_text("utf-8")


def _hash(content: str) -> str:
    """As a content security policy names what may stand in the page."""
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"


def _name(report: Report) -> str:
    """The models that run."""
    names = dict.fromkeys(filter(None, map(model_of, report.deployment.workers)))
    return ", ".join(names) or "Model not known"


def _header(report: Report) -> Html:
    deployment = report.deployment
    when = tag("time", f"{report.read_at:%Y-%m-%d %H:%M:%S %z}", datetime=report.read_at.isoformat(timespec="seconds"))
    brand = tag("p", tag("b", "Ullage"), f" {__version__}, read ", when, class_="brand")
    small = tag("small", f" {_size(deployment)}")
    answers = (
        tag("p", tag("span", name, class_="whose") if name else "", told, class_="answer")
        for name, told in headlines(report)
    )
    echoes = (tag("p", echo, class_="who-runs") for echo in report.echoes)
    return tag("header", brand, tag("h1", _name(report), small), *answers, *echoes, _navigation(report), class_="top")


def _size(deployment: Deployment) -> str:
    """`router → 2 prefill → decode` where all of it is one chain; else how many servers and routers."""
    if len(deployment.parts) == 1 and deployment.is_chain:
        counts = Counter(server.role for server in deployment.servers)
        roles = sorted(counts, key=(Role.ROUTER, Role.PREFILL, Role.DECODE, Role.UNIFIED, Role.UNKNOWN).index)
        return " → ".join(f"{counts[role]} {role.value}" if counts[role] > 1 else role.value for role in roles)
    workers, routers = len(deployment.workers), len(deployment.routers)
    besides = f", {routers} router{'s' if routers > 1 else ''}" if routers else ""
    return f"{workers} servers{besides}" if workers > 1 else ""


def _navigation(report: Report) -> Html:
    count = len(grouped(report.findings))
    places = [("servers", "Servers"), ("limits", "Limits")]
    places += [("tanks", "How full")] if report.deployment.workers else []
    places += [("findings", f"Findings ({count})"), ("settings", "Settings")]
    places += [("not-read", "Not read")] if not_read(report) else []
    places += [("read", "Everything read"), ("kinds", "How numbers are known")]
    return tag("nav", *(tag("a", words, href=f"#{id}") for id, words in places), aria_label="Parts of this page")


def _not_read(report: Report) -> Html:
    lines = not_read(report)
    if not lines:
        return Html("")
    return tag("section", tag("h2", "Not read"), tag("ul", *(tag("li", line) for line in lines)), id="not-read")


def _footer(report: Report) -> Html:
    how = "Every underlined number is a button: it opens where it was read, or what it was computed from."
    read = (
        f"Read at {report.read_at.isoformat(timespec='seconds')} by Ullage {__version__}. Nothing on this page is live."
    )
    return tag("footer", tag("h2", "How numbers are known"), tag("p", how), legend(), tag("p", read), id="kinds")

"""Each server: its tanks, what was asked for against what is in effect, and everything that was read of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...deployment import Deployment, reach_of, total_context
from ...engines.server import Role, Server, Setting
from ...figure import Figure
from ..rows import host_cache, peaks, router_usage, who_runs
from ..words import unit_of, value_of
from .markup import Html, joined, prose, tag
from .numbers import Numbers
from .tanks import level_in, tank


def _title(server: Server, level: str = "h3") -> Html:
    role = server.role.value if server.role is not Role.UNKNOWN else "server"
    return tag(level, role, " ", tag("small", server.name))


def tanks_section(deployment: Deployment, numbers: Numbers) -> Html:
    """How full each pool of each server is."""
    servers = (_tanks(server, numbers) for server in deployment.workers)
    return tag("section", tag("h2", "How full"), *servers, id="tanks") if deployment.workers else Html("")


def _tanks(server: Server, numbers: Numbers) -> Html:
    now = server.running
    at = f" at {now.observed_at}" if now.observed_at else ""
    queues = [joined(f"{q.label} ", tag("b", numbers.show(q.waiting))) for q in server.queues]
    told = joined("; queues: ", Html(", ".join(queues))) if queues else Html("")
    highest = (tag("p", f"{label}: {words}", class_="queues") for label, words in peaks(server))
    line = joined(tag("p", _running(server, numbers), told, at, class_="queues"), *highest)
    tanks = (tank(level_in(server, pool), pool, numbers) for pool in server.pools if not pool.within)
    return joined(_title(server), line, tag("div", *tanks, class_="tanks"))


def _running(server: Server, numbers: Numbers) -> Html:
    shown = tag("b", numbers.show(server.running))
    if server.running.known:
        return joined(shown, " running")
    return joined("running requests ", shown, f" ({server.running.note}{server.unread_words})")


def settings_section(deployment: Deployment, numbers: Numbers) -> Html:
    """What was asked for against what is in effect, and what follows for one request."""
    servers = [joined(tag("div", *_settings(server, numbers))) for server in deployment.servers]
    look = "servers two" if len(servers) > 1 else "servers"
    heading = tag("h2", "Asked for, and in effect")
    return tag("section", heading, tag("div", *servers, class_=look), id="settings")


def _settings(server: Server, numbers: Numbers) -> Iterator[Html]:
    yield _title(server)
    yield tag("p", "  ·  ".join(who_runs(server)), class_="who-runs")
    if server.role is Role.ROUTER:
        asked = ((s.label, numbers.show(s.requested, unit=True)) for s in server.settings)
        yield _facts([*asked, *router_usage(server), *_besides(server)])
        return
    names = ("", "asked for", "in effect")
    head = (
        tag("th" if name else "td", name, scope="col" if name else None, class_="num" if name else None)
        for name in names
    )
    rows = (_setting(setting, numbers) for setting in server.settings)
    yield tag("div", tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows)), class_="scroll")
    yield _facts([*_of_a_request(server, numbers), *host_cache(server), *_besides(server)])


def _besides(server: Server) -> Iterator[tuple[str, str]]:
    if server.host and server.host.environment:
        yield "environment", " ".join(f"{name}={value}" for name, value in server.host.environment.items())
    for note in server.notes:
        yield "note", prose(note)


def _setting(setting: Setting, numbers: Numbers) -> Html:
    why = setting.why or "differs"
    mark = joined(" ", tag("span", f"← {why}", class_="differs")) if setting.differs else Html("")
    return tag(
        "tr",
        tag("th", setting.label, mark, scope="row"),
        tag("td", numbers.show(setting.requested), class_="num"),
        tag("td", numbers.show(setting.effective), class_="num"),
        class_="differing" if setting.differs else None,
    )


def _of_a_request(server: Server, numbers: Numbers) -> Iterator[tuple[str, Html]]:
    reach, total, output = reach_of(server), total_context(server), server.default_output
    asked = " that was asked for" if reach.ceiling and reach.ceiling.tokens.note.startswith("as asked for") else ""
    by = f", by the {reach.ceiling.what}{asked}" if reach.ceiling else _why(reach.tokens)
    perhaps = Html("")
    if reach.perhaps:
        perhaps = joined("; ", numbers.show(reach.perhaps.tokens), f" if the {reach.perhaps.what} caps it")
    yield "longest request", joined(numbers.show(reach.tokens, unit=True), by, perhaps)
    yield "total context", joined(numbers.show(total, unit=True), _why(total))
    if server.role is not Role.PREFILL:
        none = " when a client names none" if output.known else _why(output)
        yield "default output", joined(numbers.show(output), none)


def _why(figure: Figure) -> str:
    """Why it is not known, or of which requests it is: on paper nothing can be pressed."""
    if not figure.known:
        return f" ({figure.note})"
    return f", {figure.note}" if figure.note.startswith("in full-length") else ""


def _facts(rows: Sequence[tuple[str, str]]) -> Html:
    return tag("dl", *(joined(tag("dt", label), tag("dd", value)) for label, value in rows), class_="facts")


def read_section(deployment: Deployment, numbers: Numbers) -> Html:
    """All figures of each server with their places, earlier starts, and the evidence itself."""
    parts = (_everything(server, numbers) for server in deployment.servers)
    return tag("section", tag("h2", "Everything read"), *parts, id="read")


def _everything(server: Server, numbers: Numbers) -> Html:
    figures = {**server.figures, **server.usage}
    evidence = (f"{e.place} at {e.read_at.isoformat(timespec='seconds')}" for e in server.evidence)
    return joined(
        _title(server),
        tag("ul", *(tag("li", tag("code", line)) for line in evidence)),
        _fold(f"{len(figures)} figures", figures.values(), numbers),
        *(_fold(_part(rank.name), rank.figures.values(), numbers) for rank in server.ranks),
        *(_fold(f"an earlier start {e.began}", e.figures.values(), numbers) for e in server.earlier),
    )


def _part(name: str) -> str:
    """`slot 0` says itself what it is; `DP0` is a rank."""
    return name if " " in name else f"rank {name}"


def _fold(title: str, figures: Iterable[Figure], numbers: Numbers) -> Html:
    head = tag("tr", *(tag("th", name, scope="col") for name in ("figure", "value", "known by", "where, or by what")))
    rows = (_figure(figure, numbers) for figure in figures)
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="all")
    return tag("details", tag("summary", title), tag("div", table, class_="scroll"))


def _figure(figure: Figure, numbers: Numbers) -> Html:
    where = str(figure.source) if figure.source else figure.note
    value = numbers.show(figure, unit=True) if figure.inputs else tag("span", value_of(figure), f" {unit_of(figure)}")
    return tag(
        "tr", tag("th", figure.name, scope="row"), tag("td", value), tag("td", figure.kind.value), tag("td", where)
    )

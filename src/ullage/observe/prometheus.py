"""A Prometheus server as a source, for servers whose own endpoints cannot be reached: what it scraped of each of them
last, as the metrics page it was, and the highest values of a window.

What identifies a target stands on `up` as well, so the labels there are Prometheus's and not the server's own; of
those that a server had too, Prometheus has renamed the server's ("exported_...").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from math import isfinite
from typing import Any, NamedTuple
from urllib.parse import quote

from ..errors import UsageError
from ..evidence import MAXIMA, Content, Document, Evidence, Failure, Origin, Sample, Samples
from ..masking import Masker
from .at_once import at_once
from .http import Access, get
from .targets import normalise

MOST_SERIES = 5000
_AT_ONCE = 8
_DOWN_SHOWN = 5
_ENGINES = ("sglang[:_]", "vllm:", "llamacpp:", "smg_", "sgl_router_")
# Buckets are most of a page, and are not read but for those of token counts: metrics_text leaves them out as well.
_NO_BUCKETS = '__name__!~".*(seconds|[^s])_bucket"'
_USAGE = re.compile(
    r"sglang[:_](?:\w*token_usage|mamba_usage|num_used_tokens|num_(?:running|queue|paused|grammar_queue)_reqs"
    r"|num_(?:prefill|decode)_\w+_queue_reqs)"
    r"|vllm:(?:kv_cache_usage_perc|gpu_cache_usage_perc|num_requests_(?:running|waiting|swapped))"
    r"|llamacpp:(?:requests_processing|requests_deferred|kv_cache_usage_ratio)"
    r"|(?:smg|sgl_router)_(?:worker_requests_active|http_connections_active|running_requests)"
)
# A Prometheus that scrapes another one gives the servers its own `instance`, and renames theirs.
_IDENTITY = ("cluster", "namespace", "job", "pod", "instance", "exported_instance")
_ADDED = frozenset((*_IDENTITY, "container", "endpoint", "service", "node", "prometheus", "prometheus_replica"))
_EXPORTED = "exported_"
_NAME = "ullage_name"  # a label that keeps the name of a series through functions that drop it
_TEXT = r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`"""
_MATCHER = rf"\s*(?P<label>[a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)\s*(?:{_TEXT})\s*"
_SELECTOR = re.compile(
    rf"\s*(?P<name>[a-zA-Z_:][\w:]*)?\s*(?:\{{(?P<matchers>(?:{_MATCHER.replace('?P<label>', '?:')},?)*)\}})?\s*",
    re.ASCII,
)
_EACH_MATCHER = re.compile(_MATCHER, re.ASCII)
_SAID = re.compile(r'"error"\s*:\s*"(?P<words>(?:[^"\\]|\\.)*)')

Key = tuple[str, ...]  # the values of _IDENTITY


class _Series(NamedTuple):
    labels: Mapping[str, str]
    at: float  # Unix time of the evaluation
    value: float

    @property
    def name(self) -> str:
        return self.labels.get("__name__", "")

    @property
    def key(self) -> Key:
        return tuple(self.labels.get(label, "") for label in _IDENTITY)


class _Answer(NamedTuple):
    series: tuple[_Series, ...]
    warnings: tuple[str, ...] = ()


def read_prometheus(
    url: str,
    match: Sequence[str],
    access: Access,
    masker: Masker,
    window_s: int = 3600,
    most_series: int = MOST_SERIES,
) -> list[Evidence]:
    """Two items for each server that a selector of `match` picks: "metrics", and "maxima" over the window. A selector
    picks servers: `{job="a"}`, or `vllm:num_requests_running{job="a"}` for those of one engine.

    Raises UsageError for what is no selector.
    """
    selectors = [_selector(text) for text in match]
    reader = _Reader(_base(url), access, masker, window_s)
    answers = reader.ask([f"{{{selector}}}" for selector in selectors])
    failed = [answer for answer in answers if isinstance(answer, Failure)]
    if failed:
        return [reader.evidence(failed[0])]
    found = [answer for answer in answers if isinstance(answer, _Answer)]
    series = [one for answer in found for one in answer.series]
    servers, targets = _grouped(series)
    if not servers:
        return [reader.evidence(_nothing(match, targets, any(one.name != "up" for one in series)))]
    kept = _up_to(servers, most_series)
    items = reader.servers(kept, targets, selectors, [words for answer in found for words in answer.warnings])
    down, left = _down(targets, servers), len(servers) - len(kept)
    items += [reader.evidence(_missing(down))] if down else []
    return [*items, reader.evidence(_too_many(left, most_series))] if left else items


def _selector(text: str) -> str:
    """The matchers for all series of the engines, of the servers that this selector picks."""
    match = _SELECTOR.fullmatch(text)
    if match is None or not (match["name"] or match["matchers"]):
        raise UsageError(f"not a selector of PromQL: {text}", """write one like '{job="sglang"}'""")
    matchers = [m[0].strip() for m in _EACH_MATCHER.finditer(match["matchers"] or "") if m["label"] != "__name__"]
    own = [prefix for prefix in _ENGINES if re.match(prefix, match["name"] or "")]
    names = "|".join(["up", *(f"{prefix}.*" for prefix in own or _ENGINES)])
    return ", ".join([f'__name__=~"{names}"', _NO_BUCKETS, *matchers])


def _base(url: str) -> str:
    """Without what a browser shows behind it: http://prom:9090/graph?g0.expr=... -> http://prom:9090"""
    return re.sub(r"/(?:graph|query|targets|classic|api/v1)(?:/.*)?$", "", normalise(url.partition("?")[0]))


def _grouped(series: Iterable[_Series]) -> tuple[dict[Key, dict[Key, _Series]], dict[Key, _Series]]:
    """The series of each server, each once, and its `up`. One of no target is an aggregate of several."""
    servers: dict[Key, dict[Key, _Series]] = {}
    targets: dict[Key, _Series] = {}
    for one in series:
        if one.name == "up":
            targets[one.key] = one
        elif one.labels.keys() & {"instance", "pod", "exported_instance"}:
            servers.setdefault(one.key, {})[tuple(map("=".join, sorted(one.labels.items())))] = one
    return servers, targets


def _up_to(servers: Mapping[Key, dict[Key, _Series]], most: int) -> dict[Key, list[_Series]]:
    """Whole servers, the first at any rate."""
    kept: dict[Key, list[_Series]] = {}
    count = 0
    for key in sorted(servers):
        count += len(servers[key])
        if kept and count > most:
            break
        kept[key] = list(servers[key].values())
    return kept


def _down(targets: Mapping[Key, _Series], servers: Mapping[Key, object] | None = None) -> list[str]:
    """Targets that Prometheus cannot scrape, but for those of which there are series all the same."""
    return sorted(_shown(key) for key, up in targets.items() if not up.value and key not in (servers or {}))


def _missing(down: Sequence[str]) -> Failure:
    more = f" and {len(down) - _DOWN_SHOWN} more" if len(down) > _DOWN_SHOWN else ""
    told = f"Prometheus cannot scrape {', '.join(down[:_DOWN_SHOWN])}{more}"
    return Failure("down", f"{told}: nothing is known of them now", "are these servers up?")


def _nothing(match: Sequence[str], targets: Mapping[Key, _Series], aggregates: bool) -> Failure:
    down = _down(targets)
    reason = f"no series of an engine in the last 5 minutes for {', '.join(match)}"
    if aggregates:
        reason = f"the series for {', '.join(match)} have no label `instance` or `pod`: whose they are is not told"
        return Failure("empty", reason, "pick series that Prometheus scraped from the servers themselves")
    if down:
        return Failure("empty", f"{reason}; {_missing(down).reason}", _missing(down).advice)
    return Failure("empty", reason, "look at Status > Targets there: is the server scraped, and are its labels right?")


def _too_many(left: int, most: int) -> Failure:
    return Failure("too many", f"{left} more servers not read, beyond {most:,} series", "narrow --match")


def _shown(key: Key) -> str:
    told = dict(zip(_IDENTITY, key, strict=True))
    return told["exported_instance"] or told["instance"] or told["pod"]


class _Reader:
    def __init__(self, base: str, access: Access, masker: Masker, window_s: int) -> None:
        self.base, self.access, self.masker = base, access, masker
        self.window_s = window_s
        self.now = datetime.now(timezone.utc)

    def ask(self, queries: Sequence[str]) -> list[_Answer | Failure]:
        return at_once(self._query, queries, _AT_ONCE)

    def evidence(self, content: Content) -> Evidence:
        place = self.masker.text(self.base)
        return Evidence(Origin(f"Prometheus at {place.partition('://')[2]}"), place, "", self.now, content)

    def _query(self, query: str) -> _Answer | Failure:
        content = get(f"{self.base}/api/v1/query?query={quote(query, safe='')}", self.access, self.masker).content
        if isinstance(content, Failure):
            return self._told(content)
        return (_answer(content.data) if isinstance(content, Document) else None) or _not_prometheus()

    def _told(self, failure: Failure) -> Failure:
        """With Prometheus's own words, where it gives some."""
        said = _SAID.search(failure.reason)
        later = failure.status == "503"  # it is starting, or the query took too long
        if later and not said:
            return failure._replace(reason="Prometheus is not ready to answer", advice="ask again in a minute")
        if said:
            words = said["words"].replace('\\"', '"').replace("\\n", " ")
            advice = "ask again later" if later else "look at --match"
            return failure._replace(reason=f"Prometheus refuses the query: {words}", advice=advice)
        if failure.status == "404":
            return _not_prometheus()
        if failure.status == "too large":
            return failure._replace(advice="narrow --match")
        return failure

    def servers(
        self,
        servers: Mapping[Key, list[_Series]],
        targets: Mapping[Key, _Series],
        selectors: Sequence[str],
        warnings: Sequence[str],
    ) -> list[Evidence]:
        usage = sorted({one.name for series in servers.values() for one in series if _USAGE.fullmatch(one.name)})
        names = usage or sorted({series[0].name for series in servers.values()})
        times, _ = _together(self.ask([_ages(names, selector) for selector in selectors]))
        highest, refused = _together(
            self.ask([_maxima(usage, selector, self.window_s) for selector in selectors if usage])
        )
        problems = tuple(map(self.masker.text, warnings))
        called = _named(servers)
        items: list[Evidence] = []
        for key, series in servers.items():
            added = frozenset(targets[key].labels) if key in targets else _ADDED
            at = max((one.value for one in times.get(key, ()) if isfinite(one.value)), default=None)
            page = self._of(called[key], at, series[0].at, Samples(_samples(series, added), problems))
            content = refused or Samples(_samples(highest.get(key, ()), added))
            maxima = page._replace(topic=MAXIMA, content=content, remark=_window(self.window_s))
            items += [page, maxima] if usage else [page]
        return items

    def _of(self, name: str, at: float | None, evaluated: float, page: Samples) -> Evidence:
        """As old as its sample: what Prometheus answers bears the time of the question."""
        place = f"{self.masker.text(self.base)} instance={name}"
        read_at = datetime.fromtimestamp(evaluated if at is None else at, timezone.utc)
        age = "sampled in the last 5 minutes" if at is None else f"sampled {max(0, round(evaluated - at))} s ago"
        scraped = Evidence(Origin(name), f"{place}, {age}", "metrics", read_at, page, "as Prometheus scraped it last")
        return scraped._replace(dated=True)


def _together(answers: Iterable[_Answer | Failure]) -> tuple[dict[Key, list[_Series]], Failure | None]:
    """What was answered, by server, and the first failure."""
    found: dict[Key, list[_Series]] = {}
    failure = None
    for answer in answers:
        if isinstance(answer, Failure):
            failure = failure or answer
            continue
        for one in answer.series:
            found.setdefault(one.key, []).append(one)
    return found, failure


def _window(seconds: int) -> str:
    return f"the highest that Prometheus saw in {_duration(seconds)}, in earlier starts too"


def _samples(series: Iterable[_Series], added: frozenset[str]) -> tuple[Sample, ...]:
    """Each once: two replicas of Prometheus may have scraped the same server."""
    found: dict[tuple[Any, ...], Sample] = {}
    for one in series:
        name, labels = one.labels.get(_NAME) or one.name, _own(one.labels, added)
        found.setdefault((name, *sorted(labels.items())), Sample(name, labels, one.value))
    return tuple(found.values())


def _own(labels: Mapping[str, str], added: frozenset[str]) -> dict[str, str]:
    """The labels that the server gave, under the names it gave them."""
    own = {label: value for label, value in labels.items() if label not in added and label not in ("__name__", _NAME)}
    renamed = {label.removeprefix(_EXPORTED): label for label in own if label.startswith(_EXPORTED)}
    given = {bare: own.pop(label) for bare, label in renamed.items() if bare in added}
    return own | {label: value for label, value in given.items() if label not in _IDENTITY}


def _named(servers: Iterable[Key]) -> dict[Key, str]:
    """By instance; with what else tells two of the same instance apart."""
    names: dict[Key, str] = {}
    keys = list(servers)
    for key in keys:
        alike = [other for other in keys if _shown(other) == _shown(key)]
        apart = [
            f"{label}={value}" for label, value, *rest in zip(_IDENTITY, key, *alike, strict=True) if len({*rest}) > 1
        ]
        names[key] = " ".join([re.sub(r"^\w+://", "", _shown(key)), *apart])
    return names


def _ages(names: Sequence[str], selector: str) -> str:
    """When the newest sample of each server was taken. (`timestamp` drops names, and would find series twice.)"""
    by = ", ".join(_IDENTITY)
    return " or ".join(f'max by ({by}) (timestamp({{__name__="{name}", {selector}}}))' for name in names)


def _maxima(names: Sequence[str], selector: str, window_s: int) -> str:
    """`max_over_time` drops names too: another label carries them."""
    return " or ".join(
        f'label_replace(max_over_time({{__name__="{name}", {selector}}}[{window_s}s]), "{_NAME}", "{name}", "", "")'
        for name in names
    )


def _duration(seconds: int) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _not_prometheus() -> Failure:
    return Failure("not understood", "this is no Prometheus server", "name its base URL, like http://prometheus:9090")


def _answer(data: Any) -> _Answer | None:
    """An instant vector; None for any other document."""
    try:
        if data["status"] != "success" or data["data"]["resultType"] != "vector":
            return None
        series = tuple(_one(entry["metric"], *entry["value"]) for entry in data["data"]["result"] if "value" in entry)
        return _Answer(series, tuple(str(words) for words in data.get("warnings") or ()))
    except (KeyError, TypeError, ValueError):
        return None


def _one(labels: Mapping[str, str], at: float, value: str) -> _Series:
    return _Series(dict(labels), float(at), float(value))

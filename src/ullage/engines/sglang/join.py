"""Pieces of evidence joined into one server: which to trust, and where they disagree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ...figure import Figure, Kind
from ..server import Disagreement, EarlierStart, Role
from .facts import Facts
from .grouping import TRUST
from .ranks import over_ranks

_USAGE_TRUST = ("loads", "metrics", "server_info", "log")
_ASKED_TRUST = ("flags", "server_info", "log", "model_info", "models", "metrics")
# Arguments that SGLang prints after it has resolved them, and that nothing lowers later: printed by the server, they
# are in effect.
_RESOLVED = frozenset(
    """page_size chunked_prefill_size max_prefill_tokens mem_fraction_static tp_size pp_size dp_size ep_size dcp_size
    max_queued_requests schedule_conservativeness swa_full_tokens_ratio kv_cache_dtype disable_radix_cache
    num_reserved_decode_tokens disaggregation_decode_extra_slots speculative_num_draft_tokens enable_metrics host
    port""".split()
)
_ROUNDED = 0.006  # memory figures are printed with two decimals


@dataclass
class Joined:
    """One server's facts together."""

    parts: list[Facts] = field(default_factory=list)
    args: dict[str, Figure] = field(default_factory=dict)
    effective: dict[str, Figure] = field(default_factory=dict)
    usage: dict[str, Figure] = field(default_factory=dict)
    role: Role = Role.UNKNOWN
    earlier: tuple[EarlierStart, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()

    def known(self, name: str) -> Figure | None:
        """What is in effect, else what was asked for."""
        return self.effective.get(name) or self.args.get(name)

    def on(self, name: str) -> bool:
        figure = self.known(name)
        return figure is not None and figure.value is True


def join(parts: list[Facts]) -> Joined:
    joined = Joined(parts)
    joined.role = next((p.role for p in parts if p.role is not Role.UNKNOWN), Role.UNKNOWN)
    joined.args = _first(_ordered(parts, _ASKED_TRUST), "args")
    joined.effective = _first(_ordered(parts, TRUST), "effective")
    for part in _ordered(parts, ("server_info", "log")):
        for name in _RESOLVED & part.args.keys():
            held = joined.effective.get(name)
            if held is None or held.kind is Kind.INFERRED:
                joined.effective[name] = _in_effect(part.args[name])
    joined.usage = _first(_ordered(_over_nodes(parts), _USAGE_TRUST), "usage")
    joined.usage.update(_gauge_beside_load(parts))
    joined.earlier = tuple(start for p in parts for start in p.earlier)
    joined.disagreements = tuple(_disagreements(parts))
    return joined


def _over_nodes(parts: list[Facts]) -> list[Facts]:
    """Use over the data-parallel ranks of all nodes, where the log of each node holds those of its own."""
    logs = [p for p in parts if p.topic == "log"]
    if len({frozenset(p.rank_usage) for p in logs}) < 2:
        return parts
    told = {name for p in logs for name in p.usage}
    ranks = {rank: found for p in reversed(logs) for rank, found in p.rank_usage.items()}
    used = over_ranks({rank: {n: f for n, f in found.items() if n in told} for rank, found in ranks.items()})
    return [replace(logs[0], usage={**logs[0].usage, **used}), *(p for p in parts if p.topic != "log")]


def _in_effect(figure: Figure) -> Figure:
    return replace(figure, kind=Kind.READ, note="as the server resolved its arguments")


def _ordered(parts: Iterable[Facts], topics: Sequence[str]) -> list[Facts]:
    return sorted((p for p in parts if p.topic in topics), key=lambda p: topics.index(p.topic))


def _first(parts: Sequence[Facts], of: str) -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    for part in parts:
        for name, figure in getattr(part, of).items():
            found.setdefault(name, figure)
    return found


def _gauge_beside_load(parts: Sequence[Facts]) -> dict[str, Figure]:
    """Where /v1/loads was asked too, the gauge of running requests is kept beside it: the page may be stale."""
    by_topic = {p.topic: p.usage.get("num_running_reqs") for p in parts}
    gauge = by_topic.get("metrics")
    return (
        {"gauge_num_running_reqs": gauge.renamed("gauge_num_running_reqs")} if gauge and by_topic.get("loads") else {}
    )


def _disagreements(parts: Sequence[Facts]) -> Iterable[Disagreement]:
    ordered = _one_of_a_kind(_ordered(parts, TRUST))
    for name in dict.fromkeys(name for p in ordered for name in p.effective):
        stated = [p.effective[name] for p in ordered if name in p.effective]
        figures = [figure for figure in stated if figure.kind is not Kind.INFERRED]
        if name not in ("version", "model_class") and _differ(figures):
            yield Disagreement(
                name,
                tuple(figures),
                "what the server says of itself when asked outranks its log, which may be of another start",
            )
    asked = _ordered(parts, ("server_info", "flags"))
    for name in dict.fromkeys(name for p in asked for name in p.args):
        figures = [p.args[name] for p in asked if name in p.args]
        if name not in ("api_key", "admin_api_key", "host") and _differ(figures):
            yield Disagreement(
                name, tuple(figures), "the running server's own arguments outrank a command line that was given to us"
            )


def _one_of_a_kind(parts: Iterable[Facts]) -> list[Facts]:
    """The logs of several nodes tell of different GPUs: that is no disagreement."""
    return list({p.topic: p for p in reversed(list(parts))}.values())[::-1]


def _differ(figures: Sequence[Figure]) -> bool:
    first = next(iter(figures), None)
    return first is not None and any(not _equal(first, other) for other in figures[1:])


def _equal(a: Figure, b: Figure) -> bool:
    if isinstance(a.value, (int, float)) and isinstance(b.value, (int, float)):
        return abs(a.value - b.value) <= (_ROUNDED if a.unit == "GiB" else 1e-9)
    return str(a.value).lower() == str(b.value).lower()

"""SGLang's logs: the servers that write into one, each by its last start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...evidence import Evidence, Log
from ...figure import Figure, Kind
from ..facts import Facts
from ..server import EarlierStart, Role
from .cut_lines import without_halves
from .facts import argument_figures
from .lines import Step, split_tag
from .log_readings import figure_of, source_of
from .log_start import rank_figures, start_figures
from .log_usage import usage_figures
from .server_args import is_cut
from .starts import Start, servers_of, starts_of

_ARGUMENTS_AT_LEAST = 25  # no version takes fewer: a shorter list is somebody's choice of them
_ABSURD = re.compile(r"\b(?:max_total_num_tokens|max_running_requests|context_len)=(?:0\b|-\d+|\d{16,})")
_FOLLOWED = "a start with another port or role follows in this log: whether this server still runs is not known"


def from_log(evidence: Evidence, log: Log) -> list[Facts]:
    """The servers that write into a log, each by its last start; earlier starts are its history."""
    found = [_facts(evidence, log, starts) for starts in servers_of(starts_of(without_halves(log)))]
    return [_followed(facts, found[-1]) for facts in found]


def _followed(facts: Facts, last: Facts) -> Facts:
    """Another start came after it: beside it, or in its place. (Another node of one server is beside it.)"""
    if facts is last or facts.word("node_rank") != last.word("node_rank"):
        return facts
    return replace(facts, notes=(*facts.notes, _FOLLOWED))


def _facts(evidence: Evidence, log: Log, starts: list[Start]) -> Facts:
    current = starts[-1]
    usage, ranks = usage_figures(current, evidence)
    effective = {} if current.overlaps else start_figures(current, evidence)
    effective |= _cut_arguments(current, evidence)
    return Facts(
        evidence,
        "log",
        args=_args(current, evidence),
        effective=effective,
        usage=usage,
        rank_usage=_with_rank_pools(ranks, current, evidence),
        role=_role(current),
        earlier=tuple(_earlier(start, evidence) for start in starts[:-1] if _counts(start)),
        notes=_notes(current, log),
        no_pool=_why_no_pool(current, effective),
    )


def _role(start: Start) -> Role:
    """Builds before v0.4.5 know no disaggregation: a whole list of arguments without it is an aggregated server's."""
    event = next(start.of(Step.ARGS), None)
    if start.role is not Role.UNKNOWN or event is None or len(start.args) < _ARGUMENTS_AT_LEAST:
        return start.role
    return start.role if is_cut(event.line.text) else Role.UNIFIED


def _cut_arguments(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """Says so where the log shows a part of the arguments only."""
    event = next(start.of(Step.ARGS), None)
    cut = event is not None and is_cut(event.line.text)
    return {"arguments_cut": figure_of("arguments_cut", True, evidence, event)} if event and cut else {}


def _args(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """What was asked for: the arguments, or what a line that lowers one says of it."""
    event = next(start.of(Step.ARGS), None)
    args = argument_figures(start.args, source_of(evidence, event), Kind.CONFIGURED) if event else {}
    lowered = next((e for e in start.events if "requested_max_running" in e.values), None)
    if lowered:
        asked = figure_of("max_running_requests", lowered.values["requested_max_running"], evidence, lowered)
        args.setdefault("max_running_requests", replace(asked, kind=Kind.CONFIGURED))
    return args


def _with_rank_pools(
    ranks: dict[str, dict[str, Figure]], start: Start, evidence: Evidence
) -> dict[str, dict[str, Figure]]:
    for name in ("max_total_num_tokens", "kv_line_tokens"):
        for rank, figure in rank_figures(start, evidence, name).items():
            ranks.setdefault(rank, {}).setdefault("max_total_num_tokens", figure.renamed("max_total_num_tokens"))
    return ranks


def _counts(start: Start) -> bool:
    return any(event.step is not Step.UNIT for event in start.events)


def _earlier(start: Start, evidence: Evidence) -> EarlierStart:
    return EarlierStart(
        start.began,
        {**_args(start, evidence), **start_figures(start, evidence)},
        "" if start.ready or start.has(Step.SUMMARY) else "it never came up",
    )


def _notes(start: Start, log: Log) -> tuple[str, ...]:
    notes = list(log.gaps)
    if start.overlaps:
        notes.append(
            "two servers started into this log at the same time, so their lines cannot be told apart: give each its"
            " own log"
        )
    if not start.pools_told_apart:
        notes.append("KV lines of two sizes, and no line that tells the window pool's from the full pool's")
    if start.role is Role.UNKNOWN and any("pd_warmup" in event.values for event in start.events):
        notes.append("a prefill or a decode server, by its warm-up line; no line tells which")
    if start.role_ground:
        notes.append(start.role_ground)
    notes += _absurd(start)
    return tuple(notes)


def _absurd(start: Start) -> Iterator[str]:
    """What the sizing lines state and no server can have; it is not read as a figure."""
    for event in start.of(Step.KV, Step.POOL_END, Step.SUMMARY):
        for match in _ABSURD.finditer(event.line.text):
            yield f"the log states {match[0]}, which no server can have: not used"


def _why_no_pool(start: Start, effective: Mapping[str, Figure]) -> str:
    """Two starts at once, a start that failed, one that is not finished, or a log that begins after it."""
    if "max_total_num_tokens" in effective:
        return ""
    if start.overlaps:
        return "two servers started into this log at the same time"
    refused = next((e for e in start.of(Step.TROUBLE) if "start_refused" in e.values), None)
    if refused:
        return f"the server refused to start: {split_tag(refused.line.text)[2][:160]}"
    if start.has(Step.SUMMARY) or (start.ready and start.has(Step.LOAD_END)):
        return "the start-up lines of this log state no pool"
    begun = [e for e in start.events if e.step in (Step.ARGS, Step.LOAD_BEGIN, Step.LOAD_END, Step.POOL_END)]
    if begun and not start.ready:
        last = begun[-1]
        told = "its arguments" if last.step is Step.ARGS else f"{split_tag(last.line.text)[2][:80]!r}"
        return f"the start is not finished in this log, which ends after {told}"
    return "the start-up lines are not in this log"

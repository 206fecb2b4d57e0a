"""The page's first sentence: how many requests are safe in parallel at a usual length and at the full context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ...capacity.chain import ChainLimits
from ...capacity.limits import Limits
from ...deployment import Answer
from ..model import Report
from ..words import value_of
from .markup import Html, joined, tag

_USUAL = (32_768, 4_096)  # the first of them that is served, where no row was asked for
Found = Limits | ChainLimits
Pick = Callable[[Answer], Found | None]


def headlines(report: Report) -> Iterator[tuple[str, Html]]:
    """(whose, sentence): one of each chain; else one of each server of which it is known."""
    for part in report.deployment.parts:
        if part.is_chain:
            yield from _of("prefill to decode", report, partial(_of_chain, {s.name for s in part.workers}))
        else:
            for server in part.workers:
                yield from _of(server.name, report, partial(_of_server, server.name))


def _of_chain(names: set[str], answer: Answer) -> Found | None:
    return answer.chain if names & set(answer.by_server) else None


def _of_server(name: str, answer: Answer) -> Found | None:
    return answer.by_server.get(name)


def _of(whose: str, report: Report, pick: Pick) -> Iterator[tuple[str, Html]]:
    told = [(answer, found) for answer in _told(report, pick) if (found := pick(answer)) is not None]
    if told:
        parts = [_part(answer, found, first=i == 0) for i, (answer, found) in enumerate(told)]
        yield whose, joined(parts[0], *(joined("; ", part) for part in parts[1:]), ".")


def _told(report: Report, pick: Pick) -> list[Answer]:
    """A row that was asked for or has a usual length, and the full context, as far as they are known."""
    served = [a for a in report.answers if (found := pick(a)) is not None and found.admits.known and not found.refused]
    full = [a for a in served if a.label == "full"]
    asked = [a for a in served if a.label in report.asked and a not in full]
    return [*(asked or _usual([a for a in served if a not in full]))[:1], *full]


def _usual(answers: Sequence[Answer]) -> list[Answer]:
    by_length = {answer.shape.prompt: answer for answer in answers}
    return [by_length[length] for length in _USUAL if length in by_length] or list(answers)


def _part(answer: Answer, found: Found, first: bool) -> Html:
    """`73 requests of 32,768 tokens are safe in parallel (bound by decode: KV pool)`"""
    bound = "at most " if found.at_most else ""
    length = f"the full {answer.shape.total:,}" if answer.label == "full" else answer.label
    many = "request" if value_of(found.safe) == "1" else "requests"
    of = f" {many} of {length} tokens " if first else f" of {length} "
    verb = "are" if many == "requests" else "is"
    safe = f"{verb} safe in parallel " if first else ""
    binds = f"(bound by {found.safe_binds})" if first else f"({found.safe_binds})"
    perhaps = ", if prefill takes it" if found.perhaps_refused else ""
    start = bound.capitalize() if first else bound
    return joined(start, tag("b", value_of(found.safe)), of, safe, binds, perhaps)

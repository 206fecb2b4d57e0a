"""The page's first sentences: how many requests are safe in parallel at a usual length and at the full context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ...capacity.chain import ChainLimits
from ...capacity.limits import Limits
from ...deployment import Answer
from ..model import Report
from ..rows import rows_of
from ..words import value_of
from .markup import Html, joined, tag, text

_USUAL = (32_768, 4_096)  # the first of them that is served, where no row was asked for
Found = Limits | ChainLimits
Pick = Callable[[Answer], Found | None]


def headlines(report: Report) -> Iterator[tuple[str, Html]]:
    """(whose, sentence): one of each chain; else one of each server. `whose` is empty where there is only one."""
    for name, pick in zip(whose(report), _picks(report), strict=True):
        if sentence := _sentence(report, pick):
            yield name, sentence
        elif name and not any(found.admits.known for answer in report.answers if (found := pick(answer))):
            yield name, text("How many requests fit is not known.")


def whose(report: Report) -> list[str]:
    """Of which chain or server each table of the limits is, in the words of its title; nothing where there is one."""
    titles = [title.removeprefix("Parallel requests, ") for title, _ in rows_of(report)]
    return titles if len(titles) > 1 else [""] * len(titles)


def _picks(report: Report) -> Iterator[Pick]:
    """What finds each table's limits in an answer, in the order of the tables."""
    for part in report.deployment.parts:
        if part.is_chain:
            yield partial(_of_chain, {server.name for server in part.workers})
        else:
            yield from (partial(_of_server, server.name) for server in part.workers)


def _of_chain(names: set[str], answer: Answer) -> Found | None:
    return answer.chain if names & set(answer.by_server) else None


def _of_server(name: str, answer: Answer) -> Found | None:
    return answer.by_server.get(name)


def _sentence(report: Report, pick: Pick) -> Html:
    """Nothing where it is not known."""
    told = [(answer, found) for answer in _told(report, pick) if (found := pick(answer)) is not None]
    parts = [_part(answer, found, first=i == 0) for i, (answer, found) in enumerate(told)]
    return joined(parts[0], *(joined("; ", part) for part in parts[1:]), ".") if parts else Html("")


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
    length = _length(answer)
    many = "request" if value_of(found.safe) == "1" else "requests"
    of = f" {many} of {length} " if first else f" of {length.removesuffix(' tokens')} "
    verb = "are" if many == "requests" else "is"
    safe = f"{verb} safe in parallel " if first else ""
    binds = f"(bound by {found.safe_binds})" if first else f"({found.safe_binds})"
    perhaps = ", if prefill takes it" if found.perhaps_refused else ""
    start = bound.capitalize() if first else bound
    return joined(start, tag("b", value_of(found.safe)), of, safe, binds, perhaps)


def _length(answer: Answer) -> str:
    """`32,768 tokens`, `the full 32,768 tokens`, `30,000 + 2,000 tokens, 8,000 of them shared,`"""
    shape = answer.shape
    if answer.label == "full":
        return f"the full {shape.total:,} tokens"
    if shape.output is None:
        tokens = f"{shape.prompt:,} tokens with no output limit named"
    else:
        tokens = f"{shape.prompt:,}{f' + {shape.output:,}' if shape.output else ''} tokens"
    return f"{tokens}, {shape.shared:,} of them shared," if shape.shared else tokens

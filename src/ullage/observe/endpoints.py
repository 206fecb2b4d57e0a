"""All endpoints of all servers, at once: two rounds, so at most two time limits for everything.

Round one asks each endpoint under its first path. Round two asks the older names of those that were not there, the
endpoints that stand in for others (`unless`), and again what tells one server from another: several may answer at one
URL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from ..evidence import Evidence, Failure, Origin
from ..masking import Masker
from .at_once import at_once
from .http import Access, get
from .targets import normalise, split_path

__all__ = ["Endpoint", "normalise", "read_servers", "split_path"]

MAX_WORKERS = 32
AGAIN = 2  # how often that is asked again: a proxy may hand every second request to the same server
NOT_THERE = ("404", "405")
HUNG_S = 0.1  # what a further question to a hung server may cost, where requests have to queue
_METRICS = "metrics"
WHOLE_SERVER = ("refused", "dns", "unreachable", "tls", "timeout")


class Endpoint(NamedTuple):
    """`paths` are alternatives, the newest name first. `unless`: ask only where the endpoints of these topics are not
    there.
    """

    topic: str
    paths: tuple[str, ...]
    unless: tuple[str, ...] = ()


class _Question(NamedTuple):
    target: str  # as the caller named it
    base: str
    endpoint: Endpoint
    paths: tuple[str, ...]  # below the base, or a whole URL


Answers = dict[_Question, list[Evidence]]


def read_servers(
    bases: Sequence[str],
    endpoints: Sequence[Endpoint],
    access_for: Callable[[str], Access],
    masker: Masker,
    pages: Mapping[str, str] = MappingProxyType({}),
    telling: Sequence[str] = (),
    known: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> list[Evidence]:
    """A base that ends in the path of a known endpoint is asked for that one alone. `pages`: by base, the whole URL of
    a metrics page that stands elsewhere. `telling`: the topics that tell servers apart, the best first. `known`: by
    base of a server that is known for what it is, the topics that are asked of it, and each once.

    A server that cannot be reached at all is reported once, with topic "".
    """
    reader = _Reader(access_for, masker)
    questions = [
        q for base in dict.fromkeys(bases) for q in _questions(base, _of(base, endpoints, known), pages.get(base))
    ]
    first = reader.ask([q._replace(paths=q.paths[:1]) for q in questions if not q.endpoint.unless])
    doubtful = [question for question in questions if question.target not in known]
    repeated = [question for question in _to_repeat(doubtful, first, telling) for _ in range(AGAIN)]
    second = reader.ask([*repeated, *_second_round(questions, first)])  # side by side: they meet different servers
    found = [_best(first, second, question) for question in questions]
    again = [item._replace(again=True) for q in dict.fromkeys(repeated) for item in second[q] if not item.failed]
    return [*_once_per_dead_server([item for item in found if item is not None]), *again]


def _of(base: str, endpoints: Sequence[Endpoint], known: Mapping[str, Collection[str]]) -> Sequence[Endpoint]:
    return endpoints if base not in known else [endpoint for endpoint in endpoints if endpoint.topic in known[base]]


def _questions(target: str, endpoints: Sequence[Endpoint], page: str | None) -> list[_Question]:
    base, asked = split_path(target, [path for endpoint in endpoints for path in endpoint.paths])
    if asked:
        endpoint = next(e for e in endpoints if asked in e.paths)
        questions = [_Question(target, base, endpoint._replace(unless=()), (asked,))]
    else:
        questions = [_Question(target, base, endpoint, endpoint.paths) for endpoint in endpoints]
    if page is None:
        return questions
    here = [q for q in questions if q.endpoint.topic != _METRICS]
    return [*here, _Question(page, base, Endpoint(_METRICS, (page,)), (page,))]


class _Reader:
    def __init__(self, access_for: Callable[[str], Access], masker: Masker) -> None:
        self._access_for, self._masker = access_for, masker
        self._hung: set[str] = set()
        self._crowded = False

    def ask(self, questions: list[_Question]) -> Answers:
        """In turn over the servers: a hung one cannot fill all the workers before the others had theirs."""
        jobs = _in_turn([(question, path) for question in questions for path in question.paths])
        self._hung.clear()
        self._crowded = len(jobs) > MAX_WORKERS
        if not jobs:
            return {}
        answers = at_once(self._get, jobs, MAX_WORKERS)
        found: Answers = {}
        for (question, _), evidence in zip(jobs, answers, strict=True):
            found.setdefault(question, []).append(evidence)
        return found

    def _get(self, job: tuple[_Question, str]) -> Evidence:
        question, path = job
        access = self._access_for(question.target)
        url, server = (path, path) if "://" in path else (question.base + path, question.base)
        if self._crowded and server in self._hung:
            access = replace(access, timeout_s=min(access.timeout_s, HUNG_S))
        evidence = get(url, access, self._masker, question.endpoint.topic)
        if _status(evidence) in WHOLE_SERVER:
            self._hung.add(server)
        else:
            self._hung.discard(server)
        return evidence._replace(origin=Origin(self._masker.text(question.base).rstrip(":")))


def _in_turn(jobs: list[tuple[_Question, str]]) -> list[tuple[_Question, str]]:
    place: dict[str, int] = {}
    turns = []
    for job in jobs:
        turns.append(place.setdefault(job[0].base, 0))
        place[job[0].base] += 1
    return [job for _, job in sorted(zip(turns, jobs, strict=True), key=lambda pair: pair[0])]


def _status(evidence: Evidence) -> str:
    return evidence.content.status if isinstance(evidence.content, Failure) else ""


def _second_round(questions: list[_Question], first: Answers) -> list[_Question]:
    done = {
        (q.base, q.endpoint.topic)
        for q, items in first.items()
        if not items[0].failed or _status(items[0]) in WHOLE_SERVER
    }
    again = []
    for question in questions:
        earlier = first.get(question._replace(paths=question.paths[:1]))
        if earlier is None and not any((question.base, topic) in done for topic in question.endpoint.unless):
            again.append(question)
        elif earlier and _status(earlier[0]) in NOT_THERE and question.paths[1:]:
            again.append(question._replace(paths=question.paths[1:]))
    return again


def _to_repeat(questions: list[_Question], first: Answers, telling: Sequence[str]) -> list[_Question]:
    """Of each server, the best of the telling questions that were answered."""
    best: dict[str, _Question] = {}
    for topic in telling:
        for question in (q._replace(paths=q.paths[:1]) for q in questions if q.endpoint.topic == topic):
            if question in first and not first[question][0].failed:
                best.setdefault(question.base, question)
    return list(best.values())


def _best(first: Answers, second: Answers, question: _Question) -> Evidence | None:
    """The first that was there, in the order of the paths; else the first."""
    heads = first.get(question._replace(paths=question.paths[:1]), [])
    tails = second.get(question._replace(paths=question.paths[1:]), []) or second.get(question, [])
    items = heads + tails
    return next((item for item in items if _status(item) not in NOT_THERE), items[0] if items else None)


def _once_per_dead_server(items: list[Evidence]) -> list[Evidence]:
    """Where no endpoint of a server could be reached, one Failure says so for all."""
    alive = {item.origin.target for item in items if _status(item) not in WHOLE_SERVER}
    kept: list[Evidence] = []
    for item in items:
        target = item.origin.target
        if target in alive:
            kept.append(item)
        elif all(other.origin.target != target for other in kept):
            kept.append(item._replace(topic="", place=target))
    return kept

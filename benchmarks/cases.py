"""What of the public cases Ullage reads: every figure that a log or a page states, against what a reader found in it.

    ULLAGE_CASES=~/ullage-cases python benchmarks/cases.py

`startup-logs.jsonl` holds verbatim lines of engine starts, and the figures in them (`observed`). Each case is read
through the file reader, behind every prefix that collectors put before a line. `endpoints/` holds pages, logs and
command lines with what a reader must get from each; null there means that it must stay unknown.

A value of an earlier start of the same log counts as read. Words ("event": ...) are not compared, but counted apart.
A null that the file states after all (under the name that the figure quotes) counts as kept. Exits 1 where a figure
was read wrongly, where one was read that the evidence does not state, or where less than 97 % was read.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ullage.cli.gather import Options, gather
from ullage.engines.read import read
from ullage.engines.router.flags import from_argv
from ullage.engines.server import Server
from ullage.evidence import Argv
from ullage.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, its neighbours are not found else
from benchmarks import names_llamacpp, names_sglang, names_vllm

LEAST = 0.97
PREFIXES = {
    "none": "",
    "rank": "[2026-01-01 00:00:00 TP0] ",
    "journald": "Jan 01 00:00:00 box sglang[4711]: ",
    "compose": "sglang-1  | ",
}

# By engine: (key in the cases, a pattern; names of ours, any of which may hold the value).
Names = tuple[tuple[str, tuple[str, ...]], ...]
NAMES: dict[str, Names] = {
    "sglang": names_sglang.NAMES,
    "vllm": names_vllm.NAMES,
    "llama.cpp": names_llamacpp.NAMES,
}
UNITS_OF = {"llama.cpp"}  # engines whose unit files are read for the command line in them
# What describes a host, and is no target of `ullage limits`.
NO_TARGETS = {"unit", "nvidia-smi", "nvidia-smi-topo", "ibdev", "ps", "systemctl-status", "negative"}
NOT_STATED = {
    "lines",
    "worker_is_a_router",
}  # of the file itself; and nothing in it says what answers at a worker's URL
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")


@dataclass
class Score:
    """One case. `missed` and `wrong` name what failed; `words` counts what cannot be compared."""

    name: str
    stated: int = 0
    read: int = 0
    nulls: int = 0
    words: int = 0
    missed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)

    def add(self, key: str, expected: object, found: Sequence[Values]) -> None:
        """Counts a key by the worst of several readings."""
        outcomes = {values.outcome(key, expected) for values in found}
        self.stated += 1
        if outcomes == {"read"}:
            self.read += 1
        elif "wrong" in outcomes:
            self.wrong.append(f"{key}={expected}")
        else:
            self.missed.append(f"{key}={expected}")

    def add_null(self, key: str, found: Values, text: str) -> None:
        self.nulls += 1
        figure = found.first(key)
        if figure and not (figure.source and len(figure.source.place) > 9 and figure.source.place in text):
            self.invented.append(f"{key}={figure.value}")

    @property
    def nulls_kept(self) -> int:
        return self.nulls - len(self.invented)


class Values:
    """Everything that was read of one file: by name in the present, and in earlier starts."""

    def __init__(self, servers: Sequence[Server], names: Names) -> None:
        self.names = names
        self.now: dict[str, list[object]] = {}
        self.before: dict[str, list[object]] = {}
        self.figures: dict[str, Figure] = {}
        for server in servers:
            self.figures.update({**server.usage, **server.figures})
            self._add_all(self.now, {**server.usage, **server.figures})
            self._add(self.now, "role", server.role.value)
            self._add_ranks(str(server.figure("ranks_seen").value or ""))
            for moment in server.history:
                self._add_all(self.now, moment.figures)
            self._add(self.now, "starts", 1 + len(server.earlier))
            for rank in server.ranks:
                self._add_all(self.now, {f"{rank.name} {name}": f for name, f in rank.figures.items()})
            for start in server.earlier:
                self._add_all(self.before, start.figures)

    def _add_all(self, into: dict[str, list[object]], figures: Mapping[str, Figure]) -> None:
        for name, figure in figures.items():
            if figure.known:
                for value in (figure.value, figure.low, figure.high):
                    self._add(into, name, value)
                self._add(into, f"{name}_unit", figure.unit)

    @staticmethod
    def _add(into: dict[str, list[object]], name: str, value: object) -> None:
        if value is not None and value not in into.setdefault(name, []):
            into[name].append(value)

    def _add_ranks(self, seen: str) -> None:
        """ "PP 0-3, TP 0-1 8" as the ranks of each kind and their count."""
        for kind, spans in re.findall(r"([A-Z_]+(?: rank)?) ([\d -]+)", seen):
            ranks = [n for span in spans.split() for n in range(int(span.split("-")[0]), int(span.split("-")[-1]) + 1)]
            self.now.setdefault(f"count {kind.lower()}", []).append(len(ranks))
            self.now.setdefault(f"rank {kind}", []).extend(ranks)
            self.now.setdefault("ranks_seen", []).extend(ranks)

    def of(self, key: str, *, before: bool = False) -> list[object]:
        """What is held under the names that a key stands for; `by_dp.5.running` is of rank DP5."""
        source = self.before if before else self.now
        rank = re.search(r"(?:by_dp\.|engine_)0*(\d+)\.", key)
        prefix = f"DP{rank[1]} " if rank else "first_" if key.startswith("first.") else ""
        wanted = [prefix + name for name in names_of(key.rpartition(".")[2], self.names)]
        return [value for name in wanted for held in source if matches(held, name) for value in source[held]]

    def first(self, key: str) -> Figure | None:
        """The figure that a key means first and foremost: what is asked for before what is in effect."""
        figure = self.figures.get(names_of(key.rpartition(".")[2], self.names)[0])
        return figure if figure and figure.known else None

    def outcome(self, key: str, expected: object) -> str:
        """ "read", "wrong" or "missed"."""
        now = self.of(key)
        if any(same(expected, value) for value in (*now, *self.of(key, before=True))):
            return "read"
        return "wrong" if now else "missed"


def names_of(key: str, table: Names) -> tuple[str, ...]:
    """Ours for one of theirs: by the first pattern that fits, and by its own name."""
    for pattern, names in table:
        if match := re.fullmatch(pattern, key):
            return (*(match.expand(name) for name in names), key)
    return (key,)


def matches(held: str, wanted: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, wanted.split("*"))), held) is not None


def same(expected: object, value: object) -> bool:
    """Numbers numerically (memory is rounded to two decimals), words without regard to case."""
    if isinstance(expected, (int, float)) and isinstance(value, (int, float)):
        return expected == value or (isinstance(value, float) and round(expected, 2) == round(value, 2))
    if isinstance(value, (int, float)) and not isinstance(value, bool) and isinstance(expected, str):
        return str(value) in _NUMBER.findall(expected)
    clause = str(expected).lower().partition(",")[0]  # "llama.cpp router, no model in this process" is a router
    return clause.split()[-1:] == [str(value).lower()] or str(expected).lower() in (
        str(value).lower(),
        *str(value).lower().split(),
    )


def names_for(engine: str) -> Names | None:
    """The table of an engine; None for one that Ullage does not read."""
    return next((table for name, table in NAMES.items() if engine.startswith(name)), None)


def values_of(text: str, names: Names) -> Values:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.log"
        path.write_text(text, encoding="utf-8")
        return values_in(path, names)


def values_in(path: Path, names: Names) -> Values:
    return Values(read(gather([str(path)], [], Options()))[0], names)


def startup_scores(cases: Path) -> Iterator[Score]:
    for line in (cases / "startup-logs.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        names = names_for(case["engine"])
        if names and case["log_lines_verbatim"] is True:
            yield startup_score(case, names)


def startup_score(case: Mapping[str, Any], names: Names) -> Score:
    lines: list[str] = case["log_lines"]
    found = [values_of("".join(f"{prefix}{line}\n" for line in lines), names) for prefix in PREFIXES.values()]
    numbers = {float(text.replace(",", "")) for line in lines for text in _NUMBER.findall(line)}
    score = Score(case["id"])
    for key, expected in case["observed"].items():
        if isinstance(expected, (int, float)) and expected in numbers:
            score.add(key, expected, found)
    return score


def endpoint_scores(cases: Path) -> Iterator[Score]:
    for line in (cases / "endpoints" / "INDEX.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        names = names_for(entry.get("engine", ""))
        unit = entry["kind"] == "unit" and entry["engine"] in UNITS_OF
        if names and (unit or entry["kind"] not in NO_TARGETS) and entry.get("what_a_reader_must_get"):
            yield endpoint_score(cases / "endpoints" / entry["file"], entry, names)


def endpoint_score(path: Path, entry: Mapping[str, Any], names: Names) -> Score:
    found = argv_values(path, names) if entry["kind"] in ("cmdline", "unit") else values_in(path, names)
    score = Score(entry["file"])
    for key, expected in flat(entry["what_a_reader_must_get"]):
        if key in NOT_STATED:
            continue
        if expected is None:
            score.add_null(key, found, path.read_text("utf-8", errors="replace"))
        elif isinstance(expected, (int, float)) or found.of(key):
            score.add(key, expected, [found])
        else:
            score.words += 1
    return score


def argv_values(path: Path, names: Names) -> Values:
    data = json.loads(path.read_text("utf-8"))
    words = data.get("argv") or data.get("argv_with_shell_variables") or started_by(data["directives"])
    items = gather([], [shlex.join(words)], Options())
    values = Values(read(items)[0], names)
    [item] = items
    if isinstance(item.content, Argv) and any("router" in word for word in words):
        flags = from_argv(item, item.content)
        malformed = "urls_with_a_comma" in flags.figures
        values.now.update(prefill=[len(flags.prefill)], decode=[len(flags.decode)], malformed=[malformed])
    return values


def started_by(directives: Sequence[Sequence[Any]]) -> list[str]:
    return next(list(value) for _, name, value in directives if name == "ExecStart")


def flat(expected: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves with their path. Of a list of lines the last counts; each value of a list of numbers does."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            yield from flat(value, f"{key}.{name}" if key else name)
    elif isinstance(expected, list):
        for value in expected if not isinstance(expected[0], dict) else expected[-1:]:
            yield from flat(value, key)
    else:
        yield key, expected


def print_table(title: str, scores: Sequence[Score]) -> None:
    print(f"\n{title:58} stated read wrong  null kept")
    for score in scores:
        nulls = f"{score.nulls_kept} of {score.nulls}" if score.nulls else ""
        print(f"{score.name[:58]:58} {score.stated:6} {score.read:4} {len(score.wrong):5}  {nulls}")
        for word, keys in (("missed", score.missed), ("wrong", score.wrong), ("invented", score.invented)):
            if keys:
                print(f"    {word}: {', '.join(keys)}")


def total_line(scores: Sequence[Score]) -> str:
    stated, got = sum(s.stated for s in scores), sum(s.read for s in scores)
    wrong, nulls = sum(len(s.wrong) for s in scores), sum(s.nulls for s in scores)
    kept, words = sum(s.nulls_kept for s in scores), sum(s.words for s in scores)
    share = got / stated if stated else 1.0
    return (
        f"stated {stated}, read {got} ({share:.1%}), wrong {wrong}, null kept {kept} of {nulls}; "
        f"{words} in words, not compared"
    )


def passed(scores: Sequence[Score]) -> bool:
    stated, got = sum(s.stated for s in scores), sum(s.read for s in scores)
    return got >= LEAST * stated and not any(s.wrong or s.invented for s in scores)


def main() -> int:
    folder = os.environ.get("ULLAGE_CASES", "")
    if not folder or not Path(folder, "startup-logs.jsonl").exists():
        print("ULLAGE_CASES names no folder with startup-logs.jsonl: nothing to measure")
        return 0
    starts, pages = list(startup_scores(Path(folder))), list(endpoint_scores(Path(folder)))
    print_table(f"start-up logs, each behind {len(PREFIXES)} prefixes", starts)
    print_table("endpoints, run-time logs, command lines", pages)
    print(f"\nstart-up logs: {total_line(starts)}")
    print(f"endpoints: {total_line(pages)}")
    print(f"all: {total_line([*starts, *pages])}")
    return 0 if passed(starts) and passed(pages) else 1


if __name__ == "__main__":
    sys.exit(main())

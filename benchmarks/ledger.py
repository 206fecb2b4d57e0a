"""How the ledgers do on public start-up logs: what is unaccounted for, and how well the identity gives the pool.

    python benchmarks/ledger.py ~/ullage-cases/startup-logs.jsonl [a start-up log ...]

A file of cases holds one JSON object a line with `engine`, `log_lines`, and the fraction that was asked for
(`mem_fraction`), which is given as a command line beside the lines. *Identity*: SGLang's pool, or vLLM's KV memory, by
the formula from what was free, against the one that is stated. Exits 1 where a ledger does not sum to its whole.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ullage.capacity.ledger import Ledger
from ullage.cli.gather import Options, gather
from ullage.engines.ledger import Account
from ullage.report.memory_model import memory_of
from ullage.units import GIB

_LAUNCH = {
    "sglang": "python -m sglang.launch_server --mem-fraction-static {}",
    "vllm": "vllm serve --gpu-memory-utilization {}",
}


class Result(NamedTuple):
    """One server of one log."""

    name: str
    engine: str
    whole: float | None  # GiB
    unaccounted: tuple[float, float, float] | None  # GiB: value, low, high
    error: float | None
    within: bool | None  # is the stated pool within the range that the rounding of the inputs leaves?
    sums: bool
    unknown: str


def results_of(path: Path) -> Iterator[Result]:
    """Every case of a file of cases; or one log."""
    if path.suffix != ".jsonl":
        yield from _results(path.name, [str(path)], [])
        return
    with tempfile.TemporaryDirectory() as folder:
        for line in path.read_text("utf-8").splitlines():
            case = json.loads(line)
            if case.get("log_lines") and case["engine"] in ("sglang", "vllm", "llama.cpp"):
                yield from _of_case(case, Path(folder))


def _of_case(case: dict[str, Any], folder: Path) -> Iterator[Result]:
    log = folder / f"{case['id']}.log"
    log.write_text("\n".join((*case["log_lines"], "")), "utf-8")
    fraction, launch = case.get("mem_fraction"), _LAUNCH.get(case["engine"])
    flags = [launch.format(fraction)] if fraction and launch else []
    yield from _results(case["id"], [str(log)], flags)


def _results(name: str, targets: list[str], flags: list[str]) -> Iterator[Result]:
    found = memory_of(gather(targets, flags, Options()), GIB)
    for account in found.accounts:
        yield _result(name, account)


def _result(name: str, account: Account) -> Result:
    ledgers = [led for led in account.ledgers if led.whole.known]
    first = ledgers[0] if ledgers else None
    rest = first.unaccounted if first else None
    check = account.tap.checks[0] if account.tap.checks else None
    return Result(
        name,
        account.server.engine,
        first.whole.number / GIB if first else None,
        (rest.number / GIB, rest.least / GIB, rest.most / GIB) if rest else None,
        check.error if check else None,
        check.predicted.least <= check.stated.most and check.stated.least <= check.predicted.most if check else None,
        all(map(_sums, ledgers)),
        account.tap.unknown,
    )


def _sums(ledger: Ledger) -> bool:
    return sum(part.size.count for part in ledger.parts) + ledger.unaccounted.count == ledger.whole.count


def main(paths: list[str]) -> int:
    results = [result for path in paths for result in results_of(Path(path))]
    print(f"{'case':<44}{'engine':<10}{'whole':>8}  {'unaccounted, GiB':<26}{'identity':>10}")
    for r in results:
        whole = f"{r.whole:8.2f}" if r.whole is not None else f"{'-':>8}"
        rest = "{:.2f} ({:.2f} to {:.2f})".format(*r.unaccounted) if r.unaccounted else "-"
        error = f"{r.error:+.3%}{'' if r.within else ' !'}" if r.error is not None else "-"
        print(f"{r.name[:43]:<44}{r.engine:<10}{whole}  {rest:<26}{error:>10}  {r.unknown[:60]}")
    for engine in dict.fromkeys(r.engine for r in results):
        _sum_up(engine, [r for r in results if r.engine == engine])
    return 0 if all(r.sums for r in results) else 1


def _sum_up(engine: str, results: list[Result]) -> None:
    rests = [abs(r.unaccounted[0]) for r in results if r.unaccounted]
    errors = sorted(abs(r.error) for r in results if r.error is not None)
    within = sum(r.within is True for r in results)
    told = f"{engine}: {len(results)} logs, {len(rests)} with a whole"
    if rests:
        told += f" (unaccounted: median {statistics.median(rests):.2f}, at most {max(rests):.2f} GiB)"
    if errors:
        told += f"; identity on {len(errors)}: median error {statistics.median(errors):.3%}, at most {errors[-1]:.3%},"
        told += f" {within} within what rounding leaves open"
    print(told)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

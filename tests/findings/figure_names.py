"""Every name that a figure can have, as the readers have them: tables of arguments and metrics, the quantities of log
lines put through what makes figures of them, and names that stand in the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from unittest.mock import Mock

from tests.evidence import log
from ullage.engines.events import Event, LineRule
from ullage.engines.llamacpp import flags as llamacpp_flags
from ullage.engines.llamacpp import from_endpoints as llamacpp_endpoints
from ullage.engines.llamacpp import from_log as llamacpp_log
from ullage.engines.llamacpp import lines as llamacpp_lines
from ullage.engines.llamacpp import log_caches, log_use
from ullage.engines.llamacpp.starts import Start as LlamacppStart
from ullage.engines.router import flags as router_flags
from ullage.engines.router import read as router_read
from ullage.engines.sglang import batches, from_endpoints, from_metrics, log_start, log_usage
from ullage.engines.sglang import facts as sglang_facts
from ullage.engines.sglang import lines as sglang_lines
from ullage.engines.sglang.starts import Start as SglangStart
from ullage.engines.vllm import arguments as vllm_arguments
from ullage.engines.vllm import from_log as vllm_log
from ullage.engines.vllm import from_metrics as vllm_metrics
from ullage.engines.vllm import lines as vllm_lines
from ullage.engines.vllm.starts import Start as VllmStart
from ullage.evidence import LogLine
from ullage.tank.serve.info import tank_memory

SOURCE = Path(sglang_lines.__file__).parents[2]
LOG = log("a.log", "a line")
_MAKERS = {
    **dict.fromkeys(
        "Figure derived inferred missing default read configured added less times figure_of renamed".split(), 0
    ),
    **dict.fromkeys(("in_bytes", "cut_to_mib"), 1),
}
_PLACES = ("engines", "capacity", "findings", "report", "deployment.py")


def tables() -> Iterator[str]:
    """Arguments, series of metrics pages, and fields of endpoints, by the names that their figures have."""
    yield from (*sglang_facts.ARGUMENTS, *vllm_arguments.ARGUMENTS, *llamacpp_flags._VALUES, *llamacpp_flags._SWITCHES)
    yield from (*router_flags._NUMBERS, *router_flags._SWITCHES, *router_flags._WORDS, *router_read._SUMS.values())
    yield from (*from_metrics._CONSTANTS, *from_metrics._GAUGES, *batches._NAMES.values())
    yield from (*from_endpoints._MEMORY.values(), *from_endpoints._LOAD_EFFECTIVE.values())
    yield from (*from_endpoints._LOAD_USAGE.values(), *from_endpoints._LOAD_QUEUES.values())
    yield from (*vllm_metrics._GAUGES, *vllm_metrics._COUNTERS, *vllm_metrics._CONFIG)
    yield from (f"{series}_some_{label}" for series, label in vllm_metrics._BY_LABEL.items())
    yield from (f"{of}{name}{part}" for name in vllm_metrics._HISTOGRAMS for of, part in _OF_HISTOGRAM)
    yield from (*llamacpp_endpoints._META.values(), *sglang_lines._SUMMARY_NAMES.values())
    yield from tank_memory(Mock())


_OF_HISTOGRAM = (("mean_", ""), ("", "_sum"), ("", "_count"))


def of_lines() -> set[str]:
    """What each rule of the logs gives, alone and where it needs another line before it. A group that stays inside its
    reader is in none of the figures.
    """
    return {*_of_sglang(), *_of_vllm(), *_of_llamacpp()}


def _event(step: Enum, names: Iterable[str]) -> Event:
    return Event(step, "", "10:00:00", LogLine(1, "a line"), dict.fromkeys(names, 1))


def _events(rules: Sequence[LineRule]) -> list[Event]:
    return [_event(rule.step, (name.rstrip("_") for name in re.compile(rule.pattern).groupindex)) for rule in rules]


def _of_sglang() -> Iterator[str]:
    retraction = _event(sglang_lines.Step.RETRACT, batches._RETRACT.groupindex)
    window = _event(sglang_lines.Step.NOTE, ["swa_max_total_num_tokens"])
    for event in (retraction, *_events(sglang_lines._RULES)):
        for start in (SglangStart(events=[event]), SglangStart(events=[window, event])):
            yield from log_start.start_figures(start, LOG)
            yield from log_usage.usage_figures(start, LOG)[0]


def _of_vllm() -> Iterator[str]:
    step = vllm_lines.Step
    tags = vllm_lines.process_ids("(APIServer pid=7) (EngineCore_DP0 pid=8) ")
    statistics = vllm_lines._STATS.groupindex.keys() - {"engine"}  # that is the rank
    again = _event(step.STATS, {*statistics, "cpu_kv_cache_usage_percent"})
    for event in (*_events(vllm_lines._RULES), _event(step.NOTE, tags), again):
        yield from vllm_log.start_figures(VllmStart(events=[event]), LOG)
        if event.step is step.STATS:
            yield from (*vllm_log._last([event], LOG), *vllm_log._before(VllmStart(events=[event]), LOG))
        yield from vllm_log._counted(VllmStart(events=[event]), LOG)
    yield from vllm_log._OF_CONFIG


def _of_llamacpp() -> Iterator[str]:
    for events in _llamacpp_events():
        start = LlamacppStart(events=events)
        yield from llamacpp_log.start_figures(start, LOG)
        yield from log_use.usage_figures(start, LOG)
        yield from (name for slot in log_use.slot_figures(start, LOG).values() for name in slot)


def _llamacpp_events() -> Iterator[list[Event]]:
    """Each line alone; those of a cache's size and of its buffers behind the line that names the cache."""
    step = llamacpp_lines.Step
    rules = _events(llamacpp_lines._RULES)
    sizes = [event for event in rules if event.step is step.KV]
    sizes += [_event(step.KV, event.values.keys() - {"r_mib", "s_mib"}) for event in sizes]
    buffers = [event for event in rules if event.step is step.BUFFER]
    buffers += [_with(buffers[0], what=what) for what in ("KV", "a state", *log_caches._WHATS)]
    names = [_with(_event(step.CACHE, ["cells"]), cache=name) for name in (*log_caches._CACHES, "a new one")]
    yield from ([event] for event in (*rules, *sizes, *buffers))
    yield from ([name, event] for name in names for event in (*sizes, *buffers))


def _with(event: Event, **values: str) -> Event:
    return Event(event.step, event.rank, event.time, event.line, {**event.values, **values})


def literals() -> Iterator[str]:
    """Names that stand in the code where a figure is made, or where they are handed on to what makes one."""
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] in _PLACES:
            yield from literals_of(path.read_text("utf-8"))


def literals_of(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    module = {
        t.id: n.value for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)
    }
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    makers = _with_helpers(functions)
    for function in functions:
        for name in _names_given(function, makers):
            yield from _text(name)
        for loop in ast.walk(function):
            bound = dict(_bound(loop, module))
            given = _names_given(loop, makers) if bound else ()
            yield from (text for name in given if isinstance(name, ast.Name) for text in bound.get(name.id, ()))
    for node in ast.walk(tree):  # the triples of `readings` and `words`
        if isinstance(node, ast.Tuple) and len(node.elts) == 3 and _is_source(node.elts[2]):
            yield from _text(node.elts[0])


def _with_helpers(functions: Sequence[ast.FunctionDef]) -> dict[str, int]:
    """What makes figures, by the place of the name among its arguments: also what hands a parameter on as the name."""
    makers, found = dict(_MAKERS), -1
    while found != len(makers):
        found = len(makers)
        for function in functions:
            parameters = [a.arg for a in function.args.args if a.arg != "self"]
            given = (n.id for n in _names_given(function, makers) if isinstance(n, ast.Name))
            place = next((parameters.index(name) for name in given if name in parameters), None)
            if place is not None:
                makers.setdefault(function.name, place)
    return makers


def _names_given(code: ast.AST, makers: Mapping[str, int]) -> Iterator[ast.expr]:
    for node in ast.walk(code):
        if isinstance(node, ast.Call):
            place = makers.get(node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", ""))
            if place is not None and place < len(node.args):
                yield node.args[place]


def _bound(loop: ast.AST, module: Mapping[str, ast.expr]) -> Iterator[tuple[str, list[str]]]:
    """What a loop over written names binds: `for name in ("a", "b")`, `for name, unit in _TABLE`."""
    for node in [loop] if isinstance(loop, ast.For) else getattr(loop, "generators", ()):
        many = module.get(node.iter.id) if isinstance(node.iter, ast.Name) else node.iter
        for place, target in enumerate(getattr(node.target, "elts", [node.target])):
            if isinstance(target, ast.Name) and isinstance(many, ast.Tuple | ast.List):
                rows = [row.elts[place] if isinstance(row, ast.Tuple) else row for row in many.elts]
                yield target.id, [text for row in rows for text in _text(row)]


def _is_source(node: ast.expr) -> bool:
    return (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Source") or (
        isinstance(node, ast.Name) and node.id in ("place", "source", "length")
    )


def _text(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value

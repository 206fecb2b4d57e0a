"""llama.cpp's logs: each process that writes into one by its last start, with what its run shows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ...evidence import Evidence, Log
from ...figure import Figure
from ..events import Event, Value, figure_of, source_of
from ..facts import Facts, quantity
from ..server import EarlierStart, Role
from .flags import arguments_of
from .lines import Step
from .log_caches import cache_figures
from .log_devices import device_figures
from .log_use import slot_figures, usage_figures
from .starts import Start, processes_of

_STATED = (Step.BEGIN, Step.MODEL, Step.CONTEXT, Step.SLOTS, Step.READY, Step.ROUTER, Step.NOTE, Step.UNIT)
_NO_FIGURES = frozenset(
    """commit verbosity n_threads command constructing spawned spawned_port sleeping woken router device unit idle
    loaded exit_code ollama""".split()
)
_OLLAMA = (
    "Ollama runs this model: OLLAMA_NUM_PARALLEL sets the slots, and its own queue stands before them, which refuses"
    " with 503 beyond OLLAMA_MAX_QUEUE (512 by default)"
)
_NO_LIBRARY = "the lines of the library are not in this log: llama-server prints them with -lv 4 in builds since 2026"
_NO_CONTEXT = (
    "the log ends while the model is loaded, before its context is made: the start is not finished, or it died"
)
_WORDS = {"true": True, "false": False, "embeddings enabled": True}
_DRAFTS = frozenset(["draft_model", "mtp"])
_SWITCHES = ("kv_unified", "embedding")


def from_log(evidence: Evidence, log: Log) -> list[Facts]:
    return [_facts(evidence, log, starts) for starts in processes_of(log)]


def _facts(evidence: Evidence, log: Log, starts: list[Start]) -> Facts:
    current, origin = starts[-1], evidence.origin
    if current.child:
        stream = f"{origin.stream} child on port {current.child}".strip()
        evidence = evidence._replace(origin=origin._replace(stream=stream))
    return Facts(
        evidence,
        "log",
        args=_arguments(current, evidence),
        effective=start_figures(current, evidence),
        usage=usage_figures(current, evidence),
        rank_usage=slot_figures(current, evidence),
        role=Role.ROUTER if current.is_router else Role.UNIFIED,
        earlier=tuple(_earlier(start, evidence) for start in starts[:-1]),
        notes=tuple(_notes(current, log)),
    )


def start_figures(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """What the start states: of the target model; a draft model's context comes under draft_ names."""
    figures: dict[str, Figure] = {}
    for prefix, event in _of_models(start):
        for name, value in event.values.items():
            if event.step in _STATED and name not in _NO_FIGURES and _is_value(name, value):
                told = _WORDS.get(str(value), value) if name in _SWITCHES else value
                figures[prefix + name] = figure_of(prefix + name, told, evidence, event)
    for event in start.of(Step.LOAD):
        for name in ("model_path", "draft_model"):
            if not str(event.values.get(name, "/")).endswith("/"):  # a folder is no model: loading it fails
                figures[name] = figure_of(name, event.values[name], evidence, event)
    figures |= _version(start, evidence)
    figures = device_figures(start.events, evidence) | cache_figures(_of_models(start), evidence) | figures
    if start.ready:
        shown = next((e for e in start.events if e.step in (Step.READY, Step.RUN, Step.ROUTER)), start.events[0])
        figures["ready"] = figure_of("ready", True, evidence, shown)
    elif refused := start.refusal:
        figures["ready"] = figure_of("ready", False, evidence, refused)
    return figures


def _is_value(name: str, value: Value) -> bool:
    return isinstance(value, str) or quantity(name, value) is not None


def _of_models(start: Start) -> list[tuple[str, Event]]:
    """Every event with "draft_" before those of a second model: another file, the same file again where it is loaded as
    the draft model, or the same model's MTP layers.
    """
    found, first, prefix, drafts = [], "", "", False
    for event in start.events:
        if event.step is Step.LOAD:
            path = str(event.values.get("loader_path") or event.values.get("model_path") or "")
            first = first or path
            drafts = "model_path" not in event.values and (drafts or bool(_DRAFTS & event.values.keys()))
            if path or drafts:
                prefix = "draft_" if drafts or path != first else ""
        elif event.step in (Step.SLOTS, Step.READY, Step.RUN):
            prefix, drafts = "", False
        found.append((prefix, event))
    return found


def _version(start: Start, evidence: Evidence) -> dict[str, Figure]:
    event = next((e for e in start.events if "build" in e.values), None)
    return {"version": figure_of("version", f"b{event.values['build']}", evidence, event)} if event else {}


def _arguments(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """A command line that a wrapper printed, and the switches that a line of the server names."""
    event = next((e for e in start.events if "command" in e.values), None)
    if event is None:
        return {}
    args, _ = arguments_of(_split(str(event.values["command"])), {}, source_of(evidence, event, "command line"))
    return args


def _split(command: str) -> list[str]:
    """A backslash separates folders. A path with a space in it is broken, which costs its value alone."""
    words = shlex.shlex(command, posix=True, punctuation_chars="")
    words.whitespace_split, words.escape, words.commenters = True, "", ""
    try:
        return [*words]
    except ValueError:
        return command.split()


def _earlier(start: Start, evidence: Evidence) -> EarlierStart:
    return EarlierStart(start.began, start_figures(start, evidence), "" if start.ready else "it never came up")


def _notes(start: Start, log: Log) -> Iterator[str]:
    yield from log.gaps
    killed = next((e for e in start.events if "killed_by" in e.values), None)
    if killed is not None:
        yield f"killed: {killed.line.text[-160:].strip()}"
    if start.says("ollama"):
        yield _OLLAMA
    if start.is_router:
        return
    if refused := start.refusal:
        yield f"the server did not come up: {refused.line.text[-160:].strip()}"
    elif not start.says("n_ctx"):
        unfinished = _NO_CONTEXT if start.ends_loading else ""
        yield unfinished or (_NO_LIBRARY if start.says("n_slots") else "the start-up lines are not in this log")

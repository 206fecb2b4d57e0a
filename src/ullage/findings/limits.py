"""Findings about limits that were asked for, and limits that nobody set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from ..capacity.request import Shape
from ..deployment import Deployment, reach_of, server_limits
from ..engines.server import Role, Server, Setting
from ..figure import Figure
from .base import Hit, Severity, in_words, rule
from .levers import levers_of

_INPUT_MARGIN = 8  # tokens by which an input limit may lie below the context or pool that it comes from

_CHAT_TOKENS = 1024


@rule("limit-lowered", Severity.WARNING, "A requested limit was lowered")
def limit_lowered(deployment: Deployment) -> Iterator[Hit]:
    """The engine starts with less than was asked for, and says so at most once in its log.

    `--max-running-requests` is lowered to half the pool's tokens or to what the recurrent-state slots allow;
    `--max-total-tokens` only ever caps the pool; a context length can be cut by the model, and vLLM cuts it to what
    fits where `--max-model-len auto` asks for that. What is in effect is what counts.
    """
    for server in deployment.workers:
        for setting in server.settings:
            if not _lowered(server, setting):
                continue
            asked, effective = setting.requested, setting.effective
            why = f": {setting.why}" if setting.why else ""
            yield Hit(
                server.name,
                f"{setting.label}: {asked.number:,} asked for, {effective.number:,} in effect{why}",
                (asked, effective),
                _lever(server, setting.label),
            )


def _lowered(server: Server, setting: Setting) -> bool:
    """By more than rounding to whole pages."""
    asked, effective = setting.requested.value, setting.effective.value
    if not (_is_number(asked) and _is_number(effective)):
        return False
    page = server.figure("page_size")
    step = page.number if page.known and setting.effective.unit == "tokens" else 0
    return setting.differs and asked - effective >= step and asked > effective >= 0


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _lever(server: Server, label: str) -> str:
    levers = levers_of(server)
    states = ", --max-mamba-cache-size" if server.engine == "SGLang" else ""
    return {
        "running requests": (f"give the binding pool more ({levers.memory}{states}), or ask for what is in effect"),
        "KV pool": f"raise {levers.memory}, or lower {levers.pool} to what is in effect",
        "blocks of the pool": f"raise {levers.memory}, or lower {levers.pool} to what is in effect",
    }.get(label, "ask for what is in effect, so that clients plan with it")


@rule("no-output-bound", Severity.INFO, "A client that names no output length can take a full context")
def no_output_bound(deployment: Deployment) -> Iterator[Hit]:
    """A chat completion without `max_tokens` runs to its end token or to the end of the context.

    SGLang reserves no output beyond a few hundred tokens, vLLM and llama.cpp none, so they let such requests in by
    their prompts; what is safe is one full context each. Bound the output in the clients or the gateway, or in the
    server: SGLang `--preferred-sampling-params '{"max_new_tokens": N}'`, vLLM `--override-generation-config
    '{"max_new_tokens": N}'`, llama-server `-n N`. A llama-server whose slots have a pool each holds a full context in
    every slot: nothing to tell there.
    """
    for server in deployment.of(Role.UNIFIED, Role.DECODE):
        if server.default_output.value != "unbounded":
            continue
        found = server_limits(server, Shape(_chat_prompt(server), None))
        safe, kv = found.safe, server.pool("KV pool")
        if kv is None or not kv.counted or not safe.known:
            continue
        if server.engine != "llama.cpp" or safe.most < found.admits.count:
            yield Hit(
                server.name,
                f"with no max_tokens named, {_chats(safe)} safe in parallel: short prompts, and output to the end"
                " of the context",
                (server.default_output, safe),
                "name max_tokens in the clients" + (f", or set {bound}" if (bound := levers_of(server).output) else ""),
            )


def _chats(count: Figure) -> str:
    one = count.least == count.most == 1
    return f"{in_words(count)} chat request{' is' if one else 's are'}"


def _chat_prompt(server: Server) -> int:
    longest = reach_of(server).tokens
    return max(1, min(_CHAT_TOKENS, longest.count // 2)) if longest.known else _CHAT_TOKENS


@rule("roles-differ-in-length", Severity.WARNING, "Prefill and decode accept different longest requests")
def roles_differ(deployment: Deployment) -> Iterator[Hit]:
    """A request that one side accepts and the other refuses fails after work was done for it, or hangs until a timeout.

    Give both roles the same `--context-length` (vLLM: `--max-model-len`), and pools that hold it. (sgl-project/sglang
    PR 31664 lets the sides share the limit.)
    """
    prefill = [reach_of(s).tokens for s in deployment.of(Role.PREFILL)]
    decode = [reach_of(s).tokens for s in deployment.of(Role.DECODE)]
    if not (prefill and decode and all(f.known for f in (*prefill, *decode))):
        return
    least_prefill, least_decode = min(prefill, key=_tokens), min(decode, key=_tokens)
    if abs(least_prefill.count - least_decode.count) <= _INPUT_MARGIN:
        return
    least = min(least_prefill, least_decode, key=_tokens)
    yield Hit(
        "prefill and decode",
        f"prefill accepts up to {least_prefill.count:,} tokens, decode {least_decode.count:,}",
        (least_prefill, least_decode),
        f"set {levers_of(deployment.of(Role.PREFILL)[0]).context} {least.count} on both, or give the smaller side a"
        " larger pool",
    )


def _tokens(figure: Figure) -> int:
    return figure.count


@rule("few-open-files", Severity.INFO, "The limit on open files was not raised")
def few_open_files(deployment: Deployment) -> Iterator[Hit]:
    """vLLM tries to raise its limit on open files to 65,535 and says where it may not. Each connection is one, and the
    files of the model, of the workers and of a router's connections come on top; when they are used up, requests fail
    with "Too many open files" although there is room in the pool. (sgl-project/sglang issue 7551 is the same trap.)

    A warning where the server may run as many requests as that. Under systemd `LimitNOFILE=` sets the limit.
    """
    for server in deployment.workers:
        limit, slots = server.figure("open_files_limit"), server.pool("request slots")
        if limit.known:
            many = slots is not None and 2 * slots.size.number * slots.partitions >= limit.number
            yield Hit(
                server.name,
                f"at most {limit.count:,} open files, connections among them",
                (limit, *((slots.size,) if slots else ())),
                "set LimitNOFILE=65535 in the unit (or ulimit -n 65535, --ulimit nofile of the container)",
                Severity.WARNING if many else None,
            )

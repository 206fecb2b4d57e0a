"""`ullage tank`: a small, real prefill/decode deployment on the CPU, for trying, testing and teaching."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..errors import UsageError

_F = TypeVar("_F", bound=Callable[..., Any])

# Handed on to every worker as they are; SGLang's names, but for --memory, --pace and --threads, which are the tank's.
_WORKER_OPTIONS = (
    ("--memory", "SIZE", "What a worker has for weights, KV pool, tables and scratch: its GPU, so to say. [1GiB]"),
    ("--mem-fraction-static", "SHARE", "Of that memory, for weights and KV pool."),
    ("--max-total-tokens", "TOKENS", "The KV pool, at most."),
    ("--page-size", "TOKENS", "Tokens in a page of the pool. [16]"),
    ("--context-length", "TOKENS", "The longest request, prompt and output."),
    ("--max-running-requests", "N", "Requests that run at once, at most."),
    ("--max-queued-requests", "N", "Requests that wait, at most."),
    ("--chunked-prefill-size", "TOKENS", "Prompt tokens in one forward pass. [512]"),
    ("--max-prefill-tokens", "TOKENS", "Prompt tokens let in at once. [16384]"),
    ("--num-reserved-decode-tokens", "TOKENS", "Kept back for each request on decode. [512]"),
    ("--schedule-conservativeness", "FACTOR", "How carefully requests are let in. [1.0]"),
    ("--served-model-name", "NAME", "The model's name for clients."),
    ("--random-seed", "N", "Of the tiny model's weights."),
    ("--transfer", "NAME", "How KV gets from prefill to decode: tcp or nixl. [tcp]"),
    ("--pace", "prefill=S,decode=S", "A step clock in place of the machine's own speed, for exact tests of rates."),
    ("--threads", "N", "Threads of a worker. [all cores]"),
)


def _worker_options(function: _F) -> _F:
    for flag, metavar, text in reversed(_WORKER_OPTIONS):
        function = click.option(flag, metavar=metavar, help=text)(function)
    return function


@click.group(invoke_without_command=True)
@click.pass_context
def tank(context: click.Context) -> None:
    """A small, real prefill/decode deployment on the CPU.

    \b
    ullage tank up                      prefill, decode and the router, on this machine
    ullage limits http://127.0.0.1:8000 --follow
    ullage tank down
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


_PORT = click.IntRange(1, 65535)
_COUNT = click.IntRange(1, 64)


@tank.command()
@click.option("--prefill", type=_COUNT, metavar="N", help="Prefill workers. [1]")
@click.option("--decode", type=_COUNT, metavar="N", help="Decode workers. [1]")
@click.option("--unified", type=_COUNT, metavar="N", help="Workers that do both, in place of prefill and decode.")
@click.option("--model", default="smollm2", show_default=True, help="smollm2, tiny (random, at once), or a GGUF file.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where the router listens. Workers: on loopback.")
@click.option("--port", type=_PORT, default=8000, show_default=True, help="Of the router.")
@click.option("--base-port", type=_PORT, default=30000, show_default=True, help="Of the first worker; then upwards.")
@click.option("--bootstrap-port", type=_PORT, default=8998, show_default=True, help="Of the first prefill worker.")
@click.option("--metrics-port", type=_PORT, default=29000, show_default=True, help="Of the router's metrics.")
@click.option("--policy", metavar="NAME", help="How the router spreads requests: round_robin, cache_aware, random ...")
@_worker_options
@click.option("--disable-radix-cache", is_flag=True, help="No prefix cache.")
@click.option("--prefill-flags", default="", metavar="FLAGS", help="Further flags of prefill workers, in one word.")
@click.option("--decode-flags", default="", metavar="FLAGS", help="Further flags of decode workers.")
@click.option("--router-flags", default="", metavar="FLAGS", help="Further flags of sglang-router.")
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the key of all of them.")
@click.option("--start-timeout", type=click.FloatRange(1), default=600.0, metavar="SECONDS", help="To serve in. [600]")
@click.option("--detach", is_flag=True, help="Leave it running, with a supervisor, and return.")
def up(**words: Any) -> int:
    """Starts the workers and the router, and looks after them until Ctrl-C or `ullage tank down`.

    It is up once a request went through the router. A process that dies is started again. All of it listens on this
    machine only, unless --host says otherwise.

    \b
    ullage tank up --model tiny
    ullage tank up --prefill 1 --decode 2 --memory 2GiB --detach
    ullage tank up --unified 1 --context-length 4096

    Exit codes: 0 it was up, and was told to end (with --detach: it is up), 1 it could not start, 2 usage, 130 and 143
    interrupted before it was up.
    """
    wish, limit_s = _wish(words), words["start_timeout"]
    if words["detach"]:
        from ..tank.up.background import detach

        return detach(wish, limit_s, click.echo)
    from ..tank.up import run
    from ..tank.up.state import the_place

    return run.up(wish, the_place(), limit_s=limit_s)


def _wish(words: dict[str, Any]) -> Any:
    from ..tank.up.plan import Wish

    if words["unified"] and (words["prefill"] or words["decode"]):
        raise UsageError("--unified stands in the place of --prefill and --decode", "name one or the other")
    named = ("host", "port", "base_port", "bootstrap_port", "metrics_port", "model")
    policy = ("--policy", words["policy"]) if words["policy"] else ()
    return Wish(
        **{name: words[name] for name in named},
        prefill=words["prefill"] or 1,
        decode=words["decode"] or 1,
        unified=words["unified"] or 0,
        key_env=words["api_key_env"],
        flags=_handed_on(words),
        prefill_flags=_split(words, "prefill_flags"),
        decode_flags=_split(words, "decode_flags"),
        router_flags=(*policy, *_split(words, "router_flags")),
    )


def _handed_on(words: dict[str, Any]) -> tuple[str, ...]:
    given = [(flag, words[flag[2:].replace("-", "_")]) for flag, _, _ in _WORKER_OPTIONS]
    flags = tuple(word for flag, value in given if value is not None for word in (flag, value))
    return (*flags, "--disable-radix-cache") if words["disable_radix_cache"] else flags


def _split(words: dict[str, Any], name: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(words[name]))
    except ValueError as error:
        raise UsageError(f"--{name.replace('_', '-')}: {error}", "quote it as for a shell") from None


@tank.command()
def down() -> int:
    """Ends what `ullage tank up` started, and nothing else.

    Exit code: 0, also where nothing runs.
    """
    from ..tank.up import down as ending
    from ..tank.up.state import the_place

    return ending.down(the_place(), click.echo)


@tank.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema ullage.tank-status/1).")
def status(as_json: bool) -> int:
    """What runs, since when, how full.

    Exit codes: 0 all serve, 1 something does not, 3 nothing runs.
    """
    from ..tank.up import status as showing
    from ..tank.up.state import the_place

    text, code = showing.status(the_place(), as_json=as_json)
    click.echo(text)
    return code

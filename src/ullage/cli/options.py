"""Options that several commands have: the shapes of requests, and how targets are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import click

from ..capacity.request import Shape, parse_request
from ..engines.read import Unclaimed
from ..errors import UnreachableError, UsageError
from ..evidence import Evidence, Failure
from ..units import echo_tokens, parse_tokens
from .gather import Options

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_SHAPES: tuple[Decorator, ...] = (
    click.option(
        "--at",
        "at",
        multiple=True,
        metavar="TOKENS",
        help="Also for prompts of this length, no output. 32k = 32,768.",
    ),
    click.option(
        "--request",
        "requests",
        multiple=True,
        metavar="SHAPE",
        help="Also for prompt=30000,output=2000,shared=8000. Without output: the server's default.",
    ),
)
_FLAGS = click.option(
    "--flags", "flags", multiple=True, metavar="COMMAND", help="A server's or router's command line, as evidence."
)
_ACCESS: tuple[Decorator, ...] = (
    click.option(
        "--metrics",
        "metrics",
        multiple=True,
        metavar="[SERVER=]URL",
        help="The metrics page of a server that has it on another port or host.",
    ),
    click.option(
        "--prometheus",
        "prometheus",
        metavar="URL",
        help="A Prometheus server, for servers whose endpoints cannot be reached.",
    ),
    click.option(
        "--match",
        "match",
        multiple=True,
        metavar="SELECTOR",
        help="Which servers it is asked for: '{job=\"sglang\"}'.",
    ),
    click.option("--follow", is_flag=True, help="Read a router's workers and its metrics port too."),
    click.option(
        "--api-key-env",
        "key_envs",
        multiple=True,
        metavar="[URL=]NAME",
        help="The environment variable that holds the API key, for all targets or for one.",
    ),
    click.option(
        "--cacert", type=click.Path(exists=True, dir_okay=False), help="A CA certificate to trust, beside the system's."
    ),
    click.option("--insecure", is_flag=True, help="Do not check certificates."),
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0.1, 60),
        default=2.0,
        show_default=True,
        metavar="SECONDS",
        help="What one endpoint may cost.",
    ),
)


class Sizes(NamedTuple):
    """What --at and --request say, and how it was read where that could be doubted."""

    at: list[int]
    requests: list[Shape]
    echoes: list[str]


def shapes(command: Callable[..., Any]) -> Callable[..., Any]:
    """--at and --request, as `sizes`."""

    @wraps(command)
    def with_sizes(at: tuple[str, ...], requests: tuple[str, ...], **given: Any) -> Any:
        return command(sizes=_sizes(at, requests), **given)

    return _with(_SHAPES, with_sizes)


def access(command: Callable[..., Any]) -> Callable[..., Any]:
    """--flags, as `flags`; --metrics, --prometheus, --match, --follow, --api-key-env, --cacert, --insecure and
    --timeout, as `options`.
    """

    @wraps(command)
    def with_options(**given: Any) -> Any:
        options = Options(**{name: given.pop(name) for name in Options._fields if name in given})
        if options.timeout_s != options.timeout_s:
            raise UsageError("--timeout takes a number of seconds")
        return command(options=options, **given)

    return _with((_FLAGS, *_ACCESS), with_options)


def _with(options: Sequence[Decorator], command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def _sizes(at: tuple[str, ...], requests: tuple[str, ...]) -> Sizes:
    try:
        lengths = [parse_tokens(text) for text in at]
        if any(length < 1 for length in lengths):
            raise ValueError("--at takes at least 1 token")
        echoes = [echo for text in at if (echo := echo_tokens(text))]
        asked = [parse_request(text) for text in requests]
    except ValueError as error:
        raise UsageError(str(error), "sizes are tokens: 32000, 32,000 or 32k") from None
    echoes += [
        f"{text} read as {shape}"
        for text, shape in zip(requests, map(_told, asked), strict=True)
        if "k" in text.lower() or "m" in text.lower().replace("prompt", "")
    ]
    return Sizes(lengths, asked, echoes)


def _told(shape: Shape) -> str:
    output = "the server's default" if shape.output is None else f"{shape.output:,}"
    return f"prompt {shape.prompt:,}, output {output}, shared {shape.shared:,}"


_TELLING = {"401": 0, "403": 0, "404": 2}  # a refusal says more than an endpoint that is another engine's


def nothing_found(failed: Sequence[tuple[Evidence, Failure]], unclaimed: Sequence[Unclaimed]) -> UnreachableError:
    """No server was found: the reason that tells most."""
    told = sorted(failed, key=lambda pair: _TELLING.get(pair[1].status, 1))
    first = next((f"{e.place}: {f.reason}; {f.advice}".rstrip("; ") for e, f in told), "")
    first = first or next((f"{u.evidence.place}: {u.reason}" for u in unclaimed), "nothing to read")
    return UnreachableError(f"no server was found: {first}")

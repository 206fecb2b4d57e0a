"""`ullage limits`: what can it hold, what binds, what then, what is in use, what is wrong."""

from __future__ import annotations

import sys

import click

from ..capacity.request import Shape, parse_request
from ..errors import UnreachableError, UsageError
from ..report.model import Report, report_on
from ..units import echo_tokens, parse_tokens
from .gather import Options, gather


@click.command()
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option(
    "--at", "at", multiple=True, metavar="TOKENS", help="One more row: prompts of this length, no output. 32k = 32,768."
)
@click.option(
    "--request",
    "requests",
    multiple=True,
    metavar="SHAPE",
    help="One more row: prompt=30000,output=2000,shared=8000. Without output: the server's default.",
)
@click.option(
    "--flags", "flags", multiple=True, metavar="COMMAND", help="A server's or router's command line, as evidence."
)
@click.option(
    "--metrics",
    "metrics",
    multiple=True,
    metavar="[SERVER=]URL",
    help="The metrics page of a server that has it on another port or host.",
)
@click.option("--follow", is_flag=True, help="Read a router's workers and its metrics port too.")
@click.option(
    "--api-key-env",
    "key_envs",
    multiple=True,
    metavar="[URL=]NAME",
    help="The environment variable that holds the API key, for all targets or for one.",
)
@click.option(
    "--cacert", type=click.Path(exists=True, dir_okay=False), help="A CA certificate to trust, beside the system's."
)
@click.option("--insecure", is_flag=True, help="Do not check certificates.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1, 60),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="What one endpoint may cost.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema ullage.limits/1).")
@click.option("--sources", is_flag=True, help="Print where every number comes from.")
@click.option(
    "--html",
    "html",
    metavar="FILE",
    help="Write one self-contained page for a browser too (- for standard output).",
)
@click.option(
    "--plot/--no-plot",
    default=None,
    help="Plot the limits, or do not. By default: on terminals of 60 columns and more.",
)
@click.option("--fail-on", type=click.Choice(["warning", "error"]), help="Exit 1 when a finding is at least this bad.")
def limits(
    targets: tuple[str, ...],
    at: tuple[str, ...],
    requests: tuple[str, ...],
    flags: tuple[str, ...],
    metrics: tuple[str, ...],
    follow: bool,
    key_envs: tuple[str, ...],
    cacert: str | None,
    insecure: bool,
    timeout_s: float,
    as_json: bool,
    sources: bool,
    html: str | None,
    plot: bool | None,
    fail_on: str | None,
) -> int:
    """What the servers behind TARGETs can hold.

    A TARGET is a URL or a Unix socket of a server or a router, a log or a captured endpoint file (server_info.json,
    metrics.txt), an ullage.toml, or - for standard input. Several files that speak of one server are read as one.

    \b
    ullage limits http://localhost:30000 --at 32000
    journalctl -u sglang -o short-iso | ullage limits -
    ullage limits startup.log --flags "python -m sglang.launch_server --tp 4"
    ullage limits http://localhost:8000 --follow --html limits.html

    Exit codes: 0 done, 1 findings as bad as --fail-on, 2 usage, 3 nothing could be read.
    """
    if timeout_s != timeout_s:
        raise UsageError("--timeout takes a number of seconds")
    if not targets and not flags:
        raise UsageError(
            "no target", "name one: ullage limits http://localhost:30000, a log file, or - for standard input"
        )
    if html == "-" and as_json:
        raise UsageError("--html - and --json both print to standard output", "name a file for the page")
    lengths, shapes, echoes = _sizes(at, requests)
    items = gather(targets, flags, Options(follow, key_envs, cacert, insecure, timeout_s, metrics))
    report = report_on(items, lengths, shapes, echoes)
    if as_json or report.deployment.servers:
        _show(report, as_json, sources, html, plot)
    _require_something(report)
    return _exit_code(report, fail_on)


def _sizes(at: tuple[str, ...], requests: tuple[str, ...]) -> tuple[list[int], list[Shape], list[str]]:
    try:
        lengths = [parse_tokens(text) for text in at]
        if any(length < 1 for length in lengths):
            raise ValueError("--at takes at least 1 token")
        echoes = [echo for text in at if (echo := echo_tokens(text))]
        shapes = [parse_request(text) for text in requests]
    except ValueError as error:
        raise UsageError(str(error), "sizes are tokens: 32000, 32,000 or 32k") from None
    echoes += [
        f"{text} read as {shape}"
        for text, shape in zip(requests, map(_told, shapes), strict=True)
        if "k" in text.lower() or "m" in text.lower().replace("prompt", "")
    ]
    return lengths, shapes, echoes


def _told(shape: Shape) -> str:
    output = "the server's default" if shape.output is None else f"{shape.output:,}"
    return f"prompt {shape.prompt:,}, output {output}, shared {shape.shared:,}"


def _show(report: Report, as_json: bool, sources: bool, html: str | None, plot: bool | None) -> None:
    """The page first: where it cannot be written, nothing is printed. In the place of the screen where it is `-`."""
    if html is not None and report.deployment.servers:
        from ..report.html import to_html

        if html == "-":
            click.echo(to_html(report), nl=False)
            return
        from .write import write_whole

        write_whole(html, to_html(report))
    _print(report, as_json, sources, plot)


def _print(report: Report, as_json: bool, sources: bool, plot: bool | None) -> None:
    if as_json:
        from ..report.json_form import to_json

        click.echo(to_json(report))
        return
    from ..report.terminal import print_report

    print_report(report, sources=sources, plot=plot)
    sys.stdout.flush()


_TELLING = {"401": 0, "403": 0, "404": 2}  # a refusal says more than an endpoint that is another engine's


def _require_something(report: Report) -> None:
    if not report.deployment.servers:
        told = sorted(report.failed, key=lambda failed: _TELLING.get(failed[1].status, 1))
        first = next((f"{e.place}: {f.reason}; {f.advice}".rstrip("; ") for e, f in told), "")
        first = first or next((f"{u.evidence.place}: {u.reason}" for u in report.unclaimed), "nothing to read")
        raise UnreachableError(f"no server was found in the targets: {first}")


def _exit_code(report: Report, fail_on: str | None) -> int:
    worst = {"error": ("error",), "warning": ("error", "warning"), None: ()}[fail_on]
    return 1 if any(f.severity.value in worst for f in report.findings) else 0

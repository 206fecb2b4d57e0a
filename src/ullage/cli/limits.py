"""`ullage limits`: what can it hold, what binds, what then, what is in use, what is wrong."""

from __future__ import annotations

import sys

import click

from ..errors import UsageError
from ..report.model import Report, report_on
from .gather import Options, collect
from .options import Sizes, access, nothing_found, shapes


@click.command()
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@shapes
@access
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
@click.option("--history", is_flag=True, help="Of servers on this host: earlier starts too, from the journal.")
@click.option("--fail-on", type=click.Choice(["warning", "error"]), help="Exit 1 when a finding is at least this bad.")
def limits(
    targets: tuple[str, ...],
    sizes: Sizes,
    flags: tuple[str, ...],
    options: Options,
    as_json: bool,
    sources: bool,
    html: str | None,
    plot: bool | None,
    fail_on: str | None,
) -> int:
    """What the servers behind TARGETs can hold; without a TARGET, those that run on this host.

    A TARGET is a URL or a Unix socket of a server or a router, a log or a captured endpoint file (server_info.json,
    metrics.txt), an ullage.toml, or - for standard input. Several files that speak of one server are read as one.

    \b
    ullage limits
    ullage limits http://localhost:30000 --at 32000
    journalctl -u sglang -o short-iso | ullage limits -
    ullage limits startup.log --flags "python -m sglang.launch_server --tp 4"
    ullage limits http://localhost:8000 --follow --html limits.html

    Exit codes: 0 done, 1 findings as bad as --fail-on, 2 usage, 3 nothing could be read.
    """
    if html == "-" and as_json:
        raise UsageError("--html - and --json both print to standard output", "name a file for the page")
    report = report_on(collect(targets, flags, options), *sizes)
    something = report.deployment.servers or report.deployment.others
    if as_json or something:
        _show(report, as_json, sources, html, plot, options.history)
    if not something:
        raise nothing_found(report.failed, report.unclaimed)
    return _exit_code(report, fail_on)


def _show(report: Report, as_json: bool, sources: bool, html: str | None, plot: bool | None, history: bool) -> None:
    """The page first: where it cannot be written, nothing is printed. In the place of the screen where it is `-`."""
    if html is not None and report.deployment.servers:
        from ..report.html import to_html

        if html == "-":
            click.echo(to_html(report), nl=False)
            return
        from .write import write_whole

        write_whole(html, to_html(report))
    _print(report, as_json, sources, plot, history)


def _print(report: Report, as_json: bool, sources: bool, plot: bool | None, history: bool) -> None:
    if as_json:
        from ..report.json_form import to_json

        click.echo(to_json(report))
        return
    from ..report.terminal import print_report

    print_report(report, sources=sources, plot=plot, history=history)
    sys.stdout.flush()


def _exit_code(report: Report, fail_on: str | None) -> int:
    worst = {"error": ("error",), "warning": ("error", "warning"), None: ()}[fail_on]
    return 1 if any(f.severity.value in worst for f in report.findings) else 0

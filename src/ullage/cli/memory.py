"""`ullage memory`: where each GPU's memory went, and what is on tap."""

from __future__ import annotations

import sys

import click

from ..errors import UllageError, UsageError
from ..evidence import Evidence
from ..masking import Masker
from ..report.memory_model import Memory, memory_of
from ..units import parse_bytes
from .gather import Options, collect
from .options import Sizes, access, nothing_found, shapes


@click.command()
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option(
    "--margin",
    default="1GiB",
    show_default=True,
    metavar="SIZE",
    help="What is to stay free on each GPU, for activations: 512MiB, 2GiB.",
)
@shapes
@access
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema ullage.memory/1).")
@click.option("--sources", is_flag=True, help="Print where every number comes from.")
def memory(
    targets: tuple[str, ...],
    margin: str,
    sizes: Sizes,
    flags: tuple[str, ...],
    options: Options,
    as_json: bool,
    sources: bool,
) -> int:
    """Where each GPU's memory went, and what more of it would buy; without a TARGET, on this host.

    A TARGET is what `ullage limits` takes: a URL of a server, a start-up log, a captured endpoint file; and a captured
    nvidia-smi -q -x or --query-gpu, which tells totals, other processes and what is idle.

    \b
    ullage memory
    ullage memory startup.log --margin 2GiB
    ullage memory http://localhost:30000 startup.log gpus.xml --at 32000

    The parts of a GPU sum to its total; what nothing explains is "unaccounted". Predictions are marked.
    """
    items = collect(targets, flags, options)
    items += [] if targets or flags or options.prometheus else [_gpus()]
    found = memory_of(items, _margin(margin), *sizes)
    if as_json or found.accounts or found.unserved:
        _print(found, as_json, sources)
    if not (found.accounts or found.unserved):
        raise _nothing(found)
    return 0


def _nothing(found: Memory) -> UllageError:
    routers = [server.name for server in found.servers]
    if routers:
        return UsageError(f"{', '.join(routers)}: a router has no GPU memory of its own", "name its workers too")
    return nothing_found(found.failed, found.unclaimed)


def _gpus() -> Evidence:
    """Those of this host."""
    from ..observe.gpu import read_gpus

    return read_gpus(Masker())


def _margin(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise UsageError(f"--margin: {error}", "give a size with its unit: 1GiB, 512MiB") from None


def _print(found: Memory, as_json: bool, sources: bool) -> None:
    if as_json:
        from ..report.memory_json import to_json

        click.echo(to_json(found))
        return
    from ..report.memory import print_memory

    print_memory(found, sources=sources)
    sys.stdout.flush()

"""`ullage`: the commands, and how errors end: one line, an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from .. import __version__
from ..errors import UllageError, UsageError
from ..masking import Masker
from .explain import explain
from .limits import limits

_LATER = ("memory", "tank")


class DefaultToLimits(click.Group):
    """`ullage http://host:30000` means `ullage limits http://host:30000`; a word that is no target is an unknown
    command. Some are imported when they are asked for.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_LATER])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _LATER:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(f"{__package__}.{cmd_name}"), cmd_name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            args = ["limits"]
        elif args[0] not in self.list_commands(ctx) and args[0] not in ("--help", "--version", "-h"):
            _require_target(args[0], self.list_commands(ctx))
            args = ["limits", *args]
        return super().parse_args(ctx, args)


def _require_target(word: str, commands: list[str]) -> None:
    """A word that is nearly a command, and can be no target, is a command mistyped."""
    from difflib import get_close_matches

    meant = get_close_matches(word, commands, 1)
    if meant and word.isalpha() and not os.path.exists(word):
        raise UsageError(f"no such command: {word}", f"did you mean {meant[0]}?")


@click.group(cls=DefaultToLimits, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="ullage", message="%(prog)s %(version)s")
def ullage() -> None:
    """Tells what an LLM server deployment can really hold.

    \b
    ullage limits http://localhost:8000 --follow    ask a router and its workers
    ullage limits startup.log metrics.txt           read what a colleague captured
    ullage memory startup.log nvidia-smi.xml        where each GPU's memory went
    ullage explain pool-below-context               what a finding or a figure means
    ullage tank up                                  a small deployment of its own, to try it on
    """


ullage.add_command(limits)
ullage.add_command(explain)


def run() -> NoReturn:
    """Runs the command line of this process and ends it."""
    if sys.stdout is None:
        _complain("standard output is closed", "nothing can be printed there")
        sys.exit(1)
    try:
        code = ullage.main(standalone_mode=False)
    except UllageError as error:
        _complain(error.message, error.advice)
        sys.exit(error.exit_code)
    except click.exceptions.Abort:
        _complain("interrupted", "")
        sys.exit(130)
    except click.ClickException as error:
        _complain(error.format_message().rstrip("."), _help_of(error) if isinstance(error, click.UsageError) else "")
        sys.exit(2)
    except BrokenPipeError:
        _close_quietly()
        sys.exit(0)
    except OSError as error:
        _complain(f"cannot go on: {error.strerror or error}", "look at the disk and at where the output goes")
        sys.exit(1)
    except Exception as error:  # a fault of ours: one line still, and the way to the rest
        if os.environ.get("ULLAGE_DEBUG"):
            raise
        _complain(
            f"a fault in ullage itself: {type(error).__name__}: {error}", "ULLAGE_DEBUG=1 shows where; please report it"
        )
        sys.exit(70)
    sys.exit(code if isinstance(code, int) else 0)


def _help_of(error: click.UsageError) -> str:
    """Of the command that the words were for, as it is typed."""
    names: list[str] = []
    context = error.ctx
    while context is not None and context.parent is not None:
        names.insert(0, context.info_name or "")
        context = context.parent
    return f"ullage {' '.join(names) or 'limits'} --help shows how"


def _complain(message: str, advice: str) -> None:
    first = " ".join(Masker().text(message).split())
    click.echo(f"ullage: {first}" + (f"; {advice}" if advice else ""), err=True)


def _close_quietly() -> None:
    """The reader of our pipe is gone: nothing is left to say, and the interpreter must not try at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

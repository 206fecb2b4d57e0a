"""What the files of a unit would start as one of the servers that run in it."""

from __future__ import annotations

from collections.abc import Sequence

from ..engines import programs
from ..evidence import CONFIGURED, Argv, Evidence, Failure
from ..masking import Masker
from ..observe.host.config_files import effective_words, settings_of
from ..observe.host.running import Running
from ..observe.host.unit_files import UnitFiles

_SEVERAL = Failure("several", "it holds several commands for this server, and which of them it starts is not known")


def configured(running: Running, files: UnitFiles, masker: Masker, *, alone: bool) -> list[Evidence]:
    """The command that is this server's: of several that a script starts, the one with its port; and what of the files
    could not be read. `alone`: no other server of its program is in the unit.
    """
    told = [_launched(item) for item in files.evidence if isinstance(item.content, Argv)]
    of_program = [item for item in told if programs.program_of(_words(item)) == running.program]
    if not alone or len(of_program) > 1:
        port = _flag(running.words or running.main.words, "--port")
        of_program = [item for item in of_program if _flag(_words(item), "--port") == port]
    if len({_words(item) for item in of_program}) > 1:
        return [of_program[0]._replace(content=_SEVERAL)]
    its = [_of_interest(item, running, masker)._replace(topic=CONFIGURED) for item in of_program[:1]]
    failed = [item for item in files.evidence if isinstance(item.content, Failure)]
    others = {"no server"} if its else set()  # what other commands of the unit start is of no matter then
    return [*its, *(item for item in failed if isinstance(item.content, Failure) and item.content.status not in others)]


def _launched(item: Evidence) -> Evidence:
    """Without what stands before the program."""
    if not isinstance(item.content, Argv):
        return item
    environment, words = programs.launched(item.content.words)
    return item._replace(content=Argv(words, {**item.content.environment, **environment}))


def _words(item: Evidence) -> tuple[str, ...]:
    return item.content.words if isinstance(item.content, Argv) else ()


def _of_interest(item: Evidence, running: Running, masker: Masker) -> Evidence:
    """With the settings of its `--config` file as it is now, without variables that do not bear on a server."""
    if not isinstance(item.content, Argv):
        return item
    words, kept = item.content.words, programs.environment_of(running.program)
    head = programs.command_of(words).head
    settings = settings_of("/proc", running.main._replace(words=words), head, "")
    if not settings.unreadable:
        words = masker.words(effective_words(words, head, settings))
    environment = {name: value for name, value in item.content.environment.items() if kept.match(name)}
    return item._replace(content=Argv(programs.readable(words), environment))


def _flag(words: Sequence[str], name: str) -> str:
    """The value of a flag, "" where it is not given."""
    for n, word in enumerate(words):
        if word == name:
            return words[n + 1] if n + 1 < len(words) else ""
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return ""

"""The commands of a unit, as an operator types them."""

from __future__ import annotations

from ..evidence import Unit


def manager_owner(unit: Unit) -> str:
    """The user whose manager runs it, which nobody else can ask so."""
    return unit.manager.removeprefix("user ") if unit.manager != "system" else ""


def unit_command(program: str, unit: Unit, *words: str, end: str = "") -> str:
    """`systemctl stop sglang.service`, `systemctl --user stop sglang.service (as op)`."""
    owner = manager_owner(unit)
    told = [program, *(["--user"] if owner else []), *words, unit.name, end, f"(as {owner})" if owner else ""]
    return " ".join(filter(None, told))


def journal_of(unit: Unit) -> str:
    return unit_command("journalctl", unit, "-u", end="-e")

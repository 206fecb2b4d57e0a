"""`ullage explain ID`: what a finding or a figure means."""

from __future__ import annotations

import shutil
import textwrap

import click

from ..errors import UsageError


@click.command()
@click.argument("name", required=False, metavar="[ID]")
def explain(name: str | None) -> int:
    """What a finding or a figure means. Without an ID: the list of both.

    \b
    ullage explain prefill-window-cap
    ullage explain max_total_num_tokens
    """
    from ..findings import catalogue  # noqa: F401 - enters the rules
    from ..findings.base import CATALOGUE
    from ..findings.glossary import GLOSSARY

    if name is None:
        _list({i: r.title for i, r in CATALOGUE.items()}, "findings")
        _list({n: text.split(". ")[0] for n, text in GLOSSARY.items()}, "figures")
        return 0
    name = next((known for known in (*CATALOGUE, *GLOSSARY) if known.lower() == name.lower()), name)
    if name in CATALOGUE:
        rule = CATALOGUE[name]
        click.echo(f"{rule.id} ({rule.severity.value})\n{rule.title}\n\n{_wrapped(rule.page)}")
        return 0
    if name in GLOSSARY:
        click.echo(f"{name}\n\n{_wrapped(GLOSSARY[name])}")
        return 0
    import difflib

    near = difflib.get_close_matches(name, [*CATALOGUE, *GLOSSARY], n=1)
    raise UsageError(f"nothing is called {name!r}", f"did you mean {near[0]}?" if near else "ullage explain lists all")


def _wrapped(text: str) -> str:
    width = max(40, min(shutil.get_terminal_size((80, 24)).columns, 100))
    return "\n\n".join(
        textwrap.fill(" ".join(part.split()), width, break_on_hyphens=False) for part in text.split("\n\n")
    )


def _list(entries: dict[str, str], title: str) -> None:
    click.echo(f"{title}:")
    width = max(map(len, entries))
    for name, text in sorted(entries.items()):
        click.echo(f"  {name:<{width}}  {text}")

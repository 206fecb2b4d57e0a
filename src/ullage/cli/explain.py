"""`ullage explain ID`: what a finding or a figure means."""

from __future__ import annotations

import shutil
import textwrap

import click

from ..errors import UsageError


@click.command()
@click.argument("words", nargs=-1, metavar="[ID]")
def explain(words: tuple[str, ...]) -> int:
    """What a finding, a figure, or a word of the page means. Without an ID: the list of all.

    \b
    ullage explain prefill-window-cap
    ullage explain max_total_num_tokens
    ullage explain compute_mib CUDA0
    ullage explain in use now
    """
    from ..findings import catalogue  # noqa: F401 - enters the rules
    from ..findings.base import CATALOGUE
    from ..findings.explanations import explanation, names

    if not words:
        _list({i: r.title for i, r in CATALOGUE.items()}, "findings")
        _list({n: _first_sentence(text) for n, text in names().items()}, "figures and words")
        return 0
    name = " ".join(words)
    if rule := CATALOGUE.get(name.lower()):
        click.echo(f"{rule.id} ({rule.severity.value})\n{rule.title}\n\n{_wrapped(rule.page)}")
        return 0
    if text := explanation(name):
        click.echo(f"{name}\n\n{_wrapped(text)}")
        return 0
    import difflib

    near = difflib.get_close_matches(name, [*CATALOGUE, *names()], n=1)
    raise UsageError(f"nothing is called {name!r}", f"did you mean {near[0]}?" if near else "ullage explain lists all")


def _first_sentence(text: str) -> str:
    return text.replace("\n\n", " ").split(". ")[0].rstrip(".")


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

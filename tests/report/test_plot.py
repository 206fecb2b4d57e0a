"""The plot in the terminal: as wide as it may be, as high as the curve, with the numbers that count."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capacity.draws import few
from tests.report.test_curve import only, server, servers
from ullage.deployment import Deployment
from ullage.engines.server import Server
from ullage.report.curve import Curve, Point, Stretch
from ullage.report.plot import ROWS, plot

CURVE = only(Deployment((server(kv=100_000, slots=10, context=50_000),)))


def lines(curve: Curve, width: int = 80) -> list[str]:
    return ["".join(words for words, _ in line) for line in plot(curve, width)]


def heights(drawn: list[str]) -> list[float]:
    """How high each column is, in rows."""
    rows = [re.split("[┤│]", line, maxsplit=1)[1] for line in drawn[:ROWS]]
    filled = " ▁▂▃▄▅▆▇█"
    widest = max(map(len, rows))
    return [sum(filled.index(row[i]) / 8 for row in (r.ljust(widest) for r in rows)) for i in range(widest)]


@few
@given(servers, st.integers(60, 110))
def test_no_line_is_wider_than_the_page_and_no_column_higher_than_the_one_before(drawn: Server, width: int) -> None:
    curve = only(Deployment((drawn,)))
    found = lines(curve, width)
    if not found:
        assert curve.unknown or len({p[1:5] for p in curve.points}) == len({p.safe for p in curve.points}) == 1
        return
    assert max(map(len, found[: ROWS + 2])) <= width
    columns = heights(found)
    assert columns == sorted(columns, reverse=True)
    assert columns[0] == ROWS
    assert columns[-1] > 0


def test_both_ends_and_the_change_over_stand_below() -> None:
    found = lines(CURVE)
    labels = found[ROWS + 1].split()
    assert labels[0] == "256"
    assert labels[-1] == "50,000"
    assert "9,091" in labels
    assert found[0].split()[0] == "10"
    assert found[ROWS + 2 :] == [
        "  █ 256 to 9,090 tokens: request slots",
        "  █ 9,091 to 50,000 tokens: KV pool",
    ]


def test_a_tick_stands_above_each_label() -> None:
    axis, labels = lines(CURVE)[ROWS : ROWS + 2]
    assert axis.count("┬") == len(labels.split())


def test_each_pool_has_its_colour() -> None:
    styles = {words: style for line in plot(CURVE, 80)[:ROWS] for words, style in line if "█" in words}
    assert set(styles.values()) == {"cyan", "yellow"}


def test_what_is_admitted_and_not_safe_looks_different() -> None:
    points = (Point(256, 64, 64, 64, 4, "KV pool"), Point(4096, 64, 64, 64, 4, "KV pool"))
    found = lines(Curve("s", points, (Stretch(256, 4096, "KV pool"),), "context length"))
    assert "░" in found[0]
    assert "█" not in found[0]
    assert "█" in found[ROWS - 1]
    assert "░ admitted" in found[-1]


def test_one_number_at_all_lengths_is_not_drawn() -> None:
    points = (Point(256, 4, 4, 4, 4, "slots"), Point(4096, 4, 4, 4, 4, "slots"))
    assert lines(Curve("s", points, (Stretch(256, 4096, "slots"),), "context length")) == []


@pytest.mark.parametrize("curve", [Curve("s", (), (), "", unknown="no pool"), Curve("s", CURVE.points[:1], (), "")])
def test_nothing_to_plot(curve: Curve) -> None:
    assert lines(curve) == []

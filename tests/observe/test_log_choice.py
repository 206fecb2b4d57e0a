"""The words that a large log is searched for: those that it shows; all, where nothing is shown, and in a small one."""

from __future__ import annotations

import io
import re

import pytest

from ullage.observe.log_choice import LogWords, chosen

MIB = 2**20
ONE = LogWords((b"one begins",), re.compile(rb"one batch|one begins|common"))
OTHER = LogWords((b"other begins",), re.compile(rb"other batch|other begins|common"))
NOISE = b"nothing of the kind, only a line of an access log\n"


def starts(text: bytes) -> tuple[bytes, ...]:
    return chosen(io.BytesIO(text), len(text), (ONE, OTHER)).starts


@pytest.mark.parametrize("place", [0, 1, 2], ids=["begin", "middle", "end"])
def test_what_stands_in_a_sample_is_looked_for(place: int) -> None:
    third = NOISE * (8 * MIB // len(NOISE))
    parts = [third, third, third]
    parts[place] = b"other batch 1\n" * (8 * MIB // 14)
    assert starts(b"".join(parts)) == OTHER.starts


def test_what_both_print_does_not_make_it_the_others() -> None:
    lines = b"one batch 1\n" * 1000 + b"common\n"
    assert starts(lines * (20 * MIB // len(lines))) == ONE.starts


def test_both_where_both_write() -> None:
    lines = b"one batch 1\nother batch 1\n"
    assert starts(lines * (20 * MIB // len(lines))) == (*ONE.starts, *OTHER.starts)


@pytest.mark.parametrize(
    "text", [NOISE * (20 * MIB // len(NOISE)), b"one batch 1\n" * 9, b""], ids=["none", "small", "empty"]
)
def test_all_where_nothing_decides(text: bytes) -> None:
    assert starts(text) == (*ONE.starts, *OTHER.starts)

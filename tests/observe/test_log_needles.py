from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.observe.log_needles import needles_of

PATTERNS = [
    rb"server_args=|Load\ weight\ begin|(?:Prefill|Decode) batch|[Rr]etract|graph\ bs\ \[",
    rb"(?:Prefill|Decode) batch",
    rb"ab+cdef|abcd{2,3}efgh|x?yzzzz|a.cdefg|colou?red",
    rb"a|b|long words",
    rb"(?i)LOAD|retract",
    rb"^load|batch$",
    rb"(load) \1|batch",
    rb"loa(?=d)|batch",
    rb"[]|x]oad|\|batch|ba\tch",
    rb"\d+ batch|\bload\b",
    rb"",
]
PIECES = [
    b"server_args=",
    b"Load weight begin",
    b"Prefill batch",
    b"Decode batch",
    b"Retract",
    b"retract",
    b"graph bs [",
    b"abcdef",
    b"abbbcdef",
    b"acdef",
    b"abcddefgh",
    b"abcdefgh",
    b"yzzzz",
    b"axcdefg",
    b"colored",
    b"coloured",
    b"load",
    b"LOAD",
    b"load load",
    b"batch",
    b"|batch",
    b"7 batch",
    b"long words",
    b"a",
    b"b",
    b" ",
    b"\n",
    b"\n",
    b"]oad",
    b"\xff",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=12))
def test_the_same_lines_are_found_as_by_the_pattern(pattern: bytes, pieces: list[bytes]) -> None:
    text, keep = b"".join(pieces), re.compile(pattern)
    found = {text.count(b"\n", 0, place) for place, _ in needles_of(keep).find(text)}
    assert found == {text.count(b"\n", 0, match.start()) for match in keep.finditer(text)}


def test_a_kind_is_named_by_the_words_that_matched() -> None:
    keep = re.compile(rb"(?:Prefill|Decode) batch|pool=")
    assert sorted(needles_of(keep).find(b"x pool=1\nDecode batch")) == [(2, b"pool="), (9, b"Decode batch")]

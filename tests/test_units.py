"""Sizes: what is typed is what is read, and what could be read in two ways is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.units import GIB, KIB, MIB, ceil_to, echo_tokens, floor_to, parse_bytes, parse_tokens

COUNTS = st.integers(0, 10**15)
BINARY = {"k": KIB, "K": KIB, "m": MIB, "M": MIB, "g": GIB, "G": GIB}
BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": KIB, "MiB": MIB, "GiB": GIB, "gib": GIB}


@given(COUNTS, st.sampled_from(["{}", "{:,}", "{:_}", " {} ", "{}.0"]))
def test_a_count_is_read_as_it_is_written(count: int, written: str) -> None:
    assert parse_tokens(written.format(count)) == count


@given(COUNTS, st.sampled_from(sorted(BINARY)), st.sampled_from(["", " "]))
def test_a_suffix_of_tokens_is_binary(count: int, suffix: str, gap: str) -> None:
    assert parse_tokens(f"{count}{gap}{suffix}") == count * BINARY[suffix]


@given(COUNTS, st.sampled_from(sorted(BYTES)), st.sampled_from(["", " "]))
def test_gb_is_not_gib(count: int, unit: str, gap: str) -> None:
    assert parse_bytes(f"{count:,}{gap}{unit}") == count * BYTES[unit]


@given(st.integers(0, 10**6), st.integers(0, KIB - 1))
def test_a_fraction_counts_where_it_gives_whole_tokens(whole: int, parts: int) -> None:
    exact = f"{whole + parts / KIB:.10f}"  # 1/1024 has ten decimals
    assert parse_tokens(f"{exact}k") == whole * KIB + parts


@given(st.integers(0, 10**9), st.integers(1, 9))
def test_a_fraction_of_a_token_is_refused(whole: int, tenths: int) -> None:
    with pytest.raises(ValueError, match="not a whole number"):
        parse_tokens(f"{whole}.{tenths}")
    with pytest.raises(ValueError, match="not a whole number"):
        parse_bytes(f"{whole}.{tenths} B")


@given(COUNTS, st.sampled_from(sorted(BINARY)))
def test_the_echo_says_what_was_read(count: int, suffix: str) -> None:
    echo = echo_tokens(f"{count}{suffix}")
    typed, read = echo.removesuffix(" tokens").split(" read as ")
    assert typed == f"{count}{suffix}"
    assert parse_tokens(read) == parse_tokens(typed)


@given(COUNTS, st.sampled_from(["{}", "{:,}", "{:_}", " {}"]))
def test_a_plain_count_needs_no_echo(count: int, written: str) -> None:
    assert echo_tokens(written.format(count)) == ""


def test_what_people_type() -> None:
    assert parse_tokens("32k") == 32_768
    assert parse_tokens("1.5k") == 1536
    assert parse_tokens("1M") == 1_048_576
    assert echo_tokens("32k") == "32k read as 32,768 tokens"
    assert parse_bytes("2GB") == 2 * 10**9
    assert parse_bytes("2GiB") == 2 * 2**30
    assert parse_bytes("512 MiB") == 512 * 2**20


REFUSED = (
    "",
    " ",
    "k",
    "-1",
    "+1",
    "1e3",
    "0x10",
    "1 2",
    ".5k",
    "1.k",
    "1..2",
    "1,2.3.4",
    "NaN",
    "inf",
    "٣",
    "²",
)


@pytest.mark.parametrize(
    "text", [*REFUSED, "32,5k", "1,00", "1,,000", "1__0", "_1", "1_", ",1", "32kb", "32 tokens", "4T"]
)
def test_what_is_no_count_of_tokens(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_tokens(text)


@pytest.mark.parametrize("text", [*REFUSED, "100", "2 G", "2Gi", "2 GBit", "2Gİb", "2 gb/s", "1,5GB"])
def test_what_is_no_count_of_bytes(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_bytes(text)


@given(st.text(max_size=12))
def test_any_text_is_a_size_or_a_value_error(text: str) -> None:
    for parse in (parse_tokens, parse_bytes):
        with suppress(ValueError):
            assert parse(text) >= 0


@given(COUNTS, st.integers(1, 10**6))
def test_rounding_stays_within_a_step(value: int, step: int) -> None:
    down, up = floor_to(value, step), ceil_to(value, step)
    assert down % step == up % step == 0
    assert value - step < down <= value <= up < value + step
    assert (down == up) == (value % step == 0)

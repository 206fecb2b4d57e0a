from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ullage.tank.text import TextStream


class Letters:
    def add(self, token_id: int) -> str:
        return chr(token_id)

    def flush(self) -> str:
        return ""


@given(st.text("ab", max_size=30), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_text_ends_before_the_first_stop_string_and_nothing_is_lost(text: str, stops: list[str]) -> None:
    stream, out, met = TextStream(Letters(), tuple(stops)), "", None
    for letter in text:
        part, met = stream.add(ord(letter))
        out += part
        if met is not None:
            break
    else:
        part, met = stream.flush()
        out += part
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    if ends:
        read = text[: min(ends)]
        assert out == read[: min(read.find(stop) for stop in stops if stop in read)]
        assert met in stops
    else:
        assert (out, met) == (text, None)

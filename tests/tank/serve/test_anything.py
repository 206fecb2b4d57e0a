"""Whatever JSON a caller sends: it is understood, or refused as a bad request, and never a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tank.engines import tiny
from ullage.tank.request import RefusedError
from ullage.tank.serve.asked import bootstrap_of, sampling_of
from ullage.tank.serve.dialects import Chat, Completion, Dialect
from ullage.tank.serve.fields import Fields

T = TypeVar("T")
SAMPLING = """temperature top_p top_k seed sampling_seed stop stop_token_ids ignore_eos n best_of min_p min_tokens
    min_new_tokens frequency_penalty repetition_penalty logit_bias response_format regex no_stop_trim""".split()
BOOTSTRAP = ["bootstrap_host", "bootstrap_port", "bootstrap_room"]
DIALECT = ["prompt", "messages", "max_tokens", "max_completion_tokens"]
EDGES = st.sampled_from([0, 1, -1, 1.0, 1e-320, 1e308, float("nan"), float("inf"), 10**400, 2**64, "", "\x00", "é"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | EDGES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
CONTENT = VALUES | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": VALUES}), max_size=2)
MESSAGES = st.lists(st.fixed_dictionaries({"role": st.just("user") | VALUES, "content": CONTENT}), max_size=3)


def objects(names: list[str], values: st.SearchStrategy[Any] = VALUES) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), values, max_size=4)


def understood(parse: Callable[[], T]) -> T | None:
    """None: it was refused, as a bad request, in one line."""
    try:
        return parse()
    except RefusedError as error:
        refused = error
    assert refused.status == 400
    assert "\n" not in refused.message
    return None


@given(objects(SAMPLING))
def test_as_sampling(data: dict[str, Any]) -> None:
    asked = understood(lambda: sampling_of(Fields(data), 5, 260))
    assert asked is None or (asked.temperature >= 0 and 0 < asked.top_p <= 1 and asked.top_k >= -1)


@given(objects(BOOTSTRAP))
def test_as_the_place_of_the_other_worker(data: dict[str, Any]) -> None:
    place = understood(lambda: bootstrap_of(Fields(data)))
    assert place is None or (0 < place.port < 2**16 and 0 <= place.room < 2**64)


@pytest.mark.parametrize("dialect", [Completion(), Chat()], ids=["completions", "chat"])
@given(data=objects(DIALECT, VALUES | MESSAGES))
def test_as_a_prompt(dialect: Dialect, data: dict[str, Any]) -> None:
    understood(lambda: dialect.most_tokens(Fields(data)))
    ids = understood(lambda: dialect.prompt(tiny(), Fields(data)))
    assert ids is None or all(0 <= token < 260 for token in ids)

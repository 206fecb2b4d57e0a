"""The limits of whole servers, pools and ceilings as the engine's reader sets them up, against the replays."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capacity.draws import PAGES, RATIOS, stated
from tests.replay import sglang_decode, sglang_prefill, sglang_unified
from ullage.capacity.limits import Limits, limits, longest
from ullage.capacity.request import Shape
from ullage.engines.join import Joined
from ullage.engines.server import Role
from ullage.engines.sglang.pools import ceilings_of, pools_of, window_capped
from ullage.figure import Figure, Source, read

WINDOW = 128  # DeepSeek-V4's, the only one that is known without the model's config
POOLS, SLOTS = st.integers(0, 20_000), st.integers(0, 40)
WINDOW_POOLS = st.integers(0, 3000)
PROMPTS, OUTPUTS = st.integers(1, 2500), st.integers(0, 1000)


def joined(role: Role, args: dict[str, int | bool] | None = None, **effective: int | str) -> Joined:
    """A server by a few figures."""
    asked = {name: read(name, value, "", Source("a test")) for name, value in (args or {}).items()}
    return Joined(args=asked, effective={n: _figure(n, v) for n, v in effective.items()}, role=role)


def _figure(name: str, value: int | str) -> Figure:
    return stated(name, value) if isinstance(value, int) else read(name, value, "", Source("a test"))


def answer(server: Joined, shape: Shape) -> Limits:
    return limits(pools_of(server), ceilings_of(server), shape)


def ends(found: Limits) -> tuple[float, float]:
    return found.admits.least, found.admits.most


@given(POOLS, PAGES, PROMPTS, OUTPUTS, st.integers(0, 600), SLOTS, st.none() | st.integers(0, 20))
def test_decode_with_its_slots_and_the_extra_ones(
    pool: int, page: int, prompt: int, output: int, reserved: int, running: int, extra: int | None
) -> None:
    """Extra slots are for requests in transfer: twice the running ones up to 32, unless another number was set."""
    args: dict[str, int | bool] = {} if extra is None else {"disaggregation_decode_extra_slots": extra}
    server = joined(
        Role.DECODE,
        {**args, "num_reserved_decode_tokens": reserved},
        max_total_num_tokens=pool,
        max_running_requests=running,
        page_size=page,
    )
    slots = extra if extra is not None else 2 * running if running <= 32 else 0
    replays = [
        sglang_decode.admitted(
            pool=pool,
            page=page,
            prompt=prompt,
            max_new=output,
            reserved=reserved,
            max_running=running,
            extra_slots=slots,
            started=started,
        )
        for started in (True, False)
    ]
    low, high = ends(answer(server, Shape(prompt, output)))
    assert low == min(replays)
    assert max(replays) <= high  # more, once they have generated something
    if not output:
        assert high == max(replays)


@given(POOLS, st.sampled_from([2, 4, 16, 64, 256]), PROMPTS, OUTPUTS, WINDOW_POOLS)
def test_decode_with_a_window_pool(pool: int, page: int, prompt: int, output: int, window_pool: int) -> None:
    server = joined(
        Role.DECODE,
        max_total_num_tokens=pool,
        max_running_requests=1000,
        page_size=page,
        swa_max_total_num_tokens=window_pool,
        model_path="DeepSeek-V4-Flash",
    )
    replays = [
        sglang_decode.admitted(
            pool=pool,
            page=page,
            prompt=prompt,
            max_new=output,
            max_running=1000,
            swa_pool=window_pool,
            window=WINDOW,
            started=started,
        )
        for started in (True, False)
    ]
    assert ends(answer(server, Shape(prompt, output))) == (min(replays), max(replays))


@given(POOLS, PAGES, PROMPTS, OUTPUTS, RATIOS, SLOTS, SLOTS, st.booleans(), WINDOW_POOLS)
def test_unified_with_slots_states_and_a_window(
    pool: int,
    page: int,
    prompt: int,
    output: int,
    ratio: Fraction,
    running: int,
    states: int,
    cached: bool,
    window_pool: int,
) -> None:
    """Of recurrent states a request holds one, and three where prefixes are cached."""
    server = joined(
        Role.UNIFIED,
        {"disable_radix_cache": not cached},
        max_total_num_tokens=pool,
        max_running_requests=running,
        page_size=page,
        max_mamba_cache_size=states,
        swa_max_total_num_tokens=window_pool,
        model_path="DeepSeek-V4-Flash",
    )
    server.usage["new_token_ratio"] = read("new_token_ratio", float(ratio), "", Source("a test"))
    replayed = sglang_unified.admitted(
        pool=pool,
        page=page,
        prompt=prompt,
        max_new=output,
        ratio=float(ratio),
        max_running=running,
        state_slots=states,
        slots_per_request=3 if cached else 1,
        swa_pool=window_pool,
        window=WINDOW,
    )
    assert answer(server, Shape(prompt, output)).admits.value == replayed


@given(POOLS, PAGES, PROMPTS, SLOTS, WINDOW_POOLS, st.sampled_from(["0.5.12", "0.5.13"]))
def test_prefill_with_its_window_cap(
    pool: int, page: int, prompt: int, running: int, window_pool: int, version: str
) -> None:
    """The cap of older builds is on the prompt. The window pool itself is not what a prefill server admits by."""
    server = joined(
        Role.PREFILL,
        max_total_num_tokens=pool,
        max_running_requests=running,
        page_size=page,
        swa_max_total_num_tokens=window_pool,
        model_path="DeepSeek-V4-Flash",
        version=version,
    )
    found = answer(server, Shape(prompt))
    capped = version == "0.5.12" and prompt > window_pool
    replayed = sglang_prefill.admitted(
        pool=pool, page=page, prompt=prompt, max_running=running, window_cap=window_pool if capped else None
    )
    by_window = next((p.admits.high for p in found.by_pool if p.admits and p.pool.name == "window pool"), replayed)
    assert found.admits.value == (0 if capped else min(replayed, by_window))
    assert (found.refused is not None and "window" in found.refused.what) == (capped and window_pool < pool)


@pytest.mark.parametrize(
    ("version", "capped"),
    [
        (None, None),
        ("0.5.12", True),
        ("0.5.12.post1", True),
        ("v0.5.9", True),
        ("0.4.10", True),
        ("0.5.13", False),
        ("0.5.15.post1", False),
        ("0.6.0rc1", False),
        ("1.0.0", False),
        ("0.0.0.dev1+g44ca2d01f", None),
        ("deepseek-v4-blackwell", None),
        ("0.5", None),
    ],
)
def test_the_version_decides_whether_a_prompt_is_capped(version: str | None, capped: bool | None) -> None:
    server = joined(Role.PREFILL) if version is None else joined(Role.PREFILL, version=version)
    assert window_capped(server) is capped


def test_where_the_version_is_not_known_both_limits_are_told() -> None:
    server = joined(
        Role.PREFILL,
        max_total_num_tokens=2_138_368,
        context_len=524_288,
        max_running_requests=256,
        model_path="DeepSeek-V4-Flash",
    )
    reach = longest(ceilings_of(server))
    assert reach.tokens.value == 524_288
    assert reach.perhaps is not None
    assert reach.perhaps.tokens.value == 213_760
    found = answer(server, Shape(300_000))
    assert found.perhaps_refused == reach.perhaps
    assert found.admits.value == 7


def test_the_window_of_a_model_that_is_not_known_is_not_counted() -> None:
    server = joined(
        Role.DECODE, max_total_num_tokens=100_000, max_running_requests=50, swa_max_total_num_tokens=1, page_size=64
    )
    found = answer(server, Shape(1000))
    assert [p.name for p in found.uncounted] == ["window pool"]
    assert found.admits.value == 50

"""Which processes, on which ports, with which words."""

from __future__ import annotations

import sys

import pytest

from ullage.errors import UsageError
from ullage.tank.up.plan import Part, Wish, parts


def words_after(part: Part, flag: str, count: int = 1) -> tuple[str, ...]:
    at = part.argv.index(flag)
    return part.argv[at + 1 : at + 1 + count]


def test_by_default_a_prefill_a_decode_and_the_router() -> None:
    prefill, decode, router = parts(Wish())
    assert [part.name for part in (prefill, decode, router)] == ["prefill", "decode", "router"]
    assert (prefill.ports, decode.ports, router.ports) == ((30000, 8998), (30001,), (8000, 29000))
    assert prefill.argv[:3] == (sys.executable, "-m", "ullage.tank.worker")
    assert words_after(prefill, "--disaggregation-mode") == ("prefill",)
    assert words_after(decode, "--disaggregation-mode") == ("decode",)
    assert router.argv[2] == "sglang_router.launch_router"
    assert words_after(router, "--prefill", 2) == ("http://127.0.0.1:30000", "8998")
    assert words_after(router, "--decode") == ("http://127.0.0.1:30001",)


def test_several_of_each_have_ports_of_their_own_and_are_all_routed_to() -> None:
    plan = parts(Wish(prefill=2, decode=3, base_port=40000, bootstrap_port=9000))
    assert [part.name for part in plan[:-1]] == ["prefill-1", "prefill-2", "decode-1", "decode-2", "decode-3"]
    assert [part.ports for part in plan[:-1]] == [(40000, 9000), (40001, 9001), (40002,), (40003,), (40004,)]
    assert [word for word in plan[-1].argv if word.startswith("http")] == [part.url for part in plan[:-1]]


def test_unified_workers_take_the_place_of_both_roles() -> None:
    plan = parts(Wish(unified=2))
    assert [part.role for part in plan] == ["unified", "unified", "router"]
    assert words_after(plan[-1], "--worker-urls", 2) == ("http://127.0.0.1:30000", "http://127.0.0.1:30001")
    assert not any("disaggregation" in word for part in plan for word in part.argv)


def test_flags_reach_whom_they_are_for() -> None:
    wish = Wish(flags=("--page-size", "4"), prefill_flags=("--threads", "1"), decode_flags=("--threads", "2"))
    prefill, decode, router = parts(wish._replace(router_flags=("--policy", "random")))
    assert words_after(prefill, "--page-size") == words_after(decode, "--page-size") == ("4",)
    assert (words_after(prefill, "--threads"), words_after(decode, "--threads")) == (("1",), ("2",))
    assert words_after(router, "--policy") == ("random",)
    assert "--page-size" not in router.argv


def test_a_key_stands_in_no_command_line() -> None:
    for part in parts(Wish(key_env="TANK_KEY")):
        assert not any("key" in word for word in part.argv if word.startswith("--"))
    assert parts(Wish(key_env="TANK_KEY"))[-1].argv[2] == "ullage.tank.up.keyed_router"


def test_a_router_for_everyone_is_reached_by_loopback() -> None:
    assert parts(Wish(host="0.0.0.0"))[-1].url == "http://127.0.0.1:8000"
    assert parts(Wish(host="::1"))[-1].url == "http://[::1]:8000"
    assert all(part.url.startswith("http://127.0.0.1:") for part in parts(Wish(host="0.0.0.0")))


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        (Wish(port=30001), "decode and router would both need port 30001"),
        (Wish(prefill=2, bootstrap_port=29999), "prefill-1 and prefill-2 would both need port 30000"),
        (Wish(decode=2, base_port=65534), "decode-2 would need port 65536"),
        (Wish(decode=0), "a worker each"),
    ],
)
def test_ports_that_cannot_be_are_refused(wish: Wish, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parts(wish)

"""Which processes are one server, whatever the process table looks like."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ullage.observe.host.families import Family, families
from ullage.observe.host.proc import Stat

PIDS = st.integers(1, 12)
STATS = st.builds(
    Stat, PIDS, st.just("x"), st.sampled_from("SSSZ"), st.integers(0, 12), st.integers(0, 2), st.integers(0, 2),
    st.integers(0, 3),
)  # fmt: skip
SERVERS = st.dictionaries(PIDS, st.tuples(st.sampled_from(["A", "B"]), st.sampled_from([("a",), ("b",)])), max_size=5)


def same(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return one == other


@given(st.lists(STATS, max_size=12), SERVERS, st.dictionaries(PIDS, st.sampled_from(["A", "B"]), max_size=6))
def test_every_process_belongs_to_one_server_at_most(
    stats: list[Stat], servers: dict[int, tuple[str, tuple[str, ...]]], titled: dict[int, str]
) -> None:
    table = {stat.pid: stat for stat in stats}
    titled = {pid: program for pid, program in titled.items() if pid not in servers}
    found, left = families(servers, titled, table, same)
    placed = [pid for family in (*found, *left) for pid in family.members] + [family.main for family in found]
    assert len(placed) == len(set(placed))
    assert {family.main for family in found} <= set(servers)
    assert not {family.main for family in left} & set(servers)
    assert set(placed) >= {pid for pid in titled if pid in table and table[pid].state == "S"}


def chain(*pids: int) -> dict[int, Stat]:
    """Each the parent of the next."""
    return {pid: Stat(pid, "x", "S", above, 9, 9, pid) for above, pid in zip((0, *pids), pids, strict=False)}


def test_a_server_far_below_another_is_its_own_when_its_words_are() -> None:
    table = chain(1, 2, 3, 4)
    servers = {1: ("A", ("a",)), 3: ("A", ("b",))}
    assert families(servers, {4: "A"}, table, same) == ([Family("A", 1, (2,)), Family("A", 3, (4,))], [])
    servers = {1: ("A", ("a",)), 3: ("A", ("a",))}
    assert families(servers, {4: "A"}, table, same) == ([Family("A", 1, (2, 3, 4))], [])
    servers = {1: ("A", ("a",)), 3: ("B", ("a",))}
    assert families(servers, {4: "B"}, table, same) == ([Family("A", 1, (2,)), Family("B", 3, (4,))], [])


def test_a_parent_that_is_younger_is_none() -> None:
    """Its pid was given out again: the real parent is gone."""
    table = chain(1, 2)
    table[1] = table[1]._replace(start_ticks=5, pgid=8)
    assert families({1: ("A", ("a",))}, {2: "A"}, table, same) == ([Family("A", 1, ())], [Family("A", 0, (2,))])


def test_what_an_older_server_left_is_not_the_new_ones() -> None:
    """Both in one process group, as two commands of one script are; the helpers of an orphan go with it."""
    stats = [Stat(10, "x", "S", 1, 9, 9, 100), Stat(20, "x", "S", 1, 9, 9, 50), Stat(21, "x", "S", 20, 9, 9, 51)]
    table = {stat.pid: stat for stat in [*stats, Stat(30, "x", "S", 1, 9, 9, 150), Stat(31, "x", "S", 30, 9, 9, 151)]}
    found = families({10: ("A", ("a",))}, {20: "A", 30: "A"}, table, same)
    assert found == ([Family("A", 10, (30, 31))], [Family("A", 0, (20, 21))])
    assert families({10: ("B", ("a",))}, {30: "A"}, table, same)[1] == [Family("A", 0, (30, 31))]


def test_a_server_below_an_orphan_is_its_own() -> None:
    table = chain(2, 3, 4)
    found = ([Family("A", 3, (4,))], [Family("A", 0, (2,))])
    assert families({3: ("A", ("a",))}, {2: "A"}, table, same) == found


def test_a_table_that_was_read_while_it_changed_may_go_in_circles() -> None:
    table = {1: Stat(1, "x", "S", 2, 9, 9, 5), 2: Stat(2, "x", "S", 1, 9, 9, 5)}
    words = ("A", ("a",))
    assert families({}, {1: "A", 2: "A"}, table, same)[0] == []
    assert families({1: words}, {2: "A"}, table, same)[0] == [Family("A", 1, (2,))]
    assert len(families({1: words, 2: words}, {}, table, same)[0]) <= 1


def test_an_engine_inside_a_program_is_not_left_over() -> None:
    table = chain(1, 2, 3, 4)
    assert families({}, {3: "A", 4: "A"}, table, same)[1] == [Family("A", 2, (3, 4))]
    for adopter in ("bash", "tini", "docker-init", "systemd", "containerd-shim"):
        adopted = {**table, 2: table[2]._replace(comm=adopter)}
        assert families({}, {3: "A", 4: "A"}, adopted, same)[1] == [Family("A", 0, (3, 4))]
    elsewhere = {**table, 2: table[2]._replace(session=7)}
    assert families({}, {3: "A"}, elsewhere, same)[1] == [Family("A", 0, (3, 4))]
    assert families({}, {2: "A"}, chain(1, 2), same)[1] == [Family("A", 0, (2,))], "adopted by the first of all"

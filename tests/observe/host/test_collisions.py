"""Ports that two servers claim."""

from __future__ import annotations

from ullage.engines.programs import door_of
from ullage.observe.host.collisions import Placed, with_collisions
from ullage.observe.host.net_tables import Socket
from ullage.observe.host.running import Listen, Proc, Running

HERE, THERE = 1, 2
TAKEN = (Socket("127.0.0.1", 8000, 77, 0),)


def placed(
    pid: int, *listens: Listen, line: str = "vllm serve m --port 8000", network: int = HERE, url: str = ""
) -> Placed:
    main = Proc(pid, 1, 1, 0, "root", tuple(line.split()), "vllm", pid, pid, "/", network, "/", {})
    running = Running("vLLM", main, listens=listens, urls=(url,) if url else ())
    return Placed(running, door_of("vLLM", main.words, {}), network, TAKEN)


def remarks(server: Placed, *others: Placed) -> tuple[str, ...]:
    return with_collisions(server, [server, *others]).remarks


LISTENS = Listen("127.0.0.1", 8000, 10)


def test_whose_it_is_cannot_be_read_of_other_users_servers() -> None:
    guessed = Listen("127.0.0.1", 8000, None)
    told = remarks(placed(10, guessed), placed(20, guessed))
    assert told == ("port 8000 is that of pid 20 (vLLM) too: whose it is cannot be read",)


def test_two_addresses_or_two_networks_are_no_collision() -> None:
    assert remarks(placed(10, LISTENS), placed(20, Listen("127.0.0.2", 8000, 20))) == ()
    assert remarks(placed(10, LISTENS), placed(20, LISTENS, network=THERE)) == ()


def test_who_has_the_port() -> None:
    named, own = "port 8000, which its flags name,", "port 8000, which it takes by itself,"
    assert remarks(placed(20), placed(10, LISTENS)) == (f"{named} is taken by pid 10 (vLLM)",)
    assert remarks(placed(20, line="vllm serve m"), placed(10, LISTENS)) == (f"{own} is taken by pid 10 (vLLM)",)
    assert remarks(placed(20)) == (f"{named} is taken by a process that is none of its own",)
    assert remarks(placed(20)._replace(sockets=())) == ()


def test_what_answers_elsewhere_claims_no_port() -> None:
    other = placed(10, LISTENS)
    assert remarks(placed(20, line="vllm serve m --uds /run/v.sock"), other) == ()
    assert remarks(placed(20, Listen("127.0.0.1", 9, 20), line="vllm serve m", url="http://127.0.0.1:9"), other) == ()

from __future__ import annotations

from collections import Counter

import pytest

from ullage.errors import UsageError
from ullage.evidence import Document, Failure
from ullage.masking import Masker
from ullage.observe.endpoints import Endpoint, normalise, read_servers, split_path
from ullage.observe.http import Access

from .servers import Server, free_port, timed

MASKER = Masker()
INFO = Endpoint("info", ("/new", "/newer", "/old"))
METRICS = Endpoint("metrics", ("/metrics",))


def quick(_: str) -> Access:
    return Access(timeout_s=0.4)


def status(content: object) -> str:
    return content.status if isinstance(content, Failure) else "ok"


def test_an_older_name_is_asked_where_the_newer_is_not_there(server: Server) -> None:
    info, metrics = read_servers([server.url], [INFO, METRICS], quick, MASKER)
    assert (info.topic, info.content) == ("info", Document({"old": True}))
    assert info.place == f"{server.url}/old"
    assert metrics.place == f"{server.url}/metrics"
    assert {info.origin.target, metrics.origin.target} == {server.url}


def test_an_older_name_is_not_asked_where_the_newer_answered(server: Server) -> None:
    read_servers([server.url], [Endpoint("info", ("/json", "/old"))], quick, MASKER)
    assert [path for path, _ in server.seen] == ["/json"]


def test_an_endpoint_that_is_nowhere_is_a_404_under_its_first_name(server: Server) -> None:
    (found,) = read_servers([server.url], [Endpoint("x", ("/x1", "/x2"))], quick, MASKER)
    assert status(found.content) == "404"
    assert found.place == f"{server.url}/x1"


def test_an_endpoint_can_wait_for_another(server: Server) -> None:
    waiting = [Endpoint("slots", ("/metrics",), "info"), Endpoint("never", ("/json",), "gone")]
    found = read_servers([server.url], [INFO, Endpoint("gone", ("/gone",)), *waiting], quick, MASKER)
    assert [item.topic for item in found] == ["info", "gone"]
    found = read_servers([server.url], [Endpoint("info", ("/json",)), *waiting], quick, MASKER)
    assert [item.topic for item in found] == ["info", "slots"]


def test_a_server_that_is_not_there_is_reported_once(server: Server) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    found = read_servers([dead, server.url], [INFO, METRICS], quick, MASKER)
    assert [(item.origin.target, item.topic, status(item.content)) for item in found] == [
        (dead, "", "refused"),
        (server.url, "info", "ok"),
        (server.url, "metrics", "ok"),
    ]
    assert found[0].place == dead


def test_a_hung_endpoint_does_not_hide_the_others(server: Server) -> None:
    with timed(1.0):
        found = read_servers([server.url], [Endpoint("hung", ("/hung",)), METRICS], quick, MASKER)
    assert [(item.topic, status(item.content)) for item in found] == [("hung", "timeout"), ("metrics", "ok")]


def test_many_hung_endpoints_cost_two_time_limits_at_most(server: Server) -> None:
    endpoints = [Endpoint(f"hung{n}", ("/hung",)) for n in range(60)]
    with timed(1.2):
        (found,) = read_servers([server.url], endpoints, quick, MASKER)
    assert (found.topic, status(found.content)) == ("", "timeout")


def test_a_url_with_a_known_path_is_asked_for_that_alone(server: Server) -> None:
    (found,) = read_servers([f"{server.url}/metrics"], [INFO, METRICS], quick, MASKER)
    assert (found.topic, found.origin.target) == ("metrics", server.url)
    assert Counter(path for path, _ in server.seen) == {"/metrics": 1}


def test_each_server_gets_its_own_access(server: Server) -> None:
    def access_for(base: str) -> Access:
        return Access(api_key="hunter2-key" if base == server.url else None)

    (found,) = read_servers([server.url], [Endpoint("keyed", ("/keyed",))], access_for, MASKER)
    assert found.content == Document({"in": True})


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("localhost:30000", "http://localhost:30000"),
        ("localhost", "http://localhost"),
        ("http://h:1/", "http://h:1"),
        ("HTTPS://h/llm-a//", "https://h/llm-a"),
        ("http://[::1]:30000", "http://[::1]:30000"),
        ("::1", "http://[::1]"),
        ("[fe80::1%eth0]:3", "http://[fe80::1%eth0]:3"),
        ("http://u:p@h:1", "http://u:p@h:1"),
        (" 10.0.0.1:8000\n", "http://10.0.0.1:8000"),
        ("http://h:1/metrics", "http://h:1/metrics"),
        ("http://h:1/#top", "http://h:1"),
    ],
)
def test_normalise(typed: str, url: str) -> None:
    assert normalise(typed) == url


@pytest.mark.parametrize(
    "typed",
    ["", "  ", "two words", "ftp://h", "http://", "h:99999", "h:port", "h:0", "http://h?x=1", "a\\b", "http://[::1"],
)
def test_what_cannot_be_a_url(typed: str) -> None:
    with pytest.raises(UsageError) as caught:
        normalise(typed)
    assert "\n" not in str(caught.value)


def test_a_secret_in_a_wrong_url_is_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        normalise("ftp://me:hunter2@host")
    assert "hunter2" not in str(caught.value)


def test_split_path_takes_the_longest() -> None:
    paths = ["/models", "/v1/models", "/metrics"]
    assert split_path("http://h/llm-a/v1/models", paths) == ("http://h/llm-a", "/v1/models")
    assert split_path("http://h/llm-a", paths) == ("http://h/llm-a", "")
    assert split_path("http://models", ["/models"]) == ("http://models", "")

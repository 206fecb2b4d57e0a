from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ullage.errors import UsageError
from ullage.evidence import Document, Failure
from ullage.masking import Masker
from ullage.observe.endpoints import Endpoint, normalise, read_servers, split_path
from ullage.observe.http import Access

from .servers import PAGES, Server, free_port, running, timed

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


def test_an_endpoint_can_stand_in_for_others(server: Server) -> None:
    """It is asked where none of those is there."""
    standing = [Endpoint("slots", ("/metrics",), ("gone",)), Endpoint("never", ("/json",), ("gone", "info"))]
    others = [Endpoint("info", ("/json",)), Endpoint("gone", ("/gone",))]
    found = read_servers([server.url], [*others, *standing], quick, MASKER)
    assert [item.topic for item in found] == ["info", "gone", "slots"]


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
        ("http://h:8000/v1", "http://h:8000"),
        ("http://h/llm-a/v1/", "http://h/llm-a"),
        ("h:8000/v1/chat/completions", "http://h:8000"),
        ("http://h/v1/models", "http://h/v1/models"),
        ("http://h/v10", "http://h/v10"),
        ("http://[fe80::1%25eth0]:3", "http://[fe80::1%eth0]:3"),
        ("http://u:%25@[fe80::1%25eth0]", "http://u:%25@[fe80::1%eth0]"),
        ("unix:///run/vllm.sock", "http://unix:/run/vllm.sock:"),
        ("unix:/run/vllm.sock", "http://unix:/run/vllm.sock:"),
        ("UNIX:///run/vllm.sock/", "http://unix:/run/vllm.sock:"),
        ("unix:///run/a%20b.sock", "http://unix:/run/a%20b.sock:"),
        ("http+unix://%2Frun%2Fvllm.sock", "http://unix:/run/vllm.sock:"),
        ("http+unix://%2frun%2fvllm.sock/prefix/", "http://unix:/run/vllm.sock:/prefix"),
        ("http+unix://%2Frun%2Fvllm.sock/v1", "http://unix:/run/vllm.sock:"),
        ("http://unix:/run/vllm.sock", "http://unix:/run/vllm.sock:"),
        ("http://unix:/run/vllm.sock:", "http://unix:/run/vllm.sock:"),
        ("http://unix:/run/vllm.sock:/prefix/metrics", "http://unix:/run/vllm.sock:/prefix/metrics"),
    ],
)
def test_normalise(typed: str, url: str) -> None:
    assert normalise(typed) == url
    assert normalise(url) == url


def test_where_a_socket_ends_in_a_path_is_seen_on_the_disk(tmp_path: Path) -> None:
    with running(str(tmp_path / "a.sock")) as on_socket:
        assert normalise(f"unix://{tmp_path}/a.sock/llm-a/metrics") == f"{on_socket.url}/llm-a/metrics"
        assert normalise(f"http://unix:{tmp_path}/a.sock/v1") == on_socket.url
    assert normalise(f"unix://{tmp_path}/b.sock/metrics") == f"http://unix:{tmp_path}/b.sock/metrics:"


def test_a_server_on_a_socket_is_read_like_any_other(tmp_path: Path) -> None:
    with running(str(tmp_path / "a.sock")) as on_socket:
        found = read_servers([on_socket.url, f"{on_socket.url}/metrics"], [INFO, METRICS], quick, MASKER)
    assert [(item.topic, item.place, status(item.content)) for item in found] == [
        ("info", f"{on_socket.url}/old", "ok"),
        ("metrics", f"{on_socket.url}/metrics", "ok"),
        ("metrics", f"{on_socket.url}/metrics", "ok"),
    ]
    assert {item.origin.target for item in found} == {f"http://unix:{tmp_path}/a.sock"}


def test_a_prefix_of_a_proxy_is_part_of_the_base(server: Server) -> None:
    for path, page in (("/llm-a/json", "/json"), ("/llm-a/metrics", "/metrics")):
        PAGES.setdefault(path, PAGES[page])
    endpoints = [Endpoint("info", ("/json",)), METRICS]
    for typed in (f"{server.url}/llm-a", f"{server.url}/llm-a/", f"{server.url}/llm-a/v1"):
        found = read_servers([normalise(typed)], endpoints, quick, MASKER)
        assert [(item.place, status(item.content)) for item in found] == [
            (f"{server.url}/llm-a/json", "ok"),
            (f"{server.url}/llm-a/metrics", "ok"),
        ]
    (found_alone,) = read_servers([normalise(f"{server.url}/llm-a/metrics/")], endpoints, quick, MASKER)
    assert (found_alone.origin.target, found_alone.topic) == (f"{server.url}/llm-a", "metrics")


@pytest.mark.parametrize(
    "typed",
    [
        *(
            "",
            "  ",
            "two words",
            "ftp://h",
            "http://",
            "h:99999",
            "h:port",
            "h:0",
            "http://h?x=1",
            "a\\b",
            "http://[::1",
        ),
        *("unix://", "unix://run/x.sock", "unix:///run/x.sock?a=1", "http+unix:///run/x.sock"),
        *("https+unix://%2Frun%2Fx.sock", "::1:30000"),
    ],
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

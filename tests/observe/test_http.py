from __future__ import annotations

import math
import socket
import subprocess
import sys
import tracemalloc
from pathlib import Path
from urllib.parse import quote

import pytest

from ullage.evidence import Content, Document, Evidence, Failure, Samples
from ullage.masking import Masker
from ullage.observe.failures import elsewhere, from_error
from ullage.observe.http import Access, _onward, get

from .servers import PACKED, Server, free_port, running, timed

PLAIN = Access()
QUICK = Access(timeout_s=0.4)
MASKER = Masker(["hunter2-key"])


def ask(url: str, access: Access = PLAIN) -> Content:
    return get(url, access, MASKER).content


def failure(url: str, access: Access = PLAIN) -> Failure:
    content = ask(url, access)
    assert isinstance(content, Failure), content
    return content


def test_json_with_nan_comes_as_a_document_with_its_secret_masked(server: Server) -> None:
    found = get(f"{server.url}/json", Access(), MASKER, "info")
    assert isinstance(found, Evidence)
    assert isinstance(found.content, Document)
    assert (found.topic, found.place, found.origin.target) == ("info", f"{server.url}/json", server.url)
    data = found.content.data
    assert data["a"] == 1
    assert math.isnan(data["nan"])
    assert data["inf"] == -math.inf
    assert data["api_key"] == "***"
    assert found.read_at.tzinfo is not None


def test_the_repr_of_a_dict_is_a_document(server: Server) -> None:
    content = ask(f"{server.url}/repr")
    assert isinstance(content, Document)
    assert content.data["model"] == "it's"
    assert content.data["pair"] == [1, 2.5]
    assert content.data["flag"] is True


def test_metrics_keep_their_names(server: Server) -> None:
    content = ask(f"{server.url}/metrics")
    assert isinstance(content, Samples)
    assert [sample.name for sample in content.samples] == ["a:b", "c"]


@pytest.mark.parametrize("encoding", PACKED)
def test_what_comes_packed_is_unpacked(server: Server, encoding: str) -> None:
    assert ask(f"{server.url}/packed/{quote(encoding)}") == Document({"ok": [1, 2]})


def test_a_packing_that_nobody_asked_for_is_named(server: Server) -> None:
    assert failure(f"{server.url}/brotli").reason == "the answer is packed with br, which was not asked for"


def test_what_follows_packed_data_is_not_waited_for(server: Server) -> None:
    with timed(1.5):
        assert ask(f"{server.url}/behind-gzip") == Document({"ok": [1, 2]})


def test_a_gigabyte_of_zeros_costs_no_more_than_the_limit(server: Server) -> None:
    get(f"{server.url}/json", PLAIN, MASKER)  # imports what it needs
    tracemalloc.start()
    with timed(5):
        found = failure(f"{server.url}/bomb", Access(max_bytes=8 * 2**20, timeout_s=10))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.status, found.reason) == ("too large", "the answer is larger than 8 MiB")
    assert peak < 96 * 2**20  # the server's own gigabyte is packed, and in this process too


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/nowhere", "404", "no such endpoint"),
        ("/keyed", "401", "wants a key"),
        ("/half", "not json", "starts like JSON"),
        ("/deep", "not json", "nested"),
        ("/html", "html", "a web page"),
        ("/empty", "empty", "nothing in it"),
        ("/words", "not understood", "I'm a teapot"),
        ("/starting", "503", "still loading its model"),
        ("/bad-gzip", "not understood", "compressed"),
        ("/loop", "redirect", "more than 3"),
        ("/away", "redirect", "sends on to http://127.0.0.2:1"),
    ],
)
def test_trouble_is_a_failure_in_one_line(server: Server, path: str, status: str, words: str) -> None:
    found = failure(server.url + path)
    assert found.status == status
    assert words in found.reason
    assert "\n" not in found.reason + found.advice


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/hung", "no full answer within 0.4 s"),
        ("/dribbling-headers", "no full answer within 0.4 s"),
        ("/endless-interim", "no full answer within 0.4 s"),
        ("/endless-trailers", "no full answer within 0.4 s"),
        ("/dribbling", "still sending after 0.4 s, "),
        ("/slow-endless", "still sending after 0.4 s, "),
        ("/chunked", "still sending after 0.4 s, "),
    ],
)
def test_no_answer_costs_more_than_the_time_limit(server: Server, path: str, words: str) -> None:
    with timed(0.8):
        found = failure(server.url + path, QUICK)
    assert found.status == "timeout"
    assert found.reason.startswith(words)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/events", "stream", "a stream of events without end"),
        ("/endless-headers", "broken", "more than 100 headers"),
        ("/endless-header", "broken", "header line"),
    ],
)
def test_what_cannot_end_is_not_waited_for(server: Server, path: str, status: str, words: str) -> None:
    found = failure(server.url + path)
    assert found.status == status
    assert words in found.reason


@pytest.mark.parametrize("path", ["/endless", "/bomb"])
def test_a_huge_body_stops_at_the_limit(server: Server, path: str) -> None:
    found = failure(server.url + path, Access(max_bytes=300_000))
    assert found.status == "too large"


def test_what_a_broken_connection_left_of_metrics_counts(server: Server) -> None:
    content = ask(f"{server.url}/broken-off")
    assert isinstance(content, Samples)
    assert [sample.name for sample in content.samples] == ["a:b", "c"]
    assert any("broke off" in problem for problem in content.problems)


def test_the_key_goes_to_the_server_and_into_no_repr(server: Server) -> None:
    access = Access(api_key="hunter2-key")
    assert ask(f"{server.url}/redirect", access) == Document({"in": True})
    assert "hunter2" not in repr(access)


def test_a_key_never_follows_to_another_server(server: Server) -> None:
    with running() as other:
        from . import servers

        servers.PAGES["/other"] = lambda handler: handler.send_on(f"{other.url}/json")
        assert failure(f"{server.url}/other", Access(api_key="hunter2-key")).status == "redirect"
        assert other.seen == []


def test_a_key_that_cannot_be_sent_is_a_failure(server: Server) -> None:
    assert failure(f"{server.url}/json", Access(api_key="a\r\nX: b")).status == "not sent"


@pytest.mark.parametrize("location", ["http://[x", "http://h:99999/", "http://127.0.0.1:x/"])
def test_a_redirect_to_what_is_no_url_leads_elsewhere(server: Server, location: str) -> None:
    from . import servers

    servers.PAGES["/nowhere"] = lambda handler: handler.send_on(location)
    assert failure(f"{server.url}/nowhere") == elsewhere(location)


@pytest.mark.parametrize(
    ("url", "location", "onward"),
    [
        ("http://h/a", "https://h/a", "https://h/a"),
        ("http://h:80/a", "https://h:443/b", "https://h:443/b"),
        ("http://h/p/metrics", "/p/metrics/", "http://h/p/metrics/"),
        ("http://h:8000/metrics", "http://h:8000/metrics/", "http://h:8000/metrics/"),
        ("http://unix:/run/a.sock:/metrics", "http://localhost/metrics/", "http://unix:/run/a.sock:/metrics/"),
        ("http://unix:/run/a.sock:/p/metrics", "metrics/", "http://unix:/run/a.sock:/p/metrics/"),
        ("http://h:8000/a", "https://h:8443/a", None),
        ("https://h/a", "http://h/a", None),
        ("http://h/a", "http://h.example/a", None),
        ("http://h/a", "//login.example/a", None),
        ("http://h/a", "ftp://h/a", None),
        ("http://h/a", "http://h@login.example/a", None),
        ("http://unix:/run/a.sock:/a", "http://other/a", None),
        ("http://unix:/run/a.sock:/a", "http://localhost:8000/a", None),
        ("http://h/a", "http://unix:/run/a.sock:/a", None),
        ("http://unix/a", "http://unix:/run/a.sock:/a", None),
    ],
)
def test_a_redirect_is_followed_on_the_same_server_alone(url: str, location: str, onward: str | None) -> None:
    assert _onward(url, location) == onward


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".test"])
def test_a_host_that_cannot_be_looked_up_is_unreachable(host: str) -> None:
    assert failure(f"http://{host}/json").status in ("unreachable", "dns")


def test_a_fault_of_ullage_itself_is_not_the_servers() -> None:
    fault = from_error(KeyError("x"), MASKER)
    assert (fault.status, fault.reason) == ("not understood", "Ullage failed on this answer (KeyError: 'x')")


def test_user_and_password_are_used_and_masked(server: Server) -> None:
    url = server.url.replace("://", "://me:s%3Acret9@")
    found = get(f"{url}/json", Access(api_key="unused"), MASKER)
    assert not found.failed
    assert server.seen[0][1]["authorization"] == "Basic bWU6czpjcmV0OQ=="
    assert "cret9" not in repr(found)
    assert found.origin.target == server.url.replace("://", "://***@")


def test_a_proxy_of_the_environment_is_not_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert isinstance(ask(f"{server.url}/json"), Document)


def test_refused() -> None:
    found = failure(f"http://127.0.0.1:{free_port()}/")
    assert (found.status, found.reason) == ("refused", "nothing listens there")


def test_no_such_name() -> None:
    with timed(2.5):
        assert failure("http://no-such-host.invalid/").status in ("dns", "timeout")


def test_a_server_that_does_not_speak_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        from threading import Thread

        def talk() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
                connection.recv(1000)

        Thread(target=talk, daemon=True).start()
        assert failure(f"http://127.0.0.1:{port}/").status == "broken"


def test_ipv6() -> None:
    try:
        with running("::1") as server:
            assert isinstance(ask(f"{server.url}/json"), Document)
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")


def test_the_zone_of_an_ipv6_address_is_not_told_to_the_server() -> None:
    """::1 with the number of its interface stands for the fe80:: addresses that a machine may not have."""
    try:
        with running("::1") as server:
            url = server.url.replace("::1", "::1%1")
            assert isinstance(ask(f"{url}/json"), Document)
            assert server.seen[0][1]["host"] == server.url.removeprefix("http://")
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")


def test_a_unix_socket(tmp_path: Path) -> None:
    with running(str(tmp_path / "a.sock")) as server:
        assert isinstance(ask(f"{server.url}/json"), Document)
        assert ask(f"{server.url}/redirect", Access(api_key="hunter2-key")) == Document({"in": True})
        assert [(path, headers["host"]) for path, headers in server.seen] == [
            ("/json", "localhost"),
            ("/redirect", "localhost"),
            ("/keyed", "localhost"),
        ]
        assert failure(f"{server.url}/away").status == "redirect"
        with timed(0.8):
            assert failure(f"{server.url}/hung", QUICK).status == "timeout"
        assert failure(f"{server.url}/endless", Access(max_bytes=300_000)).status == "too large"


def test_a_unix_socket_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with running(str(tmp_path / "a.sock")):
        pass
    found = {name: failure(f"http://unix:{tmp_path}/{name}:/json") for name in ("none", "file", "a.sock", "x" * 200)}
    assert [(f.status, f.reason) for f in found.values()] == [
        ("refused", "no such socket"),
        ("refused", "nothing listens there"),
        ("refused", "nothing listens there"),
        ("unreachable", "AF_UNIX path too long"),
    ]


def test_a_unix_socket_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may be root, to whom every socket is open."""

    monkeypatch.setattr(socket, "socket", lambda *_: ClosedSocket())
    found = failure(f"http://unix:{tmp_path}/a.sock:/json")
    assert (found.status, found.reason) == ("unreachable", "no permission to open it")
    assert found.advice == "run as the server's user, or in its group"


class ClosedSocket:
    """A socket that the user may not open."""

    def settimeout(self, _: float) -> None:
        pass

    def connect(self, _: str) -> None:
        raise PermissionError(13, "Permission denied")

    def close(self) -> None:
        pass


def test_reading_files_does_not_import_the_http_library() -> None:
    code = (
        "import sys, ullage.observe.files;"
        "print([m for m in ('urllib3', 'ssl', 'prometheus_client', 'tempfile') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

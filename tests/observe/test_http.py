from __future__ import annotations

import math
import socket
import subprocess
import sys

import pytest

from ullage.evidence import Content, Document, Evidence, Failure, Samples
from ullage.masking import Masker
from ullage.observe.failures import elsewhere, from_error
from ullage.observe.http import Access, get

from .servers import Server, free_port, running, timed

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


def test_gzip_is_unpacked(server: Server) -> None:
    assert ask(f"{server.url}/gzip") == Document({"ok": [1, 2]})


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
        ("/starting", "503", "Loading model"),
        ("/bad-gzip", "not understood", "compressed"),
        ("/loop", "redirect", "more than 3"),
        ("/away", "redirect", "http://127.0.0.2:1/keyed"),
    ],
)
def test_trouble_is_a_failure_in_one_line(server: Server, path: str, status: str, words: str) -> None:
    found = failure(server.url + path)
    assert found.status == status
    assert words in found.reason
    assert "\n" not in found.reason + found.advice


@pytest.mark.parametrize("path", ["/hung", "/dribbling", "/dribbling-headers", "/slow-endless"])
def test_no_answer_costs_more_than_the_time_limit(server: Server, path: str) -> None:
    with timed(0.8):
        assert failure(server.url + path, QUICK).status == "timeout"


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


def test_reading_files_does_not_import_the_http_library() -> None:
    code = (
        "import sys, ullage.observe.files;"
        "print([m for m in ('urllib3', 'ssl', 'prometheus_client', 'tempfile') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

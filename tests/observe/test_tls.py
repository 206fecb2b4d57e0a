"""https with certificates of a private authority: what is trusted, and one clear line for each thing that is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ullage.evidence import Document, Evidence, Failure
from ullage.masking import Masker
from ullage.observe.http import Access, get

from .authority import Authority
from .servers import Server, running

INSECURE = "--insecure reads on without checking"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other"))


@contextmanager
def https(authority: Authority, name: str = "server", host: str = "IP:127.0.0.1", days: int = 2) -> Iterator[str]:
    with running(tls=authority.server(name, host=host, days=days)) as server:
        yield server.url.replace("http://", "https://")


def ask(url: str, **access: object) -> Evidence:
    return get(f"{url}/json", Access(**access), Masker())  # type: ignore[arg-type]


def failure(url: str, **access: object) -> Failure:
    content = ask(url, **access).content
    assert isinstance(content, Failure), content
    assert content.status == "tls"
    assert "\n" not in content.reason + content.advice
    return content


def test_a_chain_is_trusted_by_its_root(authority: Authority) -> None:
    with https(authority) as url:
        found = ask(url, cacert=str(authority.root[0]))
        assert isinstance(found.content, Document)
        assert found.remark == ""


def test_several_certificates_can_stand_in_one_file(authority: Authority, other: Authority, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text(other.root[0].read_text() + authority.root[0].read_text())
    with https(authority) as url:
        assert isinstance(ask(url, cacert=str(both)).content, Document)


def test_an_authority_that_is_not_known(authority: Authority) -> None:
    with https(authority) as url:
        found = failure(url)
    assert found.reason.startswith("the certificate is not trusted: ")
    assert found.advice == "--cacert FILE or --insecure"


def test_the_file_of_another_authority(authority: Authority, other: Authority) -> None:
    with https(authority) as url:
        found = failure(url, cacert=str(other.root[0]))
    assert found.reason.startswith("the certificate is not trusted: ")
    assert found.advice == "is --cacert FILE the CA of this server?"


def test_a_certificate_that_has_expired(authority: Authority) -> None:
    with https(authority, "expired", days=-1) as url:
        found = failure(url, cacert=str(authority.root[0]))
    assert (found.reason, found.advice) == ("the certificate has expired", f"renew it; {INSECURE}")


@pytest.mark.parametrize("host", ["IP:127.0.0.2", "DNS:gpu-1.example"])
def test_a_certificate_of_another_host(authority: Authority, host: str) -> None:
    with https(authority, "elsewhere", host) as url:
        found = failure(url, cacert=str(authority.root[0]))
    assert found.reason.startswith("the certificate is another host's: ")
    assert "127.0.0.1" in found.reason
    assert found.advice == f"name the host as its certificate does; {INSECURE}"


@pytest.mark.parametrize(("name", "host", "days"), [("expired", "IP:127.0.0.1", -1), ("named", "DNS:x.example", 2)])
def test_insecure_reads_on_and_says_so(authority: Authority, name: str, host: str, days: int) -> None:
    with https(authority, name, host, days) as url:
        found = ask(url, insecure=True)
    assert isinstance(found.content, Document)
    assert found.remark == "its certificate was not checked (--insecure)"


def test_plain_http_has_no_certificate_to_remark_on(server: Server) -> None:
    assert ask(server.url, insecure=True).remark == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "the --cacert file cannot be read"),
        ("", "the --cacert file holds no certificate"),
        ("-----BEGIN CERTIFICATE-----\nnone\n", "the --cacert file"),
    ],
)
def test_a_ca_file_that_is_none(authority: Authority, tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_text(text)
    with https(authority) as url:
        found = failure(url, cacert=str(path))
    assert found.reason.startswith(reason)
    assert found.advice == "check --cacert FILE"


def test_tls_to_a_plain_server(server: Server) -> None:
    assert failure(server.url.replace("http:", "https:")).advice == "use http:// instead of https://"

"""Calls to a worker as clients make them: whole answers, streams of events, callers that leave in the middle."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any, NamedTuple

from openai import OpenAI

CALL_S = 60.0
GREEDY = {"temperature": 0, "ignore_eos": True}


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def call(port: int, method: str, path: str, body: Any = None, **headers: str) -> Reply:
    """`body`: bytes as they are, anything else as JSON."""
    connection = HTTPConnection("127.0.0.1", port, timeout=CALL_S)
    try:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        return Reply(response.status, {name.lower(): v for name, v in response.getheaders()}, response.read())
    finally:
        connection.close()


def post(port: int, path: str, body: Any) -> Any:
    reply = call(port, "POST", path, body)
    assert reply.status == 200, reply
    return reply.json


def events(port: int, path: str, body: dict[str, Any]) -> list[Any]:
    """All events of a stream, which must end as it should."""
    reply = call(port, "POST", path, {**body, "stream": True})
    assert reply.status == 200, reply
    assert reply.headers["content-type"].startswith("text/event-stream")
    *said, last, rest = reply.body.decode().split("\n\n")
    assert (last, rest) == ("data: [DONE]", "")
    assert all(event.startswith("data: ") for event in said)
    return [json.loads(event.removeprefix("data: ")) for event in said]


def generate_body(text: str, tokens: int, **sampling: Any) -> dict[str, Any]:
    return {"text": text, "sampling_params": {"max_new_tokens": tokens, **GREEDY, **sampling}}


def client(port: int, key: str = "none") -> OpenAI:
    return OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0, timeout=CALL_S)


@contextmanager
def caller(port: int, path: str, body: dict[str, Any]) -> Iterator[socket.socket]:
    """One that sends its request, and leaves at the end of the block, whatever has come by then."""
    data = json.dumps(body).encode()
    headers = f"Host: here\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    head = f"POST {path} HTTP/1.1\r\n{headers}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), CALL_S) as connection:
        connection.sendall(head.encode() + data)
        yield connection


def until(true: Callable[[], bool], seconds: float = 20.0) -> float:
    """How long it took."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() < began + seconds, "it did not come to that"
        time.sleep(0.01)
    return time.monotonic() - began

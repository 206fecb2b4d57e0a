"""Small questions over HTTP, to what we started ourselves: no proxy, no redirect."""

from __future__ import annotations

import http.client
import json
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Answer(NamedTuple):
    """`status` 0: none came, and `body` says why."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        """None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def ask(url: str, path: str, body: object = None, *, key: str | None = None, timeout_s: float = 2.0) -> Answer:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=timeout_s)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    try:
        sent = None if body is None else json.dumps(body)
        connection.request("GET" if sent is None else "POST", path, sent, headers)
        response = connection.getresponse()
        return Answer(response.status, response.read())
    except (OSError, http.client.HTTPException) as error:
        return Answer(0, str(error).encode())
    finally:
        connection.close()


def answers(url: str, path: str) -> bool:
    return ask(url, path, timeout_s=0.5).status == 200

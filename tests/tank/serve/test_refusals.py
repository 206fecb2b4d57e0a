"""What is no proper request gets one clear answer, and does the worker no harm."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tests.tank.processes import Worker
from tests.tank.serve.calls import Reply, call, generate_body, post, until

OF_ALL = ("/generate", "/v1/completions", "/v1/chat/completions")


def refused(reply: Reply, status: int, *words: str) -> None:
    """SGLang's shape and OpenAI's at once."""
    assert reply.status == status, reply
    said = reply.json
    assert said["object"] == "error"
    for error in (said, said["error"]):
        assert error["code"] == status
        assert error["type"].endswith("Error")
        assert all(word in error["message"] for word in words), (words, error["message"])
        assert "\n" not in error["message"]


@pytest.mark.parametrize("path", OF_ALL)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff\xfe{}", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'{"stream": 1}', "true or false"),
        (b'{"stream": "yes"}', "true or false"),
        (b'{"text": "\\ud800", "prompt": "\\ud800"}', "no JSON"),
    ],
)
def test_what_is_no_json_object_of_the_right_types(plain: Worker, path: str, body: bytes, words: str) -> None:
    prompts: dict[str, Any] = {"/generate": b'"text":"a"', "/v1/completions": b'"prompt":"a"'}
    prompt = prompts.get(path, b'"messages":[{"role":"user","content":"a"}]')
    if body.startswith(b'{"stream'):
        body = body[:-1] + b"," + prompt + b"}"
    refused(call(plain.port, "POST", path, body), 400, words)


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": "hot"},
        {"temperature": True},
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"temperature": 10**400},
        {"top_p": 0},
        {"top_p": 1.1},
        {"top_k": -2},
        {"top_k": 1.5},
        {"max_new_tokens": "many"},
        {"max_new_tokens": 0},
        {"max_new_tokens": -1},
        {"max_new_tokens": 10**30},
        {"max_new_tokens": [4]},
        {"n": 2},
        {"n": 0},
        {"stop": 5},
        {"stop": ["a", 5]},
        {"stop_token_ids": [260]},
        {"stop_token_ids": [-1]},
        {"stop_token_ids": "257"},
        {"ignore_eos": "true"},
        {"seed": "x"},
        {"frequency_penalty": 0.5},
        {"presence_penalty": -0.5},
        {"repetition_penalty": 1.2},
        {"min_p": 0.1},
        {"min_new_tokens": 2, "stop": "a"},
        {"min_new_tokens": 2, "ignore_eos": False},
        {"regex": "a+"},
        {"json_schema": "{}"},
        {"no_stop_trim": True},
    ],
    ids=lambda sampling: "{}={!r:.20}".format(*next(iter(sampling.items()))),
)
def test_a_wrong_value_is_told_by_its_name(plain: Worker, sampling: dict[str, Any]) -> None:
    name = next(iter(sampling))
    word = {"max_new_tokens": ""}.get(name, name)
    refused(call(plain.port, "POST", "/generate", generate_body("a", 4, **sampling)), 400, word)


def test_a_least_number_of_tokens_is_kept_where_nothing_ends_early(plain: Worker) -> None:
    body = generate_body("a", 5, min_new_tokens=5)
    assert post(plain.port, "/generate", body)["meta_info"]["completion_tokens"] == 5


@pytest.mark.parametrize("seed", [-1, 0, 2**63, 2**64 - 1])
def test_any_whole_number_of_64_bits_is_a_seed(plain: Worker, seed: int) -> None:
    body = generate_body("a", 2, temperature=1, seed=seed)
    assert post(plain.port, "/generate", body)["meta_info"]["completion_tokens"] == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "text or input_ids"),
        ({"text": "a", "input_ids": [1]}, "text or input_ids"),
        ({"text": ["a", "b"]}, "text must be a string"),
        ({"text": ""}, "empty"),
        ({"input_ids": []}, "empty"),
        ({"input_ids": [[1], [2]]}, "input_ids must be"),
        ({"input_ids": [260]}, "token ids below 260"),
        ({"input_ids": [True]}, "input_ids must be"),
        ({"text": "a", "sampling_params": [{}]}, "sampling_params must be an object"),
        ({"text": "a", "return_logprob": True}, "return_logprob"),
        ({"text": "a", "rid": 5}, "rid must be a string"),
        ({"text": "a", "bootstrap_host": "127.0.0.1"}, "bootstrap"),
        ({"text": "a", "bootstrap_host": "127.0.0.1", "bootstrap_port": 1, "bootstrap_room": 1}, "unified worker"),
        ({"text": "a", "bootstrap_host": "127.0.0.1", "bootstrap_port": 99999, "bootstrap_room": 1}, "bootstrap_port"),
    ],
)
def test_of_generate(plain: Worker, body: dict[str, Any], words: str) -> None:
    refused(call(plain.port, "POST", "/generate", body), 400, words)


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        "hello",
        ["hello"],
        [{"content": "no role"}],
        [{"role": "user", "content": 5}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
    ],
)
def test_of_messages(plain: Worker, messages: Any) -> None:
    refused(call(plain.port, "POST", "/v1/chat/completions", {"messages": messages}), 400, "message")


@pytest.mark.parametrize(
    "more",
    [
        {"n": 3},
        {"best_of": 2},
        {"logprobs": True},
        {"tools": [{"type": "function"}]},
        {"response_format": {"type": "json_object"}},
        {"response_format": "text"},
        {"logit_bias": {"5": 1}},
        {"stream_options": True},
        {"model": 5},
    ],
    ids=lambda more: next(iter(more)),
)
def test_of_what_a_chat_may_ask(plain: Worker, more: dict[str, Any]) -> None:
    body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2, **more}
    refused(call(plain.port, "POST", "/v1/chat/completions", body), 400, next(iter(more)))


def test_a_path_that_is_none_and_a_method_that_is_not_taken(plain: Worker) -> None:
    for path in ("/", "/v1", "/v1/embeddings", "/generate/", "/metrics2"):
        refused(call(plain.port, "GET", path), 404, path)
    for method, path in (("GET", "/generate"), ("PUT", "/v1/completions"), ("POST", "/health")):
        reply = call(plain.port, method, path)
        refused(reply, 405, path, method)
        assert reply.headers["allow"]


@pytest.mark.parametrize(
    "noise",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000,
        b"POST /generate HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{",
        b"",
    ],
    ids=["http2", "tls", "endless head", "half a body", "nothing"],
)
def test_noise_on_the_port_does_no_harm(plain: Worker, noise: bytes) -> None:
    with socket.create_connection(("127.0.0.1", plain.port), 10) as connection:
        connection.sendall(noise)
        connection.shutdown(socket.SHUT_WR)
        try:
            while connection.recv(65536):
                pass
        except ConnectionResetError:
            pass
    assert call(plain.port, "GET", "/health").status == 200
    until(plain.is_empty)
    assert "Traceback" not in plain.log.read_text("utf-8")

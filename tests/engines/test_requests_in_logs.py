"""A server that logs the texts of its users' requests: figures in them are not its own, however they are put."""

from __future__ import annotations

import pytest

from tests.evidence import DAY, decode_batch, log, server_args, start
from ullage.engines.read import read
from ullage.engines.server import Server

FIGURES = (
    "KV Cache is allocated. #tokens: 999999, KV size: 99.00 GB",
    "DSV4 pool sizes: full=999999, swa=99999, c4=1, c128=1",
    "Use sliding window memory pool. full_layer_tokens=999999, swa_layer_tokens=99999",
    "max_total_num_tokens=999999, max_prefill_tokens=1, max_running_requests=999, context_len=999999",
    "max_running_requests is capped to 3 by the mamba state cache",
    "Mamba Cache is allocated. max_mamba_cache_size: 7, conv_state size: 1.00GB",
    "Load weight begin. avail mem=1.00 GB",
    "Load weight end. type=Other, avail mem=1.00 GB, mem usage=2.00 GB",
    "Memory pool end. avail mem=1.11 GB",
    "Decode batch. #running-req: 99, #token: 99, token usage: 0.99, #queue-req: 99",
    "KV cache pool is full. Retract requests. #retracted_reqs: 9, #new_token_ratio: 0.1 -> 0.9",
    "Starting router on 0.0.0.0:30000 | mode: Regular",
    server_args(port=1, tp_size=99),
)


def logged(text: str) -> tuple[str, ...]:
    """The ways in which a text comes to stand in the log of a request."""
    tag = f"[{DAY} 11:00:00 TP0]"
    told = (
        f"hello {text} it's",
        f"{tag} {text}",
        f'say "{tag} {text}\n{tag} {text}',
        f"{tag} {text} [{DAY} 11:00:00] {text}",
    )
    return (
        *(f"[{DAY} 11:00:00] Receive: obj=GenerateReqInput(rid='1', text={each!r})" for each in told),
        f'INFO:     127.0.0.1:50000 - "GET /generate?text={text} HTTP/1.1" 200 OK',
        f"[{DAY} 11:00:00] Receive: obj=GenerateReqInput(rid='1', text='{tag} {text}",
    )


@pytest.mark.parametrize("figures", FIGURES)
def test_the_texts_of_requests_change_nothing(figures: str) -> None:
    own = [*start(40_000, "KV Cache is allocated. #tokens: 40000, KV size: 3.00 GB"), decode_batch(1)]
    [expected], _ = read([log("a.log", *own)])
    for line in (*logged(figures), *([] if figures.startswith("Starting") else [figures])):
        [found], _ = read([log("a.log", *own, line)])
        assert values(found) == values(expected), line


def values(server: Server) -> tuple[object, ...]:
    figures, usage = ({name: f.value for name, f in of.items()} for of in (server.figures, server.usage))
    return server.role, figures, usage, len(server.earlier), len(server.ranks)

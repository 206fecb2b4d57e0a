"""Findings about what can be seen, and by whom."""

from __future__ import annotations

from collections.abc import Iterator

from ..deployment import Deployment
from ..engines.server import Server
from ..evidence import Failure
from ..figure import Figure, Source, read
from .base import Hit, Severity, rule

_METRICS = "restart with --enable-metrics (and --enable-metrics-for-all-schedulers for every rank)"
_METRICS_OF = {"llama.cpp": "restart with --metrics"}
_UNKNOWN = "use, queues and evictable cache now; retractions; transfer and latency histograms"


@rule("metrics-disabled", Severity.INFO, "The server has no metrics page")
def metrics_disabled(deployment: Deployment) -> Iterator[Hit]:
    """SGLang serves /metrics only with `--enable-metrics`, llama-server with `--metrics`. Without it there is no
    history: what is in use is known for this moment at most.
    """
    for server in deployment.workers:
        flag = server.figure("enable_metrics")
        found = flag if flag.value is False else _absent_page(deployment, server)
        if found is not None:
            yield Hit(
                server.name,
                f"no metrics, so not known: {_UNKNOWN}",
                (found,),
                _METRICS_OF.get(server.engine, _METRICS),
            )


def _absent_page(deployment: Deployment, server: Server) -> Figure | None:
    """What the server said when it was asked for its metrics, if it said that there are none."""
    for item in deployment.failed:
        content = item.content
        asked = item.topic == "metrics" and item.origin.target == server.name
        if asked and isinstance(content, Failure) and content.status in ("404", "501"):
            return read("metrics_page", content.status, "", Source(item.place))
    return None


@rule("open-to-the-network", Severity.WARNING, "The server is open to the network without a key")
def open_to_the_network(deployment: Deployment) -> Iterator[Hit]:
    """A server that listens on all addresses without `--api-key` serves anyone who reaches the port, its admin
    endpoints included.
    """
    for server in deployment.servers:
        host = server.figure("host")
        if host.value in ("0.0.0.0", "::", "[::]") and _arguments_known(server) and not server.figure("api_key").known:
            yield Hit(
                server.name,
                f"listens on {host.value} without a key",
                (host,),
                "set --host 127.0.0.1 behind a router, or --api-key (by a file or the environment, not the command"
                " line)",
            )


@rule("open-to-browsers", Severity.WARNING, "Any web page may use the server through a browser")
def open_to_browsers(deployment: Deployment) -> Iterator[Hit]:
    """llama-server allows cross-origin requests from everywhere and has no key, as it says itself when it starts.

    Any page that somebody on the host (or in its network) opens in a browser can then send it requests, and read what
    it answers, prompts in `/slots` included. (ggml-org/llama.cpp PR 25655.)
    """
    for server in deployment.servers:
        said = server.figure("open_to_browsers")
        if said.known:
            yield Hit(
                server.name,
                "no key, and cross-origin requests are allowed from everywhere",
                (said,),
                "set --api-key-file, or --cors-origins to the pages that may use it",
            )


def _arguments_known(server: Server) -> bool:
    """Only where the arguments were seen is a missing key known to be missing."""
    return server.figure("requested_host").known or server.figure("retry_max_retries").known

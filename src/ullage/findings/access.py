"""Findings about what can be seen, and by whom."""

from __future__ import annotations

from collections.abc import Iterator

from ..deployment import Deployment
from ..engines.server import OnHost, Role, Server
from ..evidence import Argv, Failure
from ..figure import Figure, Kind, Source, default, read
from .base import Hit, Severity, rule
from .levers import levers_of


@rule("metrics-disabled", Severity.INFO, "The server has no metrics page")
def metrics_disabled(deployment: Deployment) -> Iterator[Hit]:
    """SGLang serves /metrics only with `--enable-metrics`, llama-server with `--metrics`; vLLM has no figures of the
    engine on it with `--disable-log-stats`. Without them there is no history: what is in use is known for this moment
    at most.
    """
    for server in deployment.workers:
        flag = server.figure("enable_metrics")
        found = flag if flag.value is False else _absent_page(deployment, server)
        if found is not None:
            yield Hit(
                server.name,
                f"no metrics, so not known: {levers_of(server).untold}",
                (found,),
                f"restart with {levers_of(server).metrics}",
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

    vLLM listens on all addresses unless `--host` is given. Its key may stand in the environment (`VLLM_API_KEY`),
    which no log shows: then this is only probable. llama-server takes it from `LLAMA_API_KEY` or `--api-key-file`;
    SGLang only as an argument, which a YAML file for `--config` keeps off the command line.

    In a container a server has to listen on all addresses. It is open as far as its port is published: `docker run -p
    127.0.0.1:8000:8000` lets in this host alone.
    """
    for server in deployment.servers:
        host = _listens_on(server)
        if host.value in ("0.0.0.0", "::", "[::]") and _arguments_known(server) and not server.figure("api_key").known:
            hidden = server.engine == "vLLM" and not any(isinstance(e.content, Argv) for e in server.evidence)
            perhaps = ", unless VLLM_API_KEY is in its environment" if hidden else ""
            if server.host and server.host.process.network:
                if not server.name.startswith("http"):
                    continue
                hidden, perhaps = True, f"{perhaps}, in a network of its own: to whom its port is published is not read"
            yield Hit(
                server.name,
                f"listens on {host.value} without a key{perhaps}",
                (host,),
                f"set --host 127.0.0.1 {_behind(server)}, or give it a key: {levers_of(server).key}",
                doubtful=hidden,
            )


def _behind(server: Server) -> str:
    return "behind a proxy" if server.role is Role.ROUTER else "behind a router"


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


def _listens_on(server: Server) -> Figure:
    """The address as its sockets tell it; else as stated; else what vLLM takes where its command line names none."""
    if server.host is not None and (bound := _bound(server.host)):
        return bound
    stated = server.figure("host")
    if stated.known or server.engine != "vLLM" or server.figure("uds").known:
        return stated
    return default("host", "0.0.0.0", "", "vLLM listens on all addresses where --host is not given")


def _bound(host: OnHost) -> Figure | None:
    """Where it listens, as far as the process table has it: on all addresses if any port of it does. None where no port
    of it is known; in a network of its own nobody outside reaches it but through a port that was published.
    """
    tcp = [text.rpartition(":")[0] for text in host.process.listens if not text.startswith("unix:")]
    if not tcp or host.process.network:
        return None
    most = next((address for address in tcp if address in ("0.0.0.0", "[::]", "::")), tcp[0])
    return read("host", most, "", Source(f"pid {host.process.pid}", "listening sockets"))


def _arguments_known(server: Server) -> bool:
    """Only where all arguments were seen is a missing key known to be missing."""
    if server.figure("arguments_cut").known:
        return False
    if server.figure("requested_host").known or server.figure("retry_max_retries").known:
        return True
    asked = (figure for name, figure in server.figures.items() if name.startswith("requested_"))
    return server.engine == "vLLM" and any(figure.kind is Kind.CONFIGURED for figure in asked)


@rule("several-servers-behind-one-url", Severity.WARNING, "Several servers answer at one URL")
def several_servers_behind_one_url(deployment: Deployment) -> Iterator[Hit]:
    """Asked the same several times within a moment, the URL gave answers that no single server gives: a proxy, a
    service or a shared port in front of several servers. Each figure is then that of whichever server answered: pools,
    use and queues of different servers stand side by side, and none of them is the sum.

    Different seeds, start times or pools tell it, or a counter that fell. A server that restarted between two calls
    looks the same: ask again. That nothing differs proves nothing: a proxy may keep a client at one server.
    """
    for server in deployment.workers:
        if server.differing:
            several = max(len(found.figures) for found in server.differing)
            first = server.differing[0]
            values = " and ".join(str(figure.value) for figure in first.figures)
            yield Hit(
                server.name,
                f"answers differ from call to call: at least {several} servers answer at this URL, and the figures mix"
                f" them ({first.quantity}: {values})",
                tuple(figure for found in server.differing for figure in found.figures),
                "give each server's own URL, past the proxy or the service",
            )

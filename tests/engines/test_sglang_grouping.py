"""Which evidence is of one server: what fits two of them is put to neither, and one server in two logs stays one."""

from __future__ import annotations

from tests.evidence import DAY, argv, document, gauges, log, metrics, start
from ullage.capacity.request import Shape
from ullage.deployment import Deployment, answer
from ullage.engines.read import read
from ullage.engines.server import Server
from ullage.evidence import Evidence

MODELS = {"object": "list", "data": [{"id": "small", "owned_by": "sglang", "max_model_len": 32_768}]}


def found(*items: Evidence) -> dict[str, Server]:
    """By the place of the first piece of evidence."""
    return {server.evidence[0].origin.target: server for server in read(items)[0]}


def test_evidence_that_fits_two_servers_is_put_to_neither() -> None:
    logs = [log("a.log", *start(40_000)), log("b.log", *start(90_000))]
    for item in (metrics("m.txt", *gauges(num_running_reqs=7)), document("v.json", "models", MODELS)):
        for order in ((item, *logs), (*logs, item)):
            servers = found(*order)
            assert len(servers) == 3
            assert not servers["a.log"].use("num_running_reqs").known
            assert "nothing tells which" in " ".join(servers[item.origin.target].notes)


def test_two_pages_that_fit_one_server_are_not_put_to_it() -> None:
    pages = [metrics(name, *gauges(num_running_reqs=7)) for name in ("m.txt", "n.txt")]
    assert not found(log("a.log", *start(40_000)), *pages)["a.log"].use("num_running_reqs").known


def test_what_a_page_says_or_its_folder_decides() -> None:
    logs = [log("a/server.log", *start(40_000)), log("b/server.log", *start(90_000))]
    by_pool = found(*logs, metrics("m.txt", *gauges(num_running_reqs=7, max_total_num_tokens=90_000)))
    assert by_pool["m.txt"].says("max_running_requests") == 64
    assert by_pool["m.txt"].says("max_total_num_tokens") == 90_000
    by_folder = found(*logs, metrics("b/metrics.txt", *gauges(num_running_reqs=7)))
    assert by_folder["b/metrics.txt"].says("max_total_num_tokens") == 90_000


def node(number: int, *besides: str, **given: object) -> Evidence:
    """A node's log: its own data-parallel ranks, and (on the first) the summary."""
    given |= {"nnodes": 2, "node_rank": number, "dist_init_addr": "10.0.0.1:5000", "dp_size": 2, "tp_size": 2}
    lines = [line.replace("TP0", f"DP{number} TP{number}") for line in start(40_000 + number, *besides, **given)]
    batch = f"Decode batch. #running-req: {3 + number}, #token: 100, token usage: 0.10, #queue-req: 0"
    return log(f"node{number}.log", *lines, f"[{DAY} 11:00:01 DP{number} TP{number}] {batch}")


def test_the_logs_of_two_nodes_are_of_one_server() -> None:
    prefill = log("p.log", *start(90_000, disaggregation_mode="prefill", port=30_001))
    for order in ((0, 1), (1, 0)):
        nodes = [node(number, disaggregation_mode="decode") for number in order]
        servers, _ = read([prefill, *nodes])
        assert len(servers) == 2
        [decode] = [s for s in servers if s.figure("node_rank").known and s.role.value == "decode"]
        assert (decode.says("max_total_num_tokens"), decode.use("num_running_reqs").value) == (40_000, 7)
        assert not decode.disagreements
        whole = answer(Deployment(tuple(servers)), Shape(4096)).chain
        alone = answer(Deployment((servers[0], decode)), Shape(4096)).by_server[decode.name]
        assert whole is not None
        assert whole.admits.value == alone.admits.value


def test_a_copy_of_a_log_is_no_second_server() -> None:
    lines = start(40_000)
    assert len(read([log("a.log", *lines), log("copy/a.log", *lines)])[0]) == 1
    assert len(read([log("a.log", *lines), log("b.log", *start(40_000, at="10:07"))])[0]) == 2


def test_a_command_line_goes_to_the_log_that_it_fits() -> None:
    logs = [
        log("p.log", *start(40_000, disaggregation_mode="prefill")),
        log("d.log", *start(90_000, disaggregation_mode="decode")),
    ]
    command = argv("python -m sglang.launch_server --model-path /models/small --disaggregation-mode decode --tp 4")
    assert found(*logs, command)["d.log"].figure("requested_tp_size").value == 4

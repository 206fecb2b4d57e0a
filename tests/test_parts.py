"""Servers that have nothing to do with each other are reckoned, shown and compared apart."""

from __future__ import annotations

import json

import pytest

from tests.evidence import argv, document, failed, log, of_server, on_host, start, vllm_start
from ullage.capacity.request import Shape
from ullage.deployment import server_limits
from ullage.evidence import Document, Evidence, Failure, Process
from ullage.report.json_form import to_data
from ullage.report.model import Report, report_on
from ullage.report.rows import rows_of


def worker(port: int, role: str, tokens: int, model: str = "small") -> Evidence:
    given = {"port": port, "disaggregation_mode": role, "model_path": f"/models/{model}", "page_size": 64}
    return log(f"{role}{port}.log", *start(tokens, **given))


def titles(report: Report) -> list[str]:
    return [title for title, _ in rows_of(report)]


PAIR = (worker(1, "prefill", 900_000), worker(2, "decode", 500_000))


def test_a_pair_and_a_server_of_its_own() -> None:
    report = report_on([*PAIR, log("vllm.log", *vllm_start(100_000, 12.2))])
    assert titles(report) == ["Parallel requests, prefill to decode", "Parallel requests, vllm.log (port 8000)"]
    alone = report_on(PAIR)
    assert titles(alone) == ["Parallel requests, prefill to decode"]
    rows = {row.label: row.admits for row in rows_of(alone)[0][1]}
    assert rows.items() <= {row.label: row.admits for row in rows_of(report)[0][1]}.items()


def test_two_pairs_of_two_models() -> None:
    others = (worker(3, "prefill", 90_000, "other"), worker(4, "decode", 50_000, "other"))
    report = report_on([*PAIR, *others])
    assert titles(report) == [
        "Parallel requests, prefill to decode, prefill1.log (port 1)",
        "Parallel requests, prefill to decode, prefill3.log (port 3)",
    ]
    data = json.loads(json.dumps(to_data(report)))
    assert len({tuple(row["servers"]) for row in data["chain"]}) == 2


def test_one_role_of_another_model_stays_in_the_chain() -> None:
    """A path tells little: /models/v4 on one host may be /data/v4-fp8 on the other."""
    report = report_on([PAIR[0], worker(2, "decode", 500_000, "small-fp8")])
    assert titles(report) == ["Parallel requests, prefill to decode"]


ROUTER = "python -m sglang_router.launch_router --port 8000 --pd-disaggregation --prefill {} --decode {}"


def found(port: int, role: str, tokens: int) -> tuple[Evidence, ...]:
    command = f"python -m sglang.launch_server --model-path /models/small --port {port} --disaggregation-mode {role}"
    items = on_host(command, port, listens=(f"0.0.0.0:{port}",), url=f"http://127.0.0.1:{port}")
    info = {"model_path": "/models/small", "port": port, "disaggregation_mode": role, "context_length": 32768}
    state = {"memory_usage": {"token_capacity": tokens}}
    answer = document(f"http://127.0.0.1:{port}", "server_info", info | {"internal_states": [state]})
    return (*items, answer._replace(origin=items[0].origin))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.0.0.5", "gpu1", "GPU1"])
def test_a_router_knows_its_workers_by_any_name_of_this_host(host: str) -> None:
    router = on_host(ROUTER.format(f"http://{host}:30000", f"http://{host}:30001"), 9, listens=("127.0.0.1:8000",))
    other = on_host("python -m sglang.launch_server --model-path /m/x --port 30002", 30002)
    report = report_on([*router, *found(30000, "prefill", 900_000), *found(30001, "decode", 500_000), *other])
    first, second = report.deployment.parts
    assert {s.role.value for s in first.servers} == {"router", "prefill", "decode"}
    assert [s.name for s in second.servers] == ["http://127.0.0.1:30002"]
    assert not [note for s in first.servers for note in s.notes if "not read" in note]


def test_a_worker_elsewhere_is_not_one_here() -> None:
    router = on_host(ROUTER.format("http://10.0.0.6:30000", "http://127.0.0.1:30001"), 9, listens=("127.0.0.1:8000",))
    report = report_on([*router, *found(30000, "prefill", 900_000), *found(30001, "decode", 500_000)])
    (note,) = [note for s in report.deployment.routers for note in s.notes if "not read" in note]
    assert note == "1 worker on another host not read: --follow reads it"


def test_flags_of_a_router_go_with_the_only_chain() -> None:
    report = report_on([*PAIR, argv("sglang-router --pd-disaggregation --max-concurrent-requests 4")])
    assert len(report.deployment.parts) == 1


def test_what_a_server_made_of_its_arguments_was_not_asked_for() -> None:
    """SGLang states its arguments as it resolved them; the command line of its process tells what was asked for."""
    items = found(30000, "decode", 500_000)
    info = items[-1]
    assert isinstance(info.content, Document)
    resolved = info.content.data | {"mem_fraction_static": 0.859, "chunked_prefill_size": 8192}
    report = report_on([*items[:-1], info._replace(content=Document(resolved))])
    (fraction,) = [s for s in report.deployment.servers[0].settings if s.label == "memory fraction"]
    assert not fraction.requested.known
    assert fraction.requested.note.startswith("not set")
    assert fraction.effective.value == 0.859


def test_a_worker_that_does_not_answer_is_not_to_be_followed_again() -> None:
    router = on_host(ROUTER.format("http://10.0.0.6:30000", "http://127.0.0.1:30001"), 9, listens=("127.0.0.1:8000",))
    silent = failed("http://10.0.0.6:30000", "", "refused")
    report = report_on([*router, *found(30001, "decode", 500_000), silent])
    (note,) = [note for s in report.deployment.routers for note in s.notes if "worker" in note]
    assert note == "1 worker did not answer"


def test_the_log_of_a_router_stays_with_its_process() -> None:
    """Whichever is read first, and although a log by itself would be counted to the only router on its host."""
    line = (
        "2026-11-29 11:00:00  INFO smg::server: Starting router on 127.0.0.1:{0} | mode: Regular"
        ' {{ worker_urls: ["http://h:{1}"] }}'
    )
    items = []
    for pid, port, worker_port in ((8, 8000, 1), (9, 9000, 2)):
        process = on_host(f"python -m sglang_router.launch_router --port {port}", pid, listens=(f"127.0.0.1:{port}",))
        items += [of_server(log(f"{port}.log", line.format(port, worker_port)), process), *process]
    told = {server.name: server.workers for server in report_on(items).deployment.routers}
    assert told == {"http://127.0.0.1:8000": ("http://h:1",), "http://127.0.0.1:9000": ("http://h:2",)}


@pytest.mark.parametrize("program", ["sglang-router", "SGLang", "vLLM", "llama.cpp"])
def test_a_server_of_which_only_its_processes_are_seen(program: str) -> None:
    """As another user sees one whose command line is lost under its title: it is there, and nothing is known of it."""
    (seen, *_) = on_host("sglang::router", 7, listens=(), hidden=True)
    assert isinstance(seen.content, Process)
    report = report_on([seen._replace(content=seen.content._replace(program=program)), *PAIR])
    (server,) = [s for s in report.deployment.servers if s.host]
    assert (server.name, server.engine) == ("pid 7", program)
    assert not [f for f in report.findings if f.where == server.name]
    assert to_data(report)["servers"]
    assert not server_limits(server, Shape(1000)).admits.known


def test_replicas_that_print_the_same_are_two() -> None:
    """Of one compose file, started in the same second."""
    items = []
    for pid, port in ((8, 30000), (9, 30001)):
        process = on_host(f"python -m sglang.launch_server --model-path /models/small --port {port}", pid)
        items += [*process, of_server(log("journal", *start(500_000)), process)]
    servers = report_on(items).deployment.servers
    assert [s.name for s in servers] == ["http://127.0.0.1:30000", "http://127.0.0.1:30001"]
    assert [s.figure("max_total_num_tokens").value for s in servers] == [500_000, 500_000]


def test_a_log_that_two_servers_write_is_no_third_server() -> None:
    both = (*vllm_start(100_000, 12.2, port=8000), *vllm_start(50_000, 6.1, port=8001, at="10:01"))
    processes = [
        on_host(f"vllm serve meta-llama/Llama-3.1-8B-Instruct --port {port}", pid, listens=(f"127.0.0.1:{port}",))
        for pid, port in ((8, 8000), (9, 8001))
    ]
    report = report_on([*processes[0], *processes[1], log("two.log", *both)])
    assert sorted(s.name for s in report.deployment.servers) == ["http://127.0.0.1:8000", "http://127.0.0.1:8001"]
    assert not [f for f in report.findings if f.id == "port-taken"]


def test_what_one_command_would_let_us_read_is_told_once() -> None:
    told = Failure("no rights", "user op may not read the journal of the system", "sudo ullage")
    items = [*on_host("vllm serve m --port 8000", 8), *on_host("vllm serve m --port 8001", 9)]
    journals = [
        Evidence(item.origin, f"journal of {item.origin.pid}.service", "", item.read_at, told)
        for item in items
        if isinstance(item.content, Process)
    ]
    ((item, failure),) = report_on([*items, *journals]).failed
    assert (item.place, failure.advice) == ("journal of 8.service, journal of 9.service", "sudo ullage")

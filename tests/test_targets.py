"""Guarded and odd targets through the whole of `ullage limits`: real servers, the printed page, the JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.engine_servers import KEY, OPEN, SERVED, info, serving, sglang, taking_turns, vllm
from tests.evidence import start
from tests.observe import servers
from tests.observe.servers import free_port
from ullage.cli.gather import Options, gather
from ullage.cli.main import ullage
from ullage.errors import UnreachableError, UsageError
from ullage.evidence import Evidence
from ullage.report.json_form import to_json
from ullage.report.model import Report, report_on

QUICK = 1.0  # seconds, where something hangs


def gathered(*targets: str, key_envs: Sequence[str] = (), metrics: Sequence[str] = (), **given: Any) -> list[Evidence]:
    given = {"timeout_s": 10.0, **given}  # a busy machine is not a failure
    return gather(targets, (), Options(key_envs=tuple(key_envs), metrics=tuple(metrics), **given))


def reported(*targets: str, **given: Any) -> Report:
    return report_on(gathered(*targets, **given))


def not_read(report: Report) -> list[tuple[str, str, str]]:
    return [(item.place, failure.reason, failure.advice) for item, failure in report.failed if failure.status != "404"]


def found(report: Report, rule: str) -> list[str]:
    return [finding.says for finding in report.findings if finding.id == rule]


@pytest.mark.parametrize("engine", OPEN)
def test_without_a_key_all_that_is_open_is_read_and_the_rest_is_one_line(engine: str) -> None:
    with serving(SERVED[engine], guard=engine) as server:
        items = gathered(server.url)
        told = not_read(report_on(items))
    read = {item.place.removeprefix(server.url) for item in items if not item.failed}
    assert read == {path for path in SERVED[engine] if OPEN[engine](path)}
    ((place, reason, advice),) = told
    said, _, several = reason.partition(": ")
    named = several.split(", ") if several else [place.removeprefix(server.url)]
    assert said == "the server wants a key"
    asked = {path for path in SERVED[engine] if not OPEN[engine](path) and path != "/slots"}  # which waits for /props
    assert asked <= set(named)
    assert not any(OPEN[engine](path) for path in named)
    assert advice == "pass a key with --api-key-env NAME"


@pytest.mark.parametrize("engine", OPEN)
def test_a_wrong_key_is_said_to_be_one(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_KEY", "of-another-door")
    with serving(SERVED[engine], guard=engine) as server:
        ((_, reason, advice),) = not_read(reported(server.url, key_envs=["ENGINE_KEY"]))
    assert reason.startswith("the server refused the key")
    assert advice == "look at the variable of --api-key-env"


@pytest.mark.parametrize("engine", OPEN)
@pytest.mark.parametrize("named", ["{key}", "{url}={key}", "{address}={key}", "{url}/v1={key}"])
def test_with_the_key_all_is_read_and_the_key_stands_nowhere(
    engine: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINE_KEY", KEY)
    pages = SERVED[engine] | {"/v1/models": SERVED[engine]["/v1/models"].replace('"small"', f'"echo of {KEY}"')}
    with serving(pages, guard=engine) as server:
        entry = named.format(key="ENGINE_KEY", url=server.url, address=server.url.removeprefix("http://"))
        items = gathered(server.url, key_envs=[entry])
    assert {item.place for item in items if not item.failed} == {server.url + path for path in pages}
    assert not_read(report_on(items)) == []
    assert KEY not in repr(items)


def test_a_page_of_which_only_the_metrics_are_open(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(sglang(running=4), guard="sglang") as server:
        assert ullage.main(["limits", server.url], standalone_mode=False) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "90,000" in printed
    assert "4 running" in printed
    assert "the server wants a key: /server_info, /model_info, /v1/loads, /v1/models; pass a key" in printed
    assert printed.count("wants a key") == 1


@pytest.mark.parametrize("page", [servers.events, servers.chunked, servers.dribbling, servers.endless_headers])
@pytest.mark.parametrize("path", ["/metrics", "/v1/loads"])
def test_the_rest_of_the_page_appears_beside_a_stream_without_end(page: Any, path: str) -> None:
    with serving(sglang() | {path: page}) as server:
        report = reported(server.url, timeout_s=QUICK)
    (running,) = [s.use("num_running_reqs").value for s in report.deployment.servers]
    assert running == 3
    assert [place for place, _, _ in not_read(report)] == [server.url + path]


@pytest.mark.parametrize(
    "form", ["{path}", "unix://{path}", "unix:{path}", "http+unix://{quoted}", "http://unix:{path}:"]
)
def test_a_server_on_a_unix_socket(form: str, tmp_path: Path) -> None:
    path = str(tmp_path / "a.sock")
    with serving(sglang(), host=path):
        report = reported(form.format(path=path, quoted=path.replace("/", "%2F")))
    (server,) = report.deployment.servers
    assert (server.name, server.says("max_total_num_tokens")) == (f"http://unix:{path}", 90_000)
    assert not_read(report) == []


def test_a_relative_path_of_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(sglang(), host=str(tmp_path / "a.sock")):
        assert [s.name for s in reported("a.sock").deployment.servers] == [f"http://unix:{tmp_path}/a.sock"]


def test_sockets_in_a_spec_each_with_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE_KEY", KEY)
    spec = tmp_path / "ullage.toml"
    spec.write_text(
        f'[[target]]\nurl = "unix://{tmp_path}/one.sock"\napi_key_env = "ONE_KEY"\n'
        f'[[target]]\nurl = "unix://{tmp_path}/two.sock"\n'
    )
    with ExitStack() as stack:
        one, two = (
            stack.enter_context(serving(sglang(), host=f"{tmp_path}/{name}.sock", guard="sglang"))
            for name in ("one", "two")
        )
        report = reported(str(spec))
        assert {headers.get("authorization") for _, headers in one.seen} == {f"Bearer {KEY}"}
        assert {headers.get("authorization") for _, headers in two.seen} == {None}
    assert [place for place, _, _ in not_read(report)] == [f"http://unix:{tmp_path}/two.sock"]


def test_what_a_spec_says_of_each_server_is_compared_with_that_one(tmp_path: Path) -> None:
    (tmp_path / "start.log").write_text("\n".join((*start(500_000, mem_fraction_static=0.83), "")))
    spec = tmp_path / "ullage.toml"
    with serving(sglang(chunked_prefill_size=8192)) as one, serving(sglang(chunked_prefill_size=4096)) as two:
        spec.write_text(
            f'[[target]]\nurl = "{one.url}"\nflags = "--chunked-prefill-size 8192 --api-key {KEY}"\n'
            f'[[target]]\nurl = "{two.url}"\nflags = "sglang serve --chunked-prefill-size 8192"\n'
            '[[target]]\nfile = "start.log"\nflags = """--mem-fraction-static \\\n 0.85"""\n'
        )
        report = reported(str(spec))
        assert KEY not in to_json(report)
    assert found(report, "spec-differs") == [
        f"chunked_prefill_size is 8,192 in {spec}, target 2, it runs with 4,096",
        f"mem_fraction_static is 0.85 in {spec}, target 3, it runs with 0.83",
    ]
    assert [f.where for f in report.findings if f.id == "spec-differs"] == [two.url, "start.log (port 30000)"]


def test_flags_of_a_spec_that_are_none(tmp_path: Path) -> None:
    spec = tmp_path / "ullage.toml"
    spec.write_text('[[target]]\nurl = "http://127.0.0.1:1"\nflags = "context-length 8192"\n')
    with pytest.raises(UsageError, match=r"ullage\.toml, target 1: flags names no flag"):
        gathered(str(spec))


@pytest.mark.parametrize("kind", ["url", "file"])
def test_one_target_twice_in_a_spec_is_refused(tmp_path: Path, kind: str) -> None:
    spec = tmp_path / "ullage.toml"
    spec.write_text(f'[[target]]\n{kind} = "h:1"\n[[target]]\nfile = "x"\n[[target]]\n{kind} = "h:1"\n')
    with pytest.raises(UsageError, match="targets 1 and 3 are the same"):
        gathered(str(spec))


def test_flags_of_a_spec_whose_quotes_do_not_pair_up(tmp_path: Path) -> None:
    spec = tmp_path / "ullage.toml"
    spec.write_text('[[target]]\nurl = "http://127.0.0.1:1"\nflags = "--model-path \'here"\n')
    with pytest.raises(UsageError, match=r"ullage\.toml, target 1: flags: "):
        gathered(str(spec))


def test_a_router_on_a_socket_is_followed(tmp_path: Path) -> None:
    path = str(tmp_path / "router.sock")
    with serving(sglang()) as worker:
        listed = json.dumps({"workers": [{"url": worker.url, "worker_type": "regular"}]})
        with serving({"/workers": listed}, host=path):
            report = reported(path, follow=True)
    assert [(s.role.value, s.name) for s in report.deployment.servers] == [
        ("unified", worker.url),
        ("router", f"http://unix:{path}"),
    ]
    assert {place for place, _, _ in not_read(report)} == {"http://localhost:29000"}


def without_metrics() -> dict[str, Any]:
    return {path: page for path, page in sglang().items() if path != "/metrics"}


def only_metrics(running: int) -> dict[str, Any]:
    return {"/metrics": sglang(running)["/metrics"]}


@pytest.mark.parametrize("form", ["{page}/metrics", "{page}", "{address}", "{server}={page}"])
def test_metrics_on_another_port_are_of_the_one_server(form: str) -> None:
    with serving(without_metrics()) as server, serving(only_metrics(8)) as page:
        entry = form.format(page=page.url, address=page.url.removeprefix("http://"), server=server.url)
        report = reported(server.url, metrics=[entry])
        assert [path for path, _ in page.seen] == ["/metrics"]
        assert "/metrics" not in [path for path, _ in server.seen]
    (only,) = report.deployment.servers
    assert only.name == server.url
    assert {e.place for e in only.evidence} >= {f"{server.url}/server_info", f"{page.url}/metrics"}
    assert found(report, "metrics-disabled") == []


def test_two_servers_on_one_host_keep_their_own_metrics(tmp_path: Path) -> None:
    """Also where the pages are named in the other order, and in a spec."""
    with ExitStack() as stack:
        one, two, of_one, of_two = (
            stack.enter_context(serving(pages))
            for pages in (without_metrics(), without_metrics(), only_metrics(1), only_metrics(2))
        )
        spec = tmp_path / "ullage.toml"
        pairs = ((one.url, of_one.url), (two.url, of_two.url))
        spec.write_text("".join(f'[[target]]\nurl = "{url}"\nmetrics = "{page}"\n' for url, page in pairs))
        named = [f"{two.url}={of_two.url}", f"{one.url}={of_one.url}"]
        for report in (reported(one.url, two.url, metrics=named), reported(str(spec))):
            gauges = {s.name: s.use("gauge_num_running_reqs").value for s in report.deployment.servers}
            assert gauges == {one.url: 1, two.url: 2}


def test_a_page_whose_server_is_not_told_is_joined_to_none() -> None:
    with serving(without_metrics()) as one, serving(without_metrics()) as two, serving(only_metrics(3)) as page:
        report = reported(one.url, two.url, f"{page.url}/metrics")
    assert [s.name for s in report.deployment.servers] == [one.url, two.url, page.url]
    hints = [any("--metrics SERVER=URL" in note for note in s.notes) for s in report.deployment.servers]
    assert hints == [False, False, True]


@pytest.mark.parametrize(
    ("targets", "metrics"),
    [
        (["http://h:1", "http://h:2"], ["http://h:3/metrics"]),
        (["http://h:1"], ["http://h:2=http://h:3/metrics"]),
        (["http://h:1"], ["http://h:3", "http://h:4"]),
        ([], ["http://h:3/metrics"]),
        (["http://h:1"], ["http://h:1=ftp://h"]),
        (["http://h:1"], [""]),
    ],
)
def test_a_metrics_page_that_is_not_told_to_be_one_servers(targets: list[str], metrics: list[str]) -> None:
    with pytest.raises(UsageError):
        gathered(*targets, metrics=metrics)


def test_metrics_beside_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ullage.toml").write_text('[[target]]\nfile = "a.log"\nmetrics = "http://h:1"\n')
    with pytest.raises(UsageError, match="beside a file"):
        gathered(str(tmp_path / "ullage.toml"))


def test_a_metrics_page_that_is_not_there_is_one_line_and_no_finding() -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    with serving(sglang()) as server:
        report = reported(server.url, metrics=[gone])
    assert [s.name for s in report.deployment.servers] == [server.url]
    assert [(place, reason) for place, reason, _ in not_read(report)] == [(f"{gone}/metrics", "nothing listens there")]
    assert found(report, "metrics-disabled") == []


def test_a_key_goes_to_the_metrics_page_of_its_host_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_KEY", KEY)
    page = only_metrics(3)
    with serving(without_metrics()) as server, serving(page) as near, serving(page) as far:
        for_it, elsewhere = f"{server.url}=ENGINE_KEY", far.url.replace("127.0.0.1", "localhost")
        for at in (near.url, elsewhere):
            reported(server.url, metrics=[at], key_envs=[for_it])
        assert [near.seen[0][1].get("authorization"), far.seen[0][1].get("authorization")] == [f"Bearer {KEY}", None]
        reported(server.url, metrics=[elsewhere], key_envs=[for_it, f"{elsewhere}=ENGINE_KEY"])
        assert far.seen[-1][1].get("authorization") == f"Bearer {KEY}"


def test_several_servers_behind_one_url_are_noticed_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    with taking_turns(sglang(random_seed=1), sglang(random_seed=2)) as server:
        assert ullage.main(["limits", server.url, "--fail-on", "warning"], standalone_mode=False) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "warning several-servers-behind-one-url" in printed
    assert "note answers differ from call to call: at least 2 servers answer at this URL" in printed


def differing(*turns: dict[str, Any]) -> list[str]:
    from ullage.engines.replicas import answers_that_differ

    with taking_turns(*turns) as server:
        told = answers_that_differ(gathered(server.url))
    return [quantity.quantity for quantity in told.get(server.url, ())]


def test_replicas_of_vllm_start_at_different_times() -> None:
    assert differing(vllm(1764400000.12, 5), vllm(1764400003.5, 5)) == ["process_start_time_seconds"]
    assert differing(vllm(1764400000.12, 5), vllm(1764400000.12, 5, 4000)) == ["num_gpu_blocks"]


def test_one_server_whose_figures_move_is_one_server() -> None:
    moving = [vllm(1764400000.12, 100 + n, waiting=n % 3) for n in range(20)]
    assert differing(*moving) == []
    assert differing(*(sglang(running=n) for n in range(20))) == []


def test_processes_of_one_server_that_share_a_page_are_one_server() -> None:
    """Their page has no series of a process (PROMETHEUS_MULTIPROC_DIR), and model cards are made for each answer."""
    page = 'vllm:prompt_tokens_total{engine="0"} %d\nvllm:prompt_tokens_total{engine="1"} %d\n'
    assert differing(*({"/metrics": page % (n, n + 1)} for n in range(20))) == []


def test_what_tells_servers_apart_costs_two_requests_of_what_answered() -> None:
    with serving(sglang()) as server:
        items = gathered(server.url)
        assert [path for path, _ in server.seen].count("/server_info") == 3
        assert [item.topic for item in items if item.again] == ["server_info"] * 2
    with serving(vllm()) as server:
        assert [item.topic for item in gathered(server.url) if item.again] == ["metrics"] * 2
    with serving({"/server_info": servers.hung, "/v1/models": sglang()["/v1/models"]}) as server:
        assert [item for item in gathered(server.url, timeout_s=QUICK) if item.again] == []


def test_a_second_answer_that_fails_is_no_finding() -> None:
    asked: list[str] = []

    def once(handler: servers.Handler) -> None:
        asked.append(handler.path)
        handler.answer(info().encode()) if len(asked) == 1 else handler.answer(b"busy", 503)

    with serving(sglang() | {"/server_info": once}) as server:
        report = reported(server.url)
    assert not_read(report) == []
    assert found(report, "several-servers-behind-one-url") == []


def test_a_certificate_that_was_not_checked_is_said_on_the_page() -> None:
    with serving(sglang()) as server:
        items = [item._replace(remark="its certificate was not checked (--insecure)") for item in gathered(server.url)]
    (only,) = report_on(items).deployment.servers
    assert only.notes.count("its certificate was not checked (--insecure)") == 1


def test_the_base_url_of_clients_is_the_servers() -> None:
    with serving(sglang()) as server:
        (only,) = reported(f"{server.url}/v1").deployment.servers
    assert (only.name, only.says("max_total_num_tokens")) == (server.url, 90_000)


def test_a_server_that_sends_everything_on_is_one_line() -> None:
    away = {path: lambda handler: handler.send_on(f"https://login.example{handler.path}") for path in sglang()}
    with serving(away) as server:
        ((place, reason, advice),) = not_read(reported(server.url))
    assert place == server.url
    assert reason.startswith("sends on to https://login.example: /server_info, ")
    assert "name that URL itself" in advice


@pytest.mark.parametrize(
    ("userinfo", "says"), [("", "wants a name and password"), ("me:no-such-pass@", "refused the name")]
)
def test_basic_authentication_of_a_proxy(userinfo: str, says: str) -> None:
    guarded = {
        path: lambda h: h.answer(b"", 401, WWW_Authenticate='Basic realm="x"') for path in (*sglang(), "/workers")
    }
    with serving(guarded) as server:
        ((_, reason, advice),) = not_read(reported(server.url.replace("://", f"://{userinfo}")))
    assert says in reason
    assert advice == "put both into the url of an ullage.toml"


def test_failures_of_different_kinds_stay_apart() -> None:
    pages = sglang() | {"/metrics": servers.hung, "/v1/loads": servers.events}
    with serving(pages) as server:
        report = reported(server.url, timeout_s=QUICK)
    told = {place.removeprefix(server.url): reason for place, reason, _ in not_read(report)}
    assert told == {
        "/metrics": "no full answer within 1 s",
        "/v1/loads": "a stream of events without end, not JSON or metrics",
    }


@pytest.mark.parametrize(
    "form", ["[::1]:{port}", "http://[::1]:{port}", "http://[::1]:{port}/v1", "http://[::1%251]:{port}"]
)
def test_an_ipv6_address(form: str) -> None:
    try:
        with serving(sglang(), host="::1") as server:
            (only,) = reported(form.format(port=server.server_port)).deployment.servers
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    assert only.says("max_total_num_tokens") == 90_000


@pytest.mark.parametrize("form", ["unix://{path}={key}", "http+unix://{quoted}={key}", "http://unix:{path}:={key}"])
def test_the_key_of_a_socket(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_KEY", KEY)
    path = str(tmp_path / "a.sock")
    entry = form.format(path=path, quoted=path.replace("/", "%2F"), key="ENGINE_KEY")
    with serving(sglang(), host=path, guard="sglang"):
        assert not_read(reported(path, key_envs=[entry])) == []


def test_a_server_all_of_whose_own_endpoints_are_guarded_is_told_to_want_a_key() -> None:
    """Endpoints that another engine would serve are not there: that is not what is told."""
    with servers.running() as server:
        server.answering = lambda handler: (
            handler.answer(b'{"error":"Unauthorized"}', 401)
            if handler.path in ("/metrics", "/v1/models", "/version")
            else servers.missing(handler)
        )
        with pytest.raises(UnreachableError, match="the server wants a key"):
            ullage.main(["limits", server.url], standalone_mode=False)

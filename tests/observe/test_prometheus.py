"""A Prometheus server as a source: the real one, which scrapes small servers and a worker of the tank; and answers of
others, in their form.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit
from urllib.request import urlopen

import pytest

from ullage.errors import UsageError
from ullage.evidence import Evidence, Failure, Samples
from ullage.masking import Masker
from ullage.observe import metrics_text
from ullage.observe.http import Access
from ullage.observe.prometheus import read_prometheus

from .servers import Handler, Server, fixed, free_port, running

ACCESS = Access(timeout_s=20.0)
UP_S = 60.0
SGLANG = """
sglang:num_running_reqs{model_name="small",tp_rank="0"} 3
sglang:token_usage{model_name="small",tp_rank="0"} 0.25
sglang:max_total_num_tokens{model_name="small",tp_rank="0"} 2454784
sglang:time_to_first_token_seconds_bucket{le="1"} 5
sglang:e2e_request_latency_seconds_sum 7.5
python_info{version="3.12"} 1
"""
VLLM = """
vllm:num_requests_running{engine="0",model_name="small",job="batch"} 7
vllm:request_prompt_tokens_bucket{engine="0",le="1"} 2
vllm:cache_config_info{block_size="16",pod="of its own"} 1
"""


class Setup(NamedTuple):
    url: str
    sglang: Server
    vllm: Server
    tank: str

    def place(self, server: Server) -> str:
        return server.url.removeprefix("http://")


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus here: apt install prometheus")
    folder, port, tank = tmp_path_factory.mktemp("prometheus"), free_port(), f"127.0.0.1:{free_port()}"
    with running() as sglang, running() as vllm:
        sglang.answering, vllm.answering = fixed(SGLANG), fixed(VLLM)
        made = Setup(f"http://127.0.0.1:{port}", sglang, vllm, tank)
        config = folder / "prometheus.yml"
        config.write_text(json.dumps(configured(made)))
        where = [f"--config.file={config}", f"--storage.tsdb.path={folder}", f"--web.listen-address=127.0.0.1:{port}"]
        worker = [sys.executable, "-m", "ullage.tank.worker", "--model", "tiny", "--port", tank.partition(":")[2]]
        with running_process([program, *where], folder), running_process([*worker, "--enable-metrics"], folder):
            until(lambda: len(instances(made.url)) == 5)
            yield made


def configured(made: Setup) -> dict[str, Any]:
    def job(name: str, target: str, **labels: str) -> dict[str, Any]:
        return {"job_name": name, "static_configs": [{"targets": [target], "labels": labels}]}

    relabelled = job("colons", made.place(made.sglang), cluster="b") | {
        "metric_relabel_configs": [
            {
                "source_labels": ["__name__"],
                "regex": "sglang:(.*)",
                "target_label": "__name__",
                "replacement": "sglang_$1",
            }
        ]
    }
    return {
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s"},
        "scrape_configs": [
            job("sglang", made.place(made.sglang), cluster="a", token_of="hunter2"),
            job("vllm", made.place(made.vllm), cluster="a", pod="vllm-0"),
            relabelled,
            job("down", f"127.0.0.1:{free_port()}", cluster="c"),
            job("tank", made.tank, cluster="d"),
        ],
    }


class running_process:  # noqa: N801
    def __init__(self, command: list[str], folder: Path) -> None:
        with (folder / f"{Path(command[0]).name}.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def instances(url: str) -> set[str]:
    """The jobs that were scraped, once or in vain."""
    query = 'count by (job) ({__name__=~"sglang.*num_running_reqs|vllm:num.*"}) or count by (job) (up{job="down"})'
    return {series["metric"]["job"] for series in asked(url, query)}


def asked(url: str, query: str) -> list[Any]:
    with suppress(OSError), urlopen(f"{url}/api/v1/query?query={quote(query)}", timeout=5) as answer:
        return list(json.load(answer)["data"]["result"])
    return []


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + UP_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def samples(item: Evidence) -> dict[str, tuple[dict[str, str], float]]:
    assert isinstance(item.content, Samples), item.content
    return {sample.name: (dict(sample.labels), sample.value) for sample in item.content.samples}


def failure(items: list[Evidence]) -> Failure:
    [item] = items
    assert isinstance(item.content, Failure), item.content
    return item.content


def test_a_server_as_if_its_own_page_were_read(setup: Setup) -> None:
    page, _ = read_prometheus(setup.url, ['{cluster="a", job="sglang"}'], ACCESS, Masker())
    own = {"model_name": "small", "tp_rank": "0"}
    assert (page.origin.target, page.topic) == (setup.place(setup.sglang), "metrics")
    assert samples(page) == {
        "sglang:num_running_reqs": (own, 3.0),
        "sglang:token_usage": (own, 0.25),
        "sglang:max_total_num_tokens": (own, 2454784.0),
        "sglang:e2e_request_latency_seconds_sum": ({}, 7.5),
    }


def test_it_is_as_old_as_its_sample(setup: Setup) -> None:
    page, _ = read_prometheus(setup.url, ['{cluster="a", job="sglang"}'], ACCESS, Masker())
    assert page.place.startswith(f"{setup.url} instance={setup.place(setup.sglang)}, sampled ")
    assert page.place.endswith(" s ago")
    assert timedelta(0) < datetime.now(timezone.utc) - page.read_at < timedelta(minutes=5)
    assert page.observed_at == page.read_at.isoformat(timespec="seconds")


def test_the_highest_values_of_a_window(setup: Setup) -> None:
    setup.sglang.answering = fixed(SGLANG.replace("} 3", "} 90").replace("0.25", "0.97"))
    until(lambda: asked(setup.url, 'sglang:num_running_reqs{job="sglang"} == 90'))
    setup.sglang.answering = fixed(SGLANG)
    until(lambda: asked(setup.url, 'sglang:num_running_reqs{job="sglang"} == 3'))
    page, maxima = read_prometheus(setup.url, ['{job="sglang"}'], ACCESS, Masker(), window_s=1800)
    own = {"model_name": "small", "tp_rank": "0"}
    assert samples(page)["sglang:num_running_reqs"] == (own, 3.0)
    assert samples(maxima) == {"sglang:num_running_reqs": (own, 90.0), "sglang:token_usage": (own, 0.97)}
    assert maxima.topic == "maxima"
    assert maxima.origin == page.origin
    assert maxima.remark == "the highest that Prometheus saw in 30 min, in earlier starts too"


def test_a_selector_picks_servers_not_series(setup: Setup) -> None:
    """`vllm:num_requests_running{cluster="a"}`: the vLLM servers there, with all they tell. A label that both the
    server and Prometheus set has the server's value again, but for those that name a target.
    """
    page, maxima = read_prometheus(setup.url, ['vllm:num_requests_running{cluster="a"}'], ACCESS, Masker())
    assert samples(page) == {
        "vllm:num_requests_running": ({"engine": "0", "model_name": "small"}, 7.0),
        "vllm:request_prompt_tokens_bucket": ({"engine": "0", "le": "1"}, 2.0),
        "vllm:cache_config_info": ({"block_size": "16"}, 1.0),
    }
    assert samples(maxima).keys() == {"vllm:num_requests_running"}


def test_all_servers_of_all_engines(setup: Setup) -> None:
    items = read_prometheus(setup.url, ['{cluster=~"a|d"}', '{cluster="b"}'], ACCESS, Masker())
    of_sglang = setup.place(setup.sglang)
    assert [item.origin.target for item in items if item.topic == "metrics"] == [
        f"{of_sglang} cluster=a job=sglang",
        setup.place(setup.vllm),
        f"{of_sglang} cluster=b job=colons",
        setup.tank,
    ]
    assert len(items) == 8


def test_names_without_a_colon(setup: Setup) -> None:
    page, maxima = read_prometheus(setup.url, ['{cluster="b"}'], ACCESS, Masker())
    assert samples(page)["sglang_max_total_num_tokens"][1] == 2454784.0
    assert samples(maxima).keys() == {"sglang_num_running_reqs", "sglang_token_usage"}


def test_a_real_worker_reads_the_same_as_by_its_own_page(setup: Setup) -> None:
    page, _ = read_prometheus(setup.url, ['{job="tank"}'], ACCESS, Masker())
    with urlopen(f"http://{setup.tank}/metrics", timeout=20) as answer:
        own = metrics_text.parse(answer.read().decode(), Masker())

    def told(content: object) -> set[tuple[object, ...]]:
        assert isinstance(content, Samples)
        ours = [s for s in content.samples if s.name.startswith("sglang:") and not s.name.endswith("_created")]
        return {(s.name, *sorted(s.labels.items())) for s in ours if "_bucket" not in s.name}

    assert told(page.content) == told(own)
    assert len(told(own)) > 5


def test_nothing_there_says_which_servers_are_down(setup: Setup) -> None:
    found = failure(read_prometheus(setup.url, ['{cluster="c"}'], ACCESS, Masker()))
    assert 'no series of an engine in the last 5 minutes for {cluster="c"}' in found.reason
    assert "Prometheus cannot scrape 127.0.0.1:" in found.reason
    found = failure(read_prometheus(setup.url, ['{cluster="z"}'], ACCESS, Masker()))
    assert "Status > Targets" in found.advice


def test_servers_that_are_down_are_told_beside_those_that_are_up(setup: Setup) -> None:
    *items, missing = read_prometheus(setup.url, ['{cluster=~"a|c"}'], ACCESS, Masker())
    assert {item.origin.target for item in items} == {setup.place(setup.sglang), setup.place(setup.vllm)}
    assert isinstance(missing.content, Failure)
    assert missing.content.reason.startswith("Prometheus cannot scrape 127.0.0.1:")
    assert not [i for i in read_prometheus(setup.url, ['{cluster="a"}'], ACCESS, Masker()) if i.failed]


def test_series_of_nobody_are_not_none(server: Server) -> None:
    server.answering = answering([series("sglang:token_usage", 0.5, job="collector")])
    found = failure(read_prometheus(server.url, ['{job="collector"}'], ACCESS, Masker()))
    assert (
        found.reason == 'the series for {job="collector"} have no label `instance` or `pod`: whose they are is not told'
    )


def test_prometheus_says_what_is_wrong_with_a_selector(setup: Setup) -> None:
    found = failure(read_prometheus(setup.url, ['{job=~"(("}'], ACCESS, Masker()))
    assert found.reason.startswith("Prometheus refuses the query: ")
    assert "error parsing regexp: missing closing )" in found.reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("Service Unavailable", "Prometheus is not ready to answer"),
        ('{"status":"error","error":"TSDB not ready"}', "Prometheus refuses the query: TSDB not ready"),
    ],
)
def test_one_that_is_not_ready_is_asked_later(server: Server, body: str, reason: str) -> None:
    server.answering = fixed(body, 503)
    found = failure(read_prometheus(server.url, ['{job="x"}'], ACCESS, Masker()))
    assert (found.reason, found.advice.split(" in")[0].split(" later")[0]) == (reason, "ask again")


def test_too_many_series_are_cut_at_whole_servers(setup: Setup) -> None:
    *items, left = read_prometheus(setup.url, ['{cluster=~"a|b"}'], ACCESS, Masker(), most_series=5)
    assert {item.origin.target for item in items} == {setup.place(setup.sglang)}
    assert isinstance(left.content, Failure)
    assert (left.content.status, left.content.reason) == ("too many", "2 more servers not read, beyond 5 series")


def test_the_page_that_a_browser_shows_names_the_server(setup: Setup) -> None:
    url = f"{setup.url}/graph?g0.expr=up&g0.tab=1"
    assert len(read_prometheus(url, ['{job="vllm"}'], ACCESS, Masker())) == 2


@pytest.mark.parametrize(
    "text",
    ["", "{}", "sum(up)", "up{job=}", 'up{job="a"', 'up{job="a"} > 1', "rate(x[5m])", '{job="a"} or up', "{job}"],
)
def test_what_is_no_selector_is_refused_before_anything_is_asked(text: str) -> None:
    with pytest.raises(UsageError, match="not a selector of PromQL"):
        read_prometheus("http://127.0.0.1:1", [text], ACCESS, Masker())


@pytest.mark.parametrize(
    "text", ["up", "{a='b'}", '{a="b",}', '{a!="b", c=~"d|e\\"", f!~`g"`}', 'sglang:x_y{ a = "}" , b="{,"}']
)
def test_selectors_of_all_forms_are_asked_as_they_are(text: str, server: Server) -> None:
    server.answering = answering([])
    failure(read_prometheus(server.url, [text], ACCESS, Masker()))
    [(path, _)] = server.seen
    [query] = parse_qs(urlsplit(path).query)["query"]
    begin = text.find("{")
    for matcher in text[begin + 1 : -1].strip(" ,").split(" , ") if begin >= 0 else ():
        assert matcher in query


def answering(result: list[dict[str, Any]], **besides: Any) -> Callable[[Handler], None]:
    return fixed(json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}} | besides))


def series(name: str, value: float | str, **labels: str) -> dict[str, Any]:
    return {"metric": {"__name__": name} | labels, "value": [1795000000.5, str(value)]}


def test_of_two_replicas_that_scrape_one_server_it_is_read_once(server: Server) -> None:
    both = [series("vllm:num_requests_running", 1, instance="a:1", prometheus_replica=r) for r in "xy"]
    server.answering = answering(both, warnings=["a store did not answer"])
    page, _ = read_prometheus(server.url, ["vllm:x"], ACCESS, Masker())
    assert isinstance(page.content, Samples)
    assert [(s.name, dict(s.labels), s.value) for s in page.content.samples] == [("vllm:num_requests_running", {}, 1.0)]
    assert page.content.problems == ("a store did not answer",)


def test_a_federated_server_is_named_by_its_own_instance(server: Server) -> None:
    one = series(
        "sglang:token_usage", "NaN", instance="prom:9090", exported_instance="http://a:1", exported_job="sglang"
    )
    server.answering = answering([one, series("sglang:token_usage:mean", 1, job="rule")])
    page, _ = read_prometheus(server.url, ["sglang:x"], ACCESS, Masker())
    assert (page.origin.target, page.place) == ("a:1", f"{server.url} instance=a:1, sampled in the last 5 minutes")
    assert isinstance(page.content, Samples)
    assert [(s.name, dict(s.labels)) for s in page.content.samples] == [("sglang:token_usage", {})]


def test_a_router_has_no_usage_of_its_own_but_its_page(server: Server) -> None:
    server.answering = answering([series("smg_http_requests_total", 4, instance="r:1")])
    [page] = read_prometheus(server.url, ["smg_x"], ACCESS, Masker())
    assert samples(page) == {"smg_http_requests_total": ({}, 4.0)}


def test_maxima_that_are_refused_hide_no_page(server: Server) -> None:
    good = answering([series("vllm:num_requests_running", 1, instance="a:1")])
    bad = fixed('{"status":"error","errorType":"timeout","error":"query \\"timed\\" out"}', 503)
    server.answering = lambda handler: (bad if "max_over_time" in handler.path else good)(handler)
    page, maxima = read_prometheus(server.url, ["vllm:x"], ACCESS, Masker())
    assert samples(page) == {"vllm:num_requests_running": ({}, 1.0)}
    assert isinstance(maxima.content, Failure)
    assert maxima.content.reason == 'Prometheus refuses the query: query "timed" out'


@pytest.mark.parametrize(
    "answer",
    [
        fixed('{"detail":"Not Found"}', 404),
        fixed('{"some": "json"}'),
        fixed("[1]"),
        answering([{"metric": {}, "value": [1]}]),
        fixed(json.dumps({"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}})),
    ],
)
def test_what_is_no_prometheus(answer: Callable[[Handler], None], server: Server) -> None:
    server.answering = answer
    assert failure(read_prometheus(server.url, ["up"], ACCESS, Masker())).reason == "this is no Prometheus server"


def test_a_page_for_people(server: Server) -> None:
    server.answering = fixed("<html><body>Log in</body></html>")
    assert failure(read_prometheus(server.url, ["up"], ACCESS, Masker())).status == "html"


def test_the_key_is_sent_and_shown_nowhere(server: Server) -> None:
    keyed = Access(api_key="hunter2-key", timeout_s=20.0)
    found = answering([series("vllm:num_requests_running", 1, instance="a:1", api_key="abcdef-123")])
    refused = fixed("no", 401)
    server.answering = lambda handler: (found if handler.headers["Authorization"] == "Bearer hunter2-key" else refused)(
        handler
    )
    items = read_prometheus(server.url, ["vllm:x"], keyed, Masker(["hunter2-key"]))
    assert "hunter2" not in repr(items)
    assert "abcdef-123" not in repr(items)
    assert len(items) == 2
    assert failure(read_prometheus(server.url, ["vllm:x"], ACCESS, Masker())).status == "401"


def test_nobody_there() -> None:
    [item] = read_prometheus(f"http://127.0.0.1:{free_port()}", ["up"], ACCESS, Masker())
    assert isinstance(item.content, Failure)
    assert item.content.status == "refused"
    assert item.origin.target.startswith("Prometheus at 127.0.0.1:")


def test_limits_of_servers_that_only_prometheus_reaches(setup: Setup) -> None:
    """By the command: the live tank, read as Prometheus scraped it, and its highest use of the last hour."""
    words = ["limits", "--prometheus", setup.url, "--match", '{job="tank"}', "--json"]
    done = subprocess.run([sys.executable, "-m", "ullage", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    (found,) = data["servers"]
    assert found["name"] == setup.tank
    assert found["total_context"]["value"] > 1000
    assert found["peaks"]["num_running_reqs"]["note"].startswith("the highest that Prometheus saw in 1 h")
    assert next(row["safe"]["value"] for row in found["limits"] if row["label"] == "full") > 1
    assert not data["not_read"]

"""What the page prints can be explained: every label of a row or a column, every kind, every prefix of a figure."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.evidence import argv, decode_batch, document, log, start, vllm_start, vllm_stats
from tests.report.pages import REPORTS
from ullage.cli.explain import explain
from ullage.engines.server import Server
from ullage.errors import UsageError
from ullage.evidence import Evidence
from ullage.figure import Kind
from ullage.findings.explanations import explanation, names
from ullage.findings.labels import PREFIXES
from ullage.report.model import report_on
from ullage.report.rows import rows_of
from ullage.report.terminal import print_report
from ullage.report.words import value_of

SLOT = {"id": 0, "n_ctx": 4096, "is_processing": True, "id_task": 3, "n_prompt_tokens": 100}
OF_ENGINES: dict[str, tuple[Evidence, ...]] = {
    "SGLang": (log("s.log", *start(40_000, enable_hierarchical_cache=True), decode_batch(1)),),
    "SGLang by its middle": (log("s.log", decode_batch(1)),),
    "sglang-router": (argv("sglang-router --worker-urls http://10.0.0.1:30000 --max-concurrent-requests 9"),),
    "vLLM": (log("v.log", *vllm_start(64_000, 7.81), vllm_stats("10:05:00", 3)),),
    "llama.cpp": (argv("llama-server -m m.gguf -c 8192"), document("http://127.0.0.1:8080", "slots", [SLOT])),
    "llama.cpp's router": (argv("llama-server --models-dir /models --models-max 2 -c 8192"),),
}


def servers() -> Iterator[Server]:
    for items in OF_ENGINES.values():
        yield from report_on(items).deployment.servers
    for make in REPORTS.values():
        yield from make().deployment.servers


def test_every_label_of_a_setting_can_be_explained() -> None:
    labels = {setting.label for server in servers() for setting in server.settings}
    assert len(labels) > 25
    assert [label for label in sorted(labels) if not explanation(label)] == []


@pytest.mark.parametrize("name", OF_ENGINES)
def test_every_label_that_stands_on_the_screen_can_be_explained(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first words of each row below a server's heading, and the names of columns."""
    monkeypatch.setenv("COLUMNS", "110")
    report = report_on(OF_ENGINES[name])
    print_report(report)
    told = capsys.readouterr().out
    body = told[told.index(f": {report.deployment.servers[0].name}") : told.index("Findings")]
    rows = [line for line in body.splitlines()[1:] if line and not line.startswith(" ")]
    labels = [line[:23].strip().split("  ")[0] for line in rows]
    assert labels
    assert [label for label in labels if not explanation(label)] == []


def test_the_columns_and_what_stands_for_a_number_can_be_explained() -> None:
    columns = ("prompt (+ output)", "admits", "safe", "in prefill", "binds", "asked for", "in effect", "not stated")
    values = {
        word
        for server in servers()
        for setting in server.settings
        for word in map(value_of, (setting.requested, setting.effective))
        if word.startswith("not ")
    }
    assert [word for word in (*columns, *values) if not explanation(word)] == []


def test_what_binds_can_be_explained() -> None:
    pools = {pool.name for server in servers() for pool in server.pools}
    levels = {f"{level.pool} in use" for server in servers() for level in server.levels}
    assert [name for name in sorted(pools | levels) if not explanation(name)] == []
    assert all(rows_of(report_on(items)) for name, items in OF_ENGINES.items() if "router" not in name)


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_can_be_explained(kind: Kind) -> None:
    assert explanation(kind.value)


def test_the_prefix_of_a_figure_is_explained_with_its_quantity() -> None:
    assert "first line" in (told := explanation("first_num_queue_reqs") or "")
    assert (explanation("num_queue_reqs") or "?") in told
    assert explanation("requested_context_len")
    assert all(explanation(f"{prefix}nothing_of_the_kind") is None for prefix in PREFIXES if prefix.endswith("_"))


@pytest.mark.parametrize(
    ("name", "of", "here"),
    [
        ("compute_mib CUDA0", "compute_mib", "of the device CUDA0"),
        ("draft_model_mib CPU_Mapped", "model_mib", "of the device CPU_Mapped"),
        ("graph_gib_target_decode", "graph_gib", "of the phase target_decode"),
        ("num_requests_waiting_by_reason_lora", "num_requests_waiting_by_reason", "of the reason lora"),
        ("responses 503", "responses", "of the status code 503"),
        ("kv_buffer CUDA0", "kv_buffer_mib", "in bytes"),
        ("peak_activation", "peak_activation_gib", "in bytes"),
        ("mean_request_queue_time_seconds", "request_queue_time_seconds", "the mean"),
        ("request_queue_time_seconds_sum", "request_queue_time_seconds", "the sum"),
        ("vllm:num_requests_running", "num_requests_running", "metrics page"),
    ],
)
def test_a_name_that_is_put_together_is_explained_by_its_parts(name: str, of: str, here: str) -> None:
    told = explanation(name) or ""
    assert (explanation(of) or "?") in told
    assert here.lower() in told.lower()


@pytest.mark.parametrize(
    "name", ["compute_mid CUDA0", "graph_gip_decode", "grap_gib", "responces 503", "mean_nothing", "kv_bufer", "", " "]
)
def test_a_name_that_is_nobodys_has_no_text(name: str) -> None:
    assert explanation(name) is None


_LOADED = """
import sys
from ullage.cli.main import ullage
ullage(["limits", "--flags", "llama-server -m m.gguf -c 8192"], standalone_mode=False)
print([name for name in sys.modules if "glossary" in name or "explanations" in name])
"""


def test_only_explain_reads_the_texts() -> None:
    """They are long, and every command would wait for them."""
    done = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True)
    assert "llama.cpp" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [("kv_cache_dtyp", "kv_cache_dtype"), ("hicache_ration", "hicache_ratio"), ("nctx_seq", "n_ctx_seq")],
)
def test_what_a_mistyped_figure_may_mean_is_told(mistyped: str, meant: str) -> None:
    with pytest.raises(UsageError) as raised:
        explain.main([mistyped], standalone_mode=False)
    assert raised.value.advice == f"did you mean {meant}?"


def test_the_case_of_a_name_does_not_matter() -> None:
    assert [name for name in names() if explanation(name.upper()) != explanation(name)] == []

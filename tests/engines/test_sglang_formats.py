"""Lines as single versions of SGLang print them, whole or as somebody cut them: what they state is read, no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence import DAY, document, log, server_args, start
from ullage.capacity.demand import Demand
from ullage.engines.server import Role, Server
from ullage.engines.sglang.ledger import ledgers
from ullage.engines.sglang.read import facts_of, servers
from ullage.engines.sglang.server_args import is_cut, parse_server_args

OLD_ARGUMENTS = {f"option_{n}": None for n in range(30)} | {"model_path": "/models/small", "mem_fraction_static": 0.8}


def server(*lines: str) -> Server:
    [found] = servers(facts_of(log("a.log", *lines)))
    return found


def arguments(given: object) -> str:
    """As the builds since September 2026 print them."""
    return f"[{DAY} 10:00:00] server_args={given!r}"


def asked(found: Server, label: str) -> object:
    return next(setting.requested for setting in found.settings if setting.label == label).value


def why_not_asked(found: Server, label: str) -> str:
    return next(setting.requested for setting in found.settings if setting.label == label).note


def test_arguments_that_are_printed_as_a_dictionary() -> None:
    given = {"model_path": "/m", "tp_size": 3, "mem_fraction_static": 0.95, "disaggregation_mode": "decode"}
    nested = {"cuda_graph_config": {"decode": {"max_bs": 4, "bs": [1, 2]}}, "api_key": None}
    found = server(arguments(given | nested | {"max_running_requests": 4}), *start(40_000)[1:])
    assert found.role is Role.DECODE
    assert (found.figure("tp_size").value, found.figure("mem_fraction_static").value) == (3, 0.95)
    assert asked(found, "running requests") == 4


names = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text("ab'\"{}()=:, ", max_size=9), st.lists(st.integers())
)


@given(st.dictionaries(names, values, min_size=1, max_size=6))
def test_both_ways_of_printing_arguments_say_the_same(drawn: dict[str, object]) -> None:
    called = ", ".join(f"{name}={value!r}" for name, value in drawn.items())
    for text in (f"server_args=ServerArgs({called})", f"server_args={drawn!r}"):
        assert parse_server_args(text) == drawn
        assert not is_cut(text)


@given(st.dictionaries(names, values, min_size=1, max_size=6), st.data())
def test_arguments_that_are_cut_are_those_that_stand_whole(drawn: dict[str, object], data: st.DataObject) -> None:
    text = f"server_args={drawn!r}"
    at = data.draw(st.integers(len("server_args={"), len(text) - 1))
    found = parse_server_args(text[:at])
    assert found.items() <= drawn.items() or list(found) == list(drawn)[: len(found)]


@pytest.mark.parametrize(
    "line",
    [
        "server_args=ServerArgs(model_path='/models/small', ..., host='0.0.0.0', port=30000)",
        "server_args=ServerArgs(model_path='/models/small', host='0.0.0.0', port=30000, ...)",
        "server_args=ServerArgs(model_path='/models/small', host='0.0.0.0', port=30000, max_runn",
        "server_args={'model_path': '/models/small', 'host': '0.0.0.0', 'port': 30000, 'max_runn",
    ],
)
def test_of_arguments_that_are_cut_none_is_said_not_to_be_set(line: str) -> None:
    found = server(f"[{DAY} 10:00:00] {line}", *start(40_000)[1:])
    assert found.figure("port").value == 30_000
    assert "not whole" in why_not_asked(found, "running requests")
    assert not found.default_output.known
    assert found.figure("arguments_cut").known


def test_arguments_that_another_piece_of_evidence_shows_whole_are_not_cut() -> None:
    info = {"model_path": "/models/small", "port": 30000, "disaggregation_mode": "null", "max_running_requests": None}
    items = [
        log(
            "a.log",
            f"[{DAY} 10:00:00] server_args=ServerArgs(model_path='/models/small', port=30000, ...)",
            *start(40_000)[1:],
        ),
        document("http://127.0.0.1:30000", "server_info", info | {"internal_states": []}),
    ]
    [found] = servers([facts for item in items for facts in facts_of(item)])
    assert not found.figure("arguments_cut").known
    assert why_not_asked(found, "running requests").startswith("not set")


def test_a_whole_list_of_arguments_before_disaggregation_is_an_aggregated_servers() -> None:
    called = ", ".join(f"{name}={value!r}" for name, value in OLD_ARGUMENTS.items())
    few = server_args().replace(", disaggregation_mode='null'", "")
    for line, role in (
        (f"server_args=ServerArgs({called})", Role.UNIFIED),
        (f"server_args=ServerArgs({called}", Role.UNKNOWN),
        (few, Role.UNKNOWN),
    ):
        assert server(f"[{DAY} 10:00:00] {line}", *start(40_000)[1:]).role is role


@pytest.mark.parametrize(
    "end",
    [
        "Capture cuda graph end. Time elapsed: 7.23 s. avail mem=0.53 GB. mem usage=0.93 GB.",
        "Capture cuda graph end. Time elapsed: 7.23 s. mem usage=0.93 GB. avail mem=0.53 GB.",
        "Capture cuda graph end. elapsed=7.23 s, mem usage=0.93 GB, avail mem=0.53 GB.",
    ],
)
def test_the_end_of_a_capture_in_whatever_order(end: str) -> None:
    figures = server(f"[{DAY} 10:00:40 TP0] {end}").figures
    told = [figures[name].value for name in ("graph_s", "graph_gib", "avail_after_graph_gib")]
    assert told == [7.23, 0.93, 0.53]


def test_a_pool_of_addresses_is_no_pool_of_memory() -> None:
    found = server(
        "VirtualKV Cache is allocated. #tokens: 90000, K size: 8.00 GB, V size: 8.00 GB",
        "Physical KV Cache limits by --mem-fraction-static: #tokens: 40000, K size: 3.00 GB, V size: 3.00 GB",
    )
    assert found.figure("max_total_num_tokens").value == 40_000
    assert not any(name.endswith("_gib") for name in found.figures)


def test_the_host_tier_is_what_all_ranks_allocate() -> None:
    lines = [
        f"[{DAY} 10:00:3{rank} DP{rank} TP{rank}] {text}"
        for rank in (0, 1)
        for text in (
            "Allocating kv hierarchical KV host pool: 500000 tokens, 20.25 GB host memory.",
            "Allocating 5.50 GB host memory for DSA indexer (layout=page_first).",
        )
    ]
    assert server(*lines).figure("hicache_host_gb").value == 51.5
    old = f"[{DAY} 10:00:31 TP0] Allocating 12.50 GB host memory for hierarchical KV cache."
    assert server(old).figure("hicache_host_gb").value == 12.5


def test_the_warm_up_of_one_of_two_roles_is_told() -> None:
    lines = (*start(40_000)[1:], f"[{DAY} 10:00:58] End of disaggregation warmup")
    found = server(*lines)
    assert found.role is Role.UNKNOWN
    assert any("a prefill or a decode server" in note for note in found.notes)


def test_a_pool_that_was_sized_larger_by_memory_first() -> None:
    sized = "DSV4 pool sizes: full={full}, swa=3200, c4=8192, c128=256, c4_state=200, c128_state=0"
    cut = "DSV4 memory calculation: bytes_per_full_token=7705.45, available_bytes=6.16 GB, full_token=8529"
    lines = (cut, sized.format(full=852_992), sized.format(full=32_768))
    assert server(*start(32_768, *lines)).figure("sized_tokens").value == 852_992
    assert not server(*start(32_768, cut, lines[2])).figure("sized_tokens").known
    late = "Post-capture KV sizing: max_total_num_tokens=32768, free memory=9.00 GB"
    assert not server(*start(32_768, *lines, late)).figure("sized_tokens").known


def test_the_pools_of_a_window_model_by_their_labels() -> None:
    found = server(
        f"[{DAY} 10:00:31] SWA KV Cache is allocated. dtype: fp8, #tokens: 30000, K size: 1.50 GB, V size: 1.25 GB",
        f"[{DAY} 10:00:31] Full KV Cache is allocated. dtype: fp8, #tokens: 40000, K size: 0.25 GB, V size: 0.20 GB",
    )
    figures = {name: found.figure(name).value for name in ("swa_kv_k_gib", "swa_kv_v_gib", "kv_k_gib", "kv_v_gib")}
    assert list(figures.values()) == [1.5, 1.25, 0.25, 0.2]
    assert found.figure("swa_max_total_num_tokens").value == 30_000
    assert not any("two sizes" in note for note in found.notes)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("max_total_num_tokens=30000, free memory=9.00 GB", (30_000, None, 9.0)),
        (
            "KV cache allocated. dtype: torch.bfloat16, #tokens: 30000, KV size: 2.50 GB, avail mem=9.00 GB",
            (30_000, 2.5, 9),
        ),
        (
            "KV cache allocated. #tokens: 30000, K size: 1.25 GB, V size: 1.50 GB, avail mem=9.00 GB",
            (30_000, 2.75, 9.0),
        ),
        ("KV cache allocated. full and window, KV size: 2.50 GB, avail mem=9.00 GB", (None, 2.5, 9.0)),
    ],
)
def test_a_pool_that_is_sized_after_the_capture(line: str, told: tuple[object, ...]) -> None:
    found = server(
        f"[{DAY} 10:00:31] KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 90000, KV size: 8.00 GB",
        f"[{DAY} 10:00:41] Post-capture KV sizing: {line}",
        f"[{DAY} 10:00:41] Post-capture KV sizing: max_running_requests 64 -> 24",
    )
    names = ("post_capture_tokens", "post_capture_kv_gib", "post_capture_free_gib")
    assert tuple(found.figure(name).value for name in names) == told
    assert found.figure("max_running_requests").value == 24
    assert not found.figure("kv_total_gib").known


def test_what_a_rank_captures_in_several_steps_adds_up() -> None:
    def end(rank: int, phase: str, size: float, second: int) -> str:
        told = f"elapsed=1.00 s, mem usage={size:.2f} GB, avail mem={9 - size:.2f} GB."
        return f"[{DAY} 10:00:{second} TP{rank}] Capture {phase} CUDA graph end. {told}"

    steps = [end(rank, "draft decode", size, 40 + n) for rank in (0, 1) for n, size in enumerate((0.40, 0.25, 0.25))]
    found = server(*steps, end(0, "target verify", 0.5, 39), end(1, "target verify", 0.75, 39), steps[0])
    assert found.figure("graph_gib_draft_decode").value == 0.9
    assert found.figure("graph_gib_target_verify").value == 0.75


def test_the_weights_of_several_drafts_add_up() -> None:
    weights = (41.43, 1.5, 1.25, 1.25)
    lines = [
        f"[{DAY} 10:00:{10 + n} TP0] Load weight end. type=X, avail mem={50 - n:.2f} GB, mem usage={size:.2f} GB."
        for n, size in enumerate(weights)
    ]
    found = server(*lines)
    assert (found.figure("weights_gib").value, found.figure("draft_weights_gib").value) == (41.43, 4.0)


@pytest.mark.parametrize("who", ["Scheduler", "TpModelWorkerClient"])
def test_a_scheduler_that_died_in_either_of_its_threads(who: str) -> None:
    line = f"[{DAY} 11:00:01 DP1 TP1] {who} hit an exception: Traceback (most recent call last):"
    assert server(*start(40_000), line).use("scheduler_exceptions").value == 1


def test_what_a_server_on_a_cpu_leaves() -> None:
    summary = "max_total_num_tokens=40000, max_running_requests=64, context_len=8192, available_cpu_mem=16.85 GB"
    assert server(f"[{DAY} 10:00:50] {summary}").figure("available_gpu_mem_gib").value == 16.85


def test_a_server_that_is_up_and_states_no_pool() -> None:
    lines = [line for line in start(40_000) if "max_total" not in line]
    assert server(*lines).pools[0].size.note == "the start-up lines of this log state no pool"


WIDE = (
    "Load weight end. type=SmallForCausalLM, dtype=torch.bfloat16, avail mem=52.27 GB, mem usage=41.43 GB.",
    "DSV4 memory calculation: bytes_per_full_token=15897.45, available_bytes=24.16 GB, full_token=1632000",
    "DSV4 pool sizes: full=1632000, swa=163200, c4=408000, c128=12750, c4_state=10200, c128_state=163200",
    "Mamba Cache is allocated. max_mamba_cache_size: 117, conv_state size: 0.28GB, ssm_state size: 8.07GB",
    "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1632000, K size: 12.08 GB, V size: 12.08 GB",
    "max_total_num_tokens=1632000, chunked_prefill_size=8192, max_running_requests=256, context_len=131072",
)


@pytest.mark.parametrize("day", ["2025-03-08", "2026-03-08"])
def test_lines_that_a_terminal_cut_state_no_half_numbers(day: str) -> None:
    arguments = server_args(mem_fraction_static=0.8)
    lines = [f"[{day} 10:00:{n:02} TP0] {line}" for n, line in enumerate((arguments, *WIDE))]
    whole = {name: figure.value for name, figure in server(*lines).figures.items() if figure.known}
    for width in range(30, 130):
        found = servers(facts_of(log("a.log", *(line[:width] for line in lines))))
        figures = {name: figure.value for each in found for name, figure in each.figures.items() if figure.known}
        told = {name: value for name, value in figures.items() if name != "arguments_cut"}
        assert told.items() <= whole.items(), width


def test_lines_of_ranks_are_no_cut_lines_for_being_equally_long() -> None:
    summary = "max_total_num_tokens=40000, max_prefill_tokens=16384, max_running_requests=64, context_len=131072"
    found = server(*(f"[2025-03-08 10:00:50 TP{rank}] {summary}" for rank in range(4)))
    assert found.figure("context_len").value == 131_072


def test_a_step_whose_line_is_cut_is_one_all_the_same() -> None:
    """The second load is the draft model's, though the target's states nothing any more."""
    found = server(
        f"[{DAY} 10:00:01 TP0] Load weight begin. avail mem=93",
        f"[{DAY} 10:00:20 TP0] Load weight end. elapsed=19.00 s, type=Small",
        f"[{DAY} 10:00:21 TP0] Load weight begin. avail mem=52.27 GB",
        f"[{DAY} 10:00:25 TP0] Load weight end. elapsed=4.00 s, type=Draft, avail mem=50.27 GB, mem usage=2.00 GB.",
    )
    assert not found.figure("avail_before_weights_gib").known
    assert found.figure("draft_avail_before_weights_gib").value == 52.27
    assert found.figure("draft_weights_gib").value == 2.0


@pytest.mark.parametrize(
    ("arguments", "slots"),
    [
        ({"disable_radix_cache": True, "mamba_radix_cache_strategy": "extra_buffer"}, 1),
        ({"disable_radix_cache": False, "mamba_radix_cache_strategy": "no_buffer"}, 3),
        ({"disable_radix_cache": False, "mamba_scheduler_strategy": "extra_buffer"}, 5),
        ({"disable_radix_cache": False, "mamba_radix_cache_strategy": "extra_buffer"}, 5),
        ({"disable_radix_cache": False, "mamba_radix_cache_strategy": "extra_buffer_lazy"}, 4),
        (
            {
                "disable_radix_cache": False,
                "mamba_radix_cache_strategy": "extra_buffer",
                "disable_overlap_schedule": True,
            },
            4,
        ),
        ({"disable_radix_cache": False, "mamba_radix_cache_strategy": "something_new"}, None),
        ({"disable_radix_cache": False, "mamba_radix_cache_strategy": "auto"}, None),
        ({"disable_radix_cache": False, "mamba_scheduler_strategy": "auto"}, 3),
        ({}, None),
    ],
)
def test_what_a_request_takes_of_the_states_is_what_the_engine_divides_by(
    arguments: dict[str, object], slots: int | None
) -> None:
    states = "Mamba Cache is allocated. max_mamba_cache_size: 40, conv_state size: 0.10GB, ssm_state size: 5.00GB"
    found = server(*start(40_000, states, **arguments))
    pool = next(pool for pool in found.pools if pool.name == "state slots")
    assert (pool.demand.fixed if isinstance(pool.demand, Demand) else None) == slots


def test_the_figures_of_a_capture_have_units() -> None:
    end = "Capture target decode CUDA graph end. elapsed=9.00 s, mem usage=2.00 GB, avail mem=7.00 GB."
    figures = server(f"[{DAY} 10:00:40 TP0] {end}").figures
    names = ("graph_s_target_decode", "graph_gib_target_decode", "avail_after_graph_gib_target_decode")
    assert [figures[name].unit for name in names] == ["s", "GiB", "GiB"]


LIBRARY_START = (
    "Load weight begin. avail mem=70.00 GB",
    "Load weight end. elapsed=7.50 s, type=SmallForCausalLM, dtype=torch.bfloat16, avail mem=45.00 GB, mem usage=25.00"
    " GB.",
    "KV Cache is allocated. #tokens: 500000, K size: 6.00 GB, V size: 6.00 GB",
    "Memory pool end. avail mem=32.90 GB",
    "max_total_num_tokens=500000, chunked_prefill_size=4096, max_prefill_tokens=16384, max_running_requests=2048,"
    " context_len=65536, available_gpu_mem=32.10 GB",
    "Decode batch, #running-req: 3, #token: 20000, token usage: 0.04, cuda graph: True, gen throughput (token/s): 9.00,"
    " #queue-req: 0",
)


@pytest.mark.parametrize(
    "header",
    [
        "2026-05-11T09:00:00.100200Z  INFO scheduler.init_model_worker: ",
        "2026-05-11T09:00:00Z INFO: ",
        "2026-05-11 09:00:00,120 [INFO] sglang.srt.managers.scheduler: ",
        "2026-05-11 09:00:00,120 - INFO - sglang.srt.managers.scheduler - ",
        "2026-05-11 09:00:00,120 - sglang.srt.managers.scheduler - INFO - ",
        "INFO:sglang.srt.managers.scheduler:",
    ],
)
def test_lines_under_the_logging_of_the_program_that_runs_the_engine(header: str) -> None:
    found = server(*(header + line for line in LIBRARY_START))
    assert (found.figure("max_total_num_tokens").value, found.figure("context_len").value) == (500_000, 65_536)
    assert (found.figure("weights_gib").value, found.running.value) == (25.0, 3)


def test_pools_of_processes_that_nothing_tells_apart_take_no_negative_memory() -> None:
    """The second process has more free memory after its pool than the first one."""
    pool = "KV Cache is allocated. #tokens: 5000, K size: 6.00 GB, V size: 6.00 GB"
    found = server("Memory pool end. avail mem=11.00 GB", pool, "Memory pool end. avail mem=33.00 GB")
    assert not [part for led in ledgers(found) for part in led.parts if part.size.least < 0]


@pytest.mark.parametrize(("context", "known"), [(32768, True), (128000, True), (13107, False), (52428, False)])
def test_a_summary_that_somebody_ended_with_the_context_states_it(context: int, known: bool) -> None:
    """Builds of 2026 print more behind it: half of a round number is none itself."""
    line = f"[2026-06-02 10:05:00 TP0] max_total_num_tokens=20000, max_running_requests=64, context_len={context}"
    found = server(line)
    assert found.figure("context_len").known == known
    assert found.figure("max_running_requests").value == 64

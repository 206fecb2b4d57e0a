"""What llama.cpp's log lines say: every era's, a draft model's, several starts, a router's children, a start that
failed.
"""

from __future__ import annotations

import pytest

from tests.evidence import log
from ullage.capacity.request import Shape
from ullage.deployment import server_limits
from ullage.engines.read import read
from ullage.engines.server import Role

from .llamacpp import all_of, logged, pool_sizes, recorded, values

NEWEST = (
    "0.00.003.237 I cmn  common_param: common_params_print_info: build 9000 (0a1b2c3) with GNU 12 for Linux x86_64",
    "0.00.005.164 I srv    load_model: loading model '/models/small.gguf'",
    "0.00.433.519 I llama_context: n_seq_max             = 2",
    "0.00.433.540 I llama_context: n_ctx                 = 8192",
    "0.00.433.563 I llama_context: n_ctx_seq             = 8192",
    "0.00.433.691 I llama_context: kv_unified            = true",
    "0.00.551.601 I srv    load_model: initializing, n_slots = 2, n_ctx_slot = 8192, kv_unified = 'true'",
    "0.00.559.201 I srv  llama_server: model loaded",
    "0.00.559.229 I srv  llama_server: listening on http://127.0.0.1:8080",
)
KEYS = "K (f16):  224.00 MiB, V (f16):  224.00 MiB"
AUTUMN_2025 = (
    "build: 7100 (0a1b2c3) with GNU 13.3.0 for Linux x86_64",
    "main: loading model",
    "srv    load_model: loading model '/models/small.gguf'",
    "print_info: n_ctx_train      = 32768",
    "llama_context: n_seq_max     = 2",
    "llama_context: n_ctx         = 8192",
    "llama_context: n_ctx_per_seq = 4096",
    "llama_context: kv_unified    = false",
    "llama_kv_cache:      CUDA0 KV buffer size =   448.00 MiB",
    f"llama_kv_cache: size =  448.00 MiB (  4096 cells,  28 layers,  2/2 seqs), {KEYS}",
    "srv          init: initializing slots, n_slots = 2",
    "slot         init: id  0 | task -1 | new slot, n_ctx = 4096",
    "slot         init: id  1 | task -1 | new slot, n_ctx = 4096",
    "main: server is listening on http://127.0.0.1:8080 - starting the main loop",
)
SUMMER_2025 = (
    "build: 5760 (0a1b2c3) with GNU 13.3.0 for Linux x86_64",
    "srv    load_model: loading model '/models/small.gguf'",
    "llama_context: n_seq_max     = 2",
    "llama_context: n_ctx         = 8192",
    "llama_context: n_ctx_per_seq = 4096",
    "llama_kv_cache_unified:      CUDA0 KV buffer size =   448.00 MiB",
    f"llama_kv_cache_unified: size =  448.00 MiB (  8192 cells,  28 layers,  2 seqs), {KEYS}",
    "srv          init: initializing slots, n_slots = 2",
    "slot         init: id  0 | task -1 | new slot n_ctx_slot = 4096",
    "main: server is listening on http://127.0.0.1:8080 - starting the main loop",
)
SPRING_2025 = (
    "build: 5000 (0a1b2c3) with GNU 13.3.0 for Linux x86_64",
    "llama_context: n_seq_max     = 2",
    "llama_context: n_ctx         = 8192",
    "init: kv_size = 8192, offload = 1, type_k = 'f16', type_v = 'f16', n_layer = 28, can_shift = 1",
    "llama_kv_cache_init:      CUDA0 KV buffer size =   448.00 MiB",
    "llama_context: KV self size  =  448.00 MiB, K (f16):  224.00 MiB, V (f16):  224.00 MiB",
    "srv          init: initializing slots, n_slots = 2",
    "slot         init: id  0 | task -1 | new slot n_ctx_slot = 4096",
)
YEAR_2024 = (
    'INFO [                    main] build info | tid="1" timestamp=1720000000 build=3265 commit="0a1b2c3"',
    "llm_load_print_meta: n_ctx_train      = 32768",
    "llm_load_tensors:      CUDA0 buffer size =  4095.05 MiB",
    "llama_new_context_with_model: n_ctx      = 8192",
    "llama_kv_cache_init:      CUDA0 KV buffer size =   448.00 MiB",
    "llama_new_context_with_model: KV self size  =  448.00 MiB, K (f16):  224.00 MiB, V (f16):  224.00 MiB",
    'INFO [                    init] initializing slots | tid="1" timestamp=1720000000 n_slots=2',
    'INFO [                    init] new slot | tid="1" timestamp=1720000000 id_slot=0 n_ctx_slot=4096',
)


@pytest.mark.parametrize("lines", [AUTUMN_2025, SUMMER_2025, SPRING_2025, YEAR_2024])
@pytest.mark.parametrize(
    "prefix", ["", "Jan 01 00:00:00 box llama-server[7]: ", "llama-1  | ", "[2026-01-01 00:00:00] "]
)
def test_two_slots_of_4096_in_every_era(lines: tuple[str, ...], prefix: str) -> None:
    server = logged(*(prefix + line for line in lines))
    figures = values(server.figures)
    assert (figures["n_slots"], figures["n_ctx_slot"], figures["n_ctx"]) == (2, 4096, 8192)
    assert (figures["kv_mib"], figures["kv_k_mib"], figures["kv_buffer_mib CUDA0"]) == (448.0, 224.0, 448.0)
    assert [server_limits(server, Shape(tokens)).safe.value for tokens in (100, 4095, 4096)] == [2, 2, 0]


def test_one_pool_for_two_slots() -> None:
    server = logged(*NEWEST)
    assert pool_sizes(server) == {"slots": (2, 1), "KV pool": (8192, 1)}
    for shape, admits, safe in ((Shape(4096), 2, 2), (Shape(4096, 1), 2, 1), (Shape(8191, 1), 2, 1)):
        found = server_limits(server, shape)
        assert (found.admits.value, found.safe.value) == (admits, safe)
    assert "every processing slot fails" in server_limits(server, Shape(8000)).overflow


def test_a_recorded_start_of_three_slots_with_a_pool_each() -> None:
    server = recorded("divided-verbose.log")
    figures = values(server.figures)
    assert (server.name, figures["version"]) == ("divided-verbose.log (port 8080)", "b10000")
    assert (figures["n_slots"], figures["n_ctx_slot"], figures["n_ctx"], figures["n_ctx_train"]) == (3, 512, 1536, 8192)
    assert (figures["kv_mib"], figures["kv_cells"], figures["kv_streams"], figures["kv_layers"]) == (33.75, 512, 3, 30)
    assert (figures["cache_type_k"], figures["compute_mib"], figures["model_mib"]) == ("f16", 14.04, 92.1)
    assert (figures["self_mib Host"], figures["model_mib Host"], figures["context_mib Host"]) == (139, 92, 33)
    assert (figures["cache_ram_mib"], figures["checkpoint_mib"], figures["checkpoints_mib"]) == (8192, 0, 0)
    assert pool_sizes(server) == {"slots": (3, 1), "KV pool": (512, 3)}
    usage = values(server.usage)
    assert (usage["requests_processing"], usage["released_tokens"], usage["eval_tok_s"]) == (0, 49, 54.86)


def test_a_recorded_run_whose_pool_ran_out() -> None:
    usage = values(recorded("unified-overflow.log").usage)
    assert (usage["context_exceeded_in_log"], usage["failed_requests_in_log"], usage["kv_full_in_log"]) == (1, 2, 10)
    assert (usage["slots_seen"], usage["tasks_in_log"]) == ("1 0", "1 3 4 6 237 238")


def test_a_recorded_start_with_a_bound_on_each_slot() -> None:
    server = recorded("per-slot.log")
    assert pool_sizes(server) == {"slots": (4, 1), "KV pool": (1024, 1), "slot context": (256, 4)}
    assert server_limits(server, Shape(200, 56)).safe.value == 4
    found = server_limits(server, Shape(200, 57))
    assert (found.safe.value, "finish reason length" in found.overflow) == (0, True)


ISWA = (
    "llama_context: n_seq_max     = 1",
    "llama_context: n_ctx         = 65536",
    "llama_context: n_ctx_seq     = 65536",
    "llama_context: kv_unified    = false",
    "llama_kv_cache_iswa: creating non-SWA KV cache, size = 65536 cells",
    f"llama_kv_cache: size = 1024.00 MiB ( 65536 cells,   4 layers,  1/1 seqs), {KEYS.replace('224', '512')}",
    "llama_kv_cache_iswa: creating     SWA KV cache, size = 1024 cells",
    f"llama_kv_cache: size =   40.00 MiB (  1024 cells,  20 layers,  1/1 seqs), {KEYS.replace('224', ' 20')}",
)


def test_a_window_cache_is_told_apart_and_bounds_nothing() -> None:
    server = logged(*ISWA)
    figures = values(server.figures)
    assert (figures["kv_mib"], figures["kv_cells"], figures["swa_mib"], figures["swa_cells"]) == (1024, 65536, 40, 1024)
    assert pool_sizes(server) == {"slots": (1, 1), "KV pool": (65536, 1)}


def test_recurrent_states_and_the_checkpoints_that_copy_them() -> None:
    figures = values(
        logged(
            *NEWEST[:5],
            "llama_memory_recurrent: size =  201.00 MiB (     4 cells,  32 layers,  4 seqs  0 rs_seq), "
            "R (f32):    9.00 MiB, S (f32):  192.00 MiB, P (f32):    0.00 MiB",
            NEWEST[6].replace("n_slots = 2", "n_slots = 4"),
            "srv    load_model: context checkpoints enabled, max = 32, min spacing = 8192",
        ).figures
    )
    assert (figures["rs_mib"], figures["rs_r_mib"], figures["rs_s_mib"]) == (201.0, 9.0, 192.0)
    assert (figures["checkpoint_mib"], figures["checkpoints_mib"]) == (50.25, 6432.0)


def test_streams_that_each_sequence_keeps_for_itself_are_no_common_pool() -> None:
    """DeepSeek-V4: kv_unified is true, and the caches have a stream for each sequence all the same."""
    server = logged(
        *NEWEST[:6],
        f"llama_kv_cache: size =  224.00 MiB (  8192 cells,  40 layers,  2/2 seqs), {KEYS}",
        NEWEST[6],
    )
    assert pool_sizes(server)["KV pool"] == (8192, 2)


TRIAL = tuple(line.replace("8192", "32768") for line in NEWEST[2:5])


def test_the_trial_contexts_of_fit_do_not_count() -> None:
    constructing = "llama_context: constructing llama_context"
    buffers = [f"llama_kv_cache: CUDA0 KV buffer size = {n}.00 MiB" for n in (0, 448)]
    fit = "llama_params_fit_impl: context size reduced from 32768 to 8192 -> need 1344 MiB less memory in total"
    lines = (*NEWEST[:2], constructing, *TRIAL, buffers[0], fit, constructing, *NEWEST[2:5], buffers[1], *NEWEST[6:])
    figures = values(logged(*lines).figures)
    assert (figures["n_ctx"], figures["kv_buffer_mib"]) == (8192, 448.0)
    assert (figures["fit_ctx_before"], figures["fit_ctx_after"]) == (32768, 8192)


@pytest.mark.parametrize(
    "second", ["srv    load_model: loading draft model '/models/draft.gguf'", "srv load_model: creating MTP context"]
)
def test_a_draft_models_context_is_not_the_servers(second: str) -> None:
    draft = [line.replace("8192", "1024") for line in NEWEST[2:5]]
    figures = values(logged(*NEWEST[:6], second, *draft, NEWEST[6]).figures)
    assert (figures["n_ctx"], figures["draft_n_ctx"], figures["n_ctx_slot"]) == (8192, 1024, 8192)


def test_the_last_start_counts_and_a_model_that_is_loaded_after_a_sleep_is_none() -> None:
    first = tuple(line.replace("8192", "4096") for line in NEWEST)
    server = logged(*first, *NEWEST)
    assert (server.says("n_ctx"), [e.figures["n_ctx"].value for e in server.earlier]) == (8192, [4096])
    asleep = ("0.09.0.0 I srv server is entering sleeping state", "srv  exiting sleeping state")
    assert logged(*NEWEST, *asleep, *NEWEST[1:]).earlier == ()


def test_a_start_that_failed_says_why() -> None:
    failed = (
        *AUTUMN_2025[:3],
        "llama_model_load: error loading model: tensor 'x' data is not within the file bounds",
        "srv    load_model: failed to load model, '/models/small.gguf'",
        "main: exiting due to model loading error",
    )
    server = logged(*failed)
    assert server.says("ready") is False
    assert any("error loading model: tensor" in note for note in server.notes)
    assert "did not come up" in server_limits(server, Shape(4096)).admits.note
    again = logged(*failed, *NEWEST)
    assert (again.says("ready"), again.earlier[0].why_earlier) == (True, "it never came up")


ROUTER = (
    "0.00.019.304 I cmn  common_param: common_params_print_info: verbosity = 3 (adjust with the `-lv N` CLI arg)",
    "0.00.022.769 I srv  llama_server: starting server in router mode. models will be automatically loaded on-demand",
    "0.00.023.276 I srv  llama_server: listening on http://127.0.0.1:8000",
    "0.03.017.593 I srv          load: spawning server instance with name=small on port 42627",
    *(f"[42627] {line}" for line in NEWEST),
)


def test_a_router_holds_nothing_and_its_children_do() -> None:
    router, child = sorted(all_of([log("router.log", *ROUTER)]), key=lambda s: s.role is not Role.ROUTER)
    assert (router.role, router.pools, router.says("port")) == (Role.ROUTER, (), 8000)
    assert (child.name, pool_sizes(child)["KV pool"]) == ("child on port 42627", (8192, 1))


def test_a_wrapper_that_prints_the_command_line() -> None:
    spawned = (
        "[2026-01-21T04:20:06.135Z] [INFO] Spawning: /opt/llama.cpp/llama-server --port 8134 -c 16384 -np 2 -m /m/a b"
    )
    server = logged(spawned, *(f"[2026-01-21T04:20:07.135Z] [ERROR] {line}" for line in AUTUMN_2025))
    assert (server.says("requested_n_ctx"), server.says("n_ctx"), server.earlier) == (16384, 8192, ())


def test_systemd_tells_why_a_unit_ended() -> None:
    server = logged(
        "Oct 05 16:41:38 box systemd[1]: Started llama.cpp server.",
        "Oct 05 16:43:01 box systemd[1]: llama-server.service: systemd-oomd killed 3 process(es) in this unit.",
        "Oct 05 16:43:01 box systemd[1]: llama-server.service: Failed with result 'oom-kill'.",
        "Oct 05 16:43:01 box systemd[1]: llama-server.service: Consumed 5s CPU time, 20.5G memory peak, 0B swap peak.",
        "Oct 05 16:43:06 box systemd[1]: llama-server.service: Scheduled restart job, restart counter is at 2.",
    )
    usage = values(server.usage)
    assert (usage["killed_by"], usage["result"]) == ("systemd-oomd", "oom-kill")
    assert (usage["memory_peak_gib"], usage["restart_counter"]) == (20.5, 2)


@pytest.mark.parametrize(
    "lines",
    [
        (
            "INFO:     Uvicorn running on http://127.0.0.1:8081 (Press CTRL+C to quit)",
            "INFO:vllm_mlx.server:Loading model",
        ),
        ("INFO:     Application startup complete.", "INFO:     Shutting down", "KV cache quantization: 8-bit"),
        ("Oct 05 16:43:06 box systemd[1]: nginx.service: Scheduled restart job, restart counter is at 2.",),
    ],
)
def test_a_log_of_another_program_is_nobodys(lines: tuple[str, ...]) -> None:
    servers, unclaimed = read([log("llama-server.log", *lines)])
    assert (servers, len(unclaimed)) == ([], 1)


@pytest.mark.parametrize("line", [AUTUMN_2025[9], NEWEST[6], AUTUMN_2025[0], ISWA[5]])
def test_a_line_that_is_cut_states_nothing_wrong(line: str) -> None:
    whole = values(logged(line, NEWEST[7]).figures)
    for end in range(len(line) - 1, line.index(":"), -1):
        servers, _ = read([log("a.log", line[:end], NEWEST[7])])
        for server in servers:
            cut = values(server.figures)
            assert all(whole.get(name, value) == value for name, value in cut.items()), line[:end]


@pytest.mark.parametrize(
    "draft",
    [
        "0.04.755.304 I common_speculative_init_result: creating MTP draft context against target '/m/a.gguf'",
        "0.04.755.304 I srv    load_model: creating MTP draft context against target '/m/a.gguf'",
        "0.04.755.304 I common_speculative_init_result: loading draft model '/m/d.gguf'",
    ],
)
def test_the_context_of_a_draft_stands_beside_that_of_its_target(draft: str) -> None:
    figures = values(
        logged(
            "0.00.436.253 I srv    load_model: loading model '/m/a.gguf'",
            "0.01.000.001 I llama_context: constructing llama_context",
            "0.01.000.002 I llama_context: n_ctx                 = 32768",
            "0.01.000.003 I llama_kv_cache:      CUDA0 KV buffer size =  2048.00 MiB",
            "0.01.000.004 I llama_kv_cache: size = 2048.00 MiB ( 32768 cells,  16 layers,  1/1 seqs),"
            " K (f16): 1024.00 MiB, V (f16): 1024.00 MiB",
            draft,
            "0.05.000.001 I llama_context: constructing llama_context",
            "0.05.000.002 I llama_kv_cache:      CUDA0 KV buffer size =   128.00 MiB",
            "0.05.000.003 I llama_kv_cache: size =  128.00 MiB ( 32768 cells,   1 layers,  1/1 seqs),"
            " K (f16):   64.00 MiB, V (f16):   64.00 MiB",
            "0.05.141.440 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 32768, kv_unified = 'false'",
        ).figures
    )
    assert (figures["kv_mib"], figures["kv_layers"], figures["kv_buffer_mib CUDA0"]) == (2048.0, 16, 2048.0)
    assert (figures["draft_kv_mib"], figures["draft_kv_buffer_mib CUDA0"]) == (128.0, 128.0)


def test_each_cache_has_buffers_of_its_own() -> None:
    figures = values(
        logged(
            "llama_context: n_ctx         = 65536",
            "llama_kv_cache_iswa: creating non-SWA KV cache, size = 65536 cells",
            "llama_kv_cache:      CUDA0 KV buffer size =   768.00 MiB",
            "llama_kv_cache:      CUDA1 KV buffer size =   256.00 MiB",
            "llama_kv_cache_iswa: creating     SWA KV cache, size = 1024 cells",
            "llama_kv_cache:      CUDA0 KV buffer size =    24.00 MiB",
            "llama_kv_cache:      CUDA1 KV buffer size =    16.00 MiB",
        ).figures
    )
    assert (figures["kv_buffer_mib CUDA0"], figures["kv_buffer_mib CUDA1"], figures["kv_buffer_mib"]) == (
        768,
        256,
        1024,
    )
    assert (figures["swa_buffer_mib CUDA0"], figures["swa_buffer_mib CUDA1"], figures["swa_buffer_mib"]) == (24, 16, 40)


def test_the_buffers_of_a_models_files_add_up_and_those_of_its_trial_do_not() -> None:
    figures = values(
        logged(
            "llama_model_loader: loaded meta data with 30 key-value pairs from /m/a.gguf (version GGUF V3)",
            "load_tensors:   CPU_Mapped model buffer size =     1.00 MiB",
            "llama_context: constructing llama_context",
            "llama_model_loader: loaded meta data with 30 key-value pairs from /m/a.gguf (version GGUF V3)",
            "load_tensors:   CPU_Mapped model buffer size =  1000.25 MiB",
            "load_tensors:   CPU_Mapped model buffer size =   500.50 MiB",
            "load_tensors:   CPU_Mapped model buffer size =   250.00 MiB",
            "load_tensors:        CUDA0 model buffer size =  4000.00 MiB",
            "llama_context: n_ctx         = 4096",
        ).figures
    )
    assert (figures["model_mib CPU_Mapped"], figures["model_mib CUDA0"], figures["model_mib"]) == (
        1750.75,
        4000,
        5750.75,
    )


@pytest.mark.parametrize(
    "device", ["CUDA0", "CUDA_Host", "Vulkan1", "HTP1-REPACK", "RPC[10.0.0.2:50052]", "RPC0[10.0.0.2:50052]", "Metal"]
)
@pytest.mark.parametrize("by", ["llama_kv_cache", "llama_kv_cache_unified", "llama_kv_cache_init", "init"])
def test_every_kind_of_device_in_every_era(device: str, by: str) -> None:
    figures = values(
        logged(
            f"load_tensors: {device:>12} model buffer size =  2048.50 MiB",
            "llama_context: n_ctx         = 4096",
            f"{by}: {device:>12} KV buffer size =   656.00 MiB",
            f"llama_context: {device:>12} compute buffer size =   588.01 MiB",
            "alloc_compute_meta:      CUDA0 compute buffer size =   248.10 MiB",
        ).figures
    )
    stated = [figures[f"{name} {device}"] for name in ("model_mib", "kv_buffer_mib", "compute_mib")]
    assert stated == [2048.5, 656.0, 588.01]
    assert figures["compute_mib"] == 588.01  # what the projector of images takes is not the context's


@pytest.mark.parametrize(
    ("line", "device", "figures"),
    [
        (
            "|   - CUDA0 (RTX 3090) | 24117 = 23773 + (20903 = 12096 + 7504 +    1302) + 17592186023856 |",
            "CUDA0",
            -20560,
        ),
        ("|   - CUDA0 (RTX 3090) | 24117 =  3000 + ( 5619 =  2368 + 2734 +     517) +           933 |", "CUDA0", 933),
        ("|   - RPC0 (10.0.0.2:50052) | 90112 = 89899 + (81512 = 74317 + 4097 + 3097) +      -81300 |", "RPC0", -81300),
        (
            "|   - HTP0-REPACK      |                    504 =   504 +    0 +       0                |",
            "HTP0-REPACK",
            None,
        ),
    ],
)
def test_where_the_memory_of_a_device_went(line: str, device: str, figures: int | None) -> None:
    """The rest is below zero where others use less than the library expected; old builds print it unsigned."""
    found = values(logged("llama_context: n_ctx = 4096", f"llama_memory_breakdown_print: {line}").figures)
    parts = [int(str(found[f"{name}_mib {device}"])) for name in ("model", "context", "compute")]
    assert abs(int(str(found[f"self_mib {device}"])) - sum(parts)) <= 1  # each is rounded down
    assert found.get(f"unaccounted_mib {device}") == figures


def test_what_the_tools_beside_the_server_print_when_all_is_loaded_begins_no_start() -> None:
    [server] = all_of(
        [
            log(
                "tool.log",
                "build: 5192 (0a1b2c3) with GNU 13.3.0 for x86_64-linux-gnu",
                "llama_context: n_ctx         = 32768",
                "llama_context: KV self size  = 6016.00 MiB, K (f16): 3008.00 MiB, V (f16): 3008.00 MiB",
                "system_info: n_threads = 24 (n_threads_batch = 24) / 48 | CUDA : ARCHS = 860 |",
            )
        ]
    )
    figures = values(server.figures)
    assert (figures["version"], figures["n_ctx"], figures["kv_mib"]) == ("b5192", 32768, 6016.0)
    assert not server.earlier


def test_the_run_of_a_server_of_2024() -> None:
    told = 'tid="7" timestamp=1720000100 id_slot=1 id_task=9'
    usage = logged(
        *YEAR_2024,
        f"INFO [   launch_slot_with_task] slot is processing task | {told}",
        f"INFO [           print_timings] prompt eval time     =    2000.00 ms /   190 tokens (   10.53 ms per token,"
        f"    95.00 tokens per second) | {told} t_token=10.5",
        f"INFO [           print_timings] generation eval time =    1000.00 ms /    25 runs   (   40.00 ms per token,"
        f"    25.00 tokens per second) | {told} t_token=40.0",
    ).usage
    stated = [values(usage)[n] for n in ("requests_processing", "prompt_tokens", "prompt_tok_s", "eval_tok_s")]
    assert stated == [1, 190, 95.0, 25.0]
    assert (values(usage)["slots_seen"], values(usage)["tasks_in_log"]) == ("1", "9")
    after = f"INFO [ update_slots] slot released | {told} n_ctx=8192 n_past=215 n_system_tokens=0 truncated=false"
    ended = logged(*YEAR_2024, f"INFO [ launch_slot_with_task] slot is processing task | {told}", after).usage
    assert (values(ended)["requests_processing"], values(ended)["released_tokens"]) == (0, 215)


def test_what_the_projector_and_a_draft_were_expected_to_take() -> None:
    figures = logged(
        *NEWEST,
        "0.00.300.000 I srv    load_model: [mtmd] estimated worst-case memory usage of mmproj is 1502.25 MiB",
        "0.00.300.001 I srv    load_model: [spec] estimated memory usage of MTP context is 512.50 MiB",
    ).figures
    assert (figures["mmproj_mib"].value, figures["spec_context_mib"].value) == (1502.25, 512.5)
    assert figures["mmproj_mib"].unit == "MiB"


def test_the_queue_of_ollama_stands_before_the_slots_of_its_runner() -> None:
    said = 'level=INFO source=server.go:1388 msg="llama runner started in 1.08 seconds"'
    told = logged(*SUMMER_2025, f"time=2026-05-20T19:18:03.063-03:00 {said}").notes
    assert any("OLLAMA_MAX_QUEUE" in note for note in told)
    assert not any("Ollama" in note for note in logged(*SUMMER_2025).notes)


def test_a_log_that_ends_while_the_model_is_loaded_says_so() -> None:
    """Its library's lines are there: raising the verbosity would tell no more."""
    server = logged(
        NEWEST[1],
        "0.00.433.100 I load_tensors:        ROCm0 model buffer size =  7000.25 MiB",
        "#9  0x0000000000580150 in common_init_result::common_init_result(common_params&) ()",
    )
    assert any("ends while the model is loaded" in note for note in server.notes)
    assert not any("-lv 4" in note for note in server.notes)
    come_up = logged(NEWEST[1], *NEWEST[-3:])
    assert any("-lv 4" in note for note in come_up.notes)


def test_the_same_file_as_draft_model_is_a_second_model() -> None:
    loads = "0.00.523.688 I llama_model_loader: loaded meta data with 9 key-value pairs and 7 tensors from"
    lines = (
        NEWEST[1],
        f"{loads} /models/small.gguf (version GGUF V3 (latest))",
        "0.00.769.793 I load_tensors:        CUDA0 model buffer size =   500.25 MiB",
        *NEWEST[2:6],
        "0.00.772.277 I llama_kv_cache:      CUDA0 KV buffer size =   224.00 MiB",
        "0.00.799.477 I common_speculative_init_result: loading draft model '/models/small.gguf'",
        f"{loads} /models/small.gguf (version GGUF V3 (latest))",
        "0.00.869.793 I load_tensors:        CUDA0 model buffer size =   500.25 MiB",
        "0.00.872.277 I llama_kv_cache:      CUDA0 KV buffer size =    56.00 MiB",
        *NEWEST[6:],
    )
    figures = values(logged(*lines).figures)
    assert (figures["model_mib CUDA0"], figures["kv_buffer_mib CUDA0"]) == (500.25, 224)
    assert (figures["draft_model_mib CUDA0"], figures["draft_kv_buffer_mib CUDA0"]) == (500.25, 56)


def test_a_server_that_embeds_has_no_output_to_bound() -> None:
    told = "0.00.025.090 W srv  llama_server: embeddings enabled with n_batch (2048) > n_ubatch (512)"
    server = logged(told, *NEWEST)
    assert not server.default_output.known
    assert "generates nothing" in server.default_output.note
    assert any("longer than the physical batch" in note for note in server.notes)
    assert logged(*NEWEST).default_output.value == "unbounded"

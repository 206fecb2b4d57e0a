from __future__ import annotations

from tests.evidence import DAY, argv, log, start, vllm_start
from ullage.evidence import Evidence
from ullage.findings.base import Severity

from .scenario import Scenario, Scenarios

ERROR = "(EngineCore_DP0 pid=9) ERROR 09-12 10:00:30 [core.py:1] ValueError: "
SHORT = (
    f"{ERROR}To serve at least one request with the model's max seq len (32768), ({{}} GiB KV cache is needed, which is"
    " larger than the available KV cache memory (1.5 GiB). Based on the available memory, the estimated maximum model"
    " length is 12288. Try increasing `gpu_memory_utilization`."
)
CUT = SHORT.split(". Based on")[0]
OLD = (
    f"{ERROR}The model's max seq len (8192) is larger than the maximum number of tokens that can be stored in KV cache"
    " (6048)."
)
BUSY = (
    f"{ERROR}Free memory on device cuda:0 (36.75/121.63 GiB) on startup is less than desired GPU memory utilization"
    " (0.85, 103.38 GiB)."
)
NONE = f"{ERROR}No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."
WEIGHTS = (
    f"[{DAY} 10:00:31 TP0] ValueError: Loaded weights leave no GPU memory for the KV cache under"
    " --mem-fraction-static=0.88. Raise --mem-fraction-static above 0.912 (minimum viable = 1 - available/pre ="
    " 0.9113)."
)
NO_FLOOR = f"[{DAY} 10:00:31 TP0] RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
RAISED = f"[{DAY} 10:00:31 TP0] Scheduler hit an exception: Traceback (most recent call last):"
STATES = (
    f"[{DAY} 10:00:31 TP0] ValueError: Loaded weights leave no GPU memory for the KV cache under"
    " --mem-fraction-static=0.95. Raise --mem-fraction-static above 0.912 (minimum viable = 1 - available/pre ="
    " 0.9113)."
)
HOST = (
    f"[{DAY} 10:00:31 TP0] ValueError: Not enough host memory available. Requesting 300.50 GB but only have 120.25 GB"
    " free. Please reduce the size of the hierarchical cache."
)
BEGUN = vllm_start(1, 1.0, length=32_768, at="09:00")[:3]
UP = vllm_start(64_000, 7.81, at="11:00")


def refused(*lines: str) -> Evidence:
    return log("vllm.log", *BEGUN, *lines)


REFUSED = (
    Scenario(
        fires=(refused(SHORT.format("4.0")),),
        silent=(refused(SHORT.format("4.0"), *UP),),  # the next start came up
        says=("32,768 tokens needs 4.00 GiB", "1.50 GiB are there", "2.50 GiB, 20,480 tokens short"),
        advice="--max-model-len 12288",
        severity=Severity.ERROR,
    ),
    Scenario(  # the line is cut: 32,768 x 1.495 / 4.005, in whole blocks
        fires=(refused(CUT.format("4.0")),),
        silent=(refused(CUT.format("4.0"), *UP),),
        says=("2.50 GiB, about 20,544 tokens short",),
        advice="set --max-model-len to 12224 or a little less",
        severity=Severity.ERROR,
    ),
    Scenario(  # states take memory whatever the length, so that proportion tells nothing
        fires=(
            log(
                "vllm.log",
                *vllm_start(1, 1.0, length=32_768, at="09:00", model="Qwen/Qwen3.6-27B")[:3],
                CUT.format("4.0"),
            ),
        ),
        silent=(log("vllm.log", *UP),),
        says=("1.50 GiB are there: 2.50 GiB short",),
        advice="give the pool 2.50 GiB more",
        severity=Severity.ERROR,
    ),
    Scenario(  # the memory of the GPU is known, so the share that holds it is too: 0.85 + 2.5 / 100, rounded up
        fires=(
            refused(
                "INFO 09-12 09:00:20 [worker.py:1] the current vLLM instance can use total_gpu_memory (100.00GiB) x"
                " gpu_memory_utilization (0.85) = 85.00GiB",
                SHORT.format("4.0"),
            ),
        ),
        silent=(log("vllm.log", *UP),),
        says=("2.50 GiB",),
        advice="--gpu-memory-utilization 0.88",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(refused(OLD),),
        silent=(refused(),),
        says=("8,192 tokens", "holds 6,048: 2,144 short"),
        advice="--max-model-len 6048",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(log("vllm.log", *UP, *BEGUN, BUSY),),
        silent=(log("vllm.log", *BEGUN, BUSY, *UP),),
        says=("36.75 of 121.63 GiB", "103.38: 66.63 GiB short"),
        advice="--gpu-memory-utilization 0.30",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(refused(NONE),),
        silent=(refused(NONE, *UP),),
        says=("No available memory for the cache blocks",),
        advice="read the lines before it",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(log("sglang.log", *start(100_000)[:3], WEIGHTS),),
        silent=(log("sglang.log", *start(100_000)[:3], WEIGHTS, *start(90_000, at="11:00")),),
        says=("--mem-fraction-static 0.88 leaves nothing", "the weights alone take 0.912"),
        advice="--mem-fraction-static 0.94",
        severity=Severity.ERROR,
    ),
)
LLAMA = "0.00.005.1 I srv    load_model: loading model '/models/small.gguf'"


def not_loaded(words: str) -> Evidence:
    return log("llama.log", LLAMA, f"0.00.013.1 E {words}")


REFUSED_BY_LLAMA = (
    Scenario(  # weights of 41.43 of 93.70 GiB: 1 - 52.27 / 93.70, rounded up
        fires=(log("sglang.log", *start(100_000, mem_fraction_static=0.4)[:3], RAISED, NO_FLOOR),),
        silent=(log("sglang.log", *start(100_000, mem_fraction_static=0.4)[:3], RAISED),),
        says=("0.4 leaves nothing for the pool: the weights alone take 0.443",),
        advice="raise --mem-fraction-static 0.47",
        severity=Severity.ERROR,
    ),
    Scenario(  # the floor that it names lies below what was refused: raising it is no help
        fires=(log("sglang.log", *start(100_000)[:3], RAISED, STATES),),
        silent=(log("sglang.log", *start(100_000)[:3], RAISED, STATES, *start(100_000, at="11:00")),),
        says=("0.95 leaves nothing for the pool, though the weights alone take 0.912",),
        advice="a higher fraction may not help",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(log("sglang.log", *start(100_000)[:4], RAISED, HOST),),
        silent=(log("sglang.log", *start(100_000), RAISED),),
        says=("takes 300.50 GB", "120.25 GB of the host are free"),
        advice="lower --hicache-ratio",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(not_loaded("srv    load_model: failed to load model, '/models/small.gguf'"),),
        silent=(log("llama.log", LLAMA, "0.00.559.2 I srv  llama_server: model loaded"),),
        says=("did not come up: failed to load model, '/models/small.gguf'",),
        advice="-m names a whole GGUF file",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(not_loaded("ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory"),),
        silent=(
            log(
                "llama.log",
                LLAMA,
                "0.00.013.1 E cudaMalloc failed: out of memory",
                LLAMA,
                "0.00.559.2 I srv  llama_server: model loaded",
            ),
        ),
        says=("out of memory",),
        advice="lower -c",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(not_loaded("srv  llama_server: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080"),),
        silent=(argv("llama-server -m /models/small.gguf"),),
        says=("couldn't bind",),
        advice="--port",
        severity=Severity.ERROR,
    ),
)
SCENARIOS: Scenarios = {"start-refused": (*REFUSED, *REFUSED_BY_LLAMA)}

from __future__ import annotations

from tests.evidence import argv, log, start, vllm_start
from ullage.findings.base import Severity

from .scenario import Scenario, Scenarios

TOKENS = 100_000
STATES = "Mamba Cache is allocated. max_mamba_cache_size: 96, conv_state size: 0.10GB, ssm_state size: 2.00GB"
PREFILL, DECODE = {"disaggregation_mode": "prefill"}, {"disaggregation_mode": "decode", "port": 30001}

LOWERED = (
    Scenario(
        fires=(log("start.log", *start(TOKENS, running=64, max_running_requests=256)),),
        silent=(log("start.log", *start(TOKENS, running=64, max_running_requests=256, dp_size=4)),),
        says=("running requests", "256 asked for", "64 in effect", "does not say why"),
        advice="--mem-fraction-static",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(log("start.log", *start(400, running=200, max_running_requests=256)),),
        silent=(log("start.log", *start(600, running=256, max_running_requests=256)),),
        says=("256 asked for", "200 in effect", "half the pool's tokens (200)"),
        advice="--mem-fraction-static",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(log("start.log", *start(TOKENS, STATES, running=32, max_running_requests=256)),),
        silent=(log("start.log", *start(TOKENS, STATES, running=32, max_running_requests=32)),),
        says=("256 asked for", "32 in effect", "recurrent states"),
        advice="--max-mamba-cache-size",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(log("start.log", *start(TOKENS, max_total_tokens=200_000, page_size=64)),),
        silent=(log("start.log", *start(99_968, max_total_tokens=TOKENS, page_size=64)),),
        says=("KV pool", "200,000 asked for", "100,000 in effect", "memory holds less"),
        advice="--max-total-tokens",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(log("start.log", *start(TOKENS, context=32_768, context_length=131_072)),),
        silent=(log("start.log", *start(TOKENS, context=32_768, context_length=32_768)),),
        says=("131,072 asked for", "32,768 in effect"),
        advice="ask for what is in effect",
        severity=Severity.WARNING,
    ),
)
UNBOUNDED = (
    Scenario(
        fires=(log("start.log", *start(TOKENS)),),
        silent=(log("start.log", *start(TOKENS, preferred_sampling_params='{"max_new_tokens": 2048}')),),
        says=("3 chat requests are safe", "max_tokens"),
        advice="--preferred-sampling-params",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(log("start.log", *start(TOKENS, **DECODE)),),
        silent=(log("start.log", *start(TOKENS, **PREFILL)),),
        says=("3 chat requests are safe",),
        advice="max_tokens in the clients",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(log("start.log", *start(TOKENS)),),
        silent=(argv("python -m sglang.launch_server --model-path /models/small"),),  # no pool, so no number
        says=("3 chat requests are safe",),
        advice="max_tokens",
        severity=Severity.INFO,
    ),
)
LLAMA_UNBOUNDED = (
    Scenario(
        fires=(argv("llama-server -m /models/small.gguf -c 8192"),),
        silent=(argv("llama-server -m /models/small.gguf -c 8192 -n 512"),),
        says=("1 chat request is safe",),
        advice="-n 2048",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(argv("llama-server -m /models/small.gguf -c 8192 -np 4 -kvu"),),
        silent=(argv("llama-server -m /models/small.gguf -c 8192 -np 4"),),  # a full context in every slot
        says=("1 chat request is safe",),
        advice="max_tokens",
        severity=Severity.INFO,
    ),
)
ROLES = (
    Scenario(
        fires=(
            log("prefill.log", *start(300_000, context=131_072, **PREFILL)),
            log("decode.log", *start(300_000, context=65_536, **DECODE)),
        ),
        silent=(
            log("prefill.log", *start(300_000, context=131_072, **PREFILL)),
            log("decode.log", *start(200_000, context=131_072, **DECODE)),
        ),
        says=("prefill accepts up to 131,072", "decode 65,536"),
        advice="--context-length 65536",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(
            log("prefill.log", *start(50_000, context=131_072, **PREFILL)),
            log("decode.log", *start(300_000, context=131_072, **DECODE)),
        ),
        silent=(log("decode.log", *start(50_000, context=131_072, **DECODE)),),
        says=("prefill accepts up to 50,000", "decode 131,072"),
        advice="larger pool",
        severity=Severity.WARNING,
    ),
)
ULIMIT = (
    "Found ulimit of {} and failed to automatically increase with error current limit exceeds maximum limit. This can"
    " cause fd limit errors like `OSError: [Errno 24] Too many open files`. Consider increasing with ulimit -n"
)
BOUND = '{"max_new_tokens": 2048}'
LOWERED_BY_VLLM = Scenario(
    fires=(log("vllm.log", *vllm_start(64_000, 7.81, num_gpu_blocks_override=5000)),),
    silent=(log("vllm.log", *vllm_start(64_000, 7.81, num_gpu_blocks_override=4000)),),
    says=("blocks of the pool: 5,000 asked for, 4,000 in effect",),
    advice="raise --gpu-memory-utilization, or lower --num-gpu-blocks-override",
    severity=Severity.WARNING,
)
UNBOUNDED_BY_VLLM = Scenario(
    fires=(log("vllm.log", *vllm_start(64_000, 7.81)),),
    silent=(log("vllm.log", *vllm_start(64_000, 7.81, override_generation_config=BOUND)),),
    says=("7 chat requests are safe",),
    advice="--override-generation-config '{\"max_new_tokens\": 2048}'",
    severity=Severity.INFO,
)
FILES = (
    Scenario(
        fires=(log("vllm.log", *vllm_start(64_000, 7.81, ULIMIT.format(20_000), max_num_seqs=256)),),
        silent=(log("vllm.log", *vllm_start(64_000, 7.81, max_num_seqs=256)),),
        says=("at most 20,000 open files",),
        advice="LimitNOFILE=65535",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(log("vllm.log", *vllm_start(64_000, 7.81, ULIMIT.format(1024), max_num_seqs=1024)),),
        silent=(log("vllm.log", *vllm_start(64_000, 7.81, max_num_seqs=1024)),),
        says=("at most 1,024 open files",),
        advice="ulimit -n 65535",
        severity=Severity.WARNING,
    ),
)
SCENARIOS: Scenarios = {
    "limit-lowered": (*LOWERED, LOWERED_BY_VLLM),
    "no-output-bound": (*UNBOUNDED, UNBOUNDED_BY_VLLM, *LLAMA_UNBOUNDED),
    "roles-differ-in-length": ROLES,
    "few-open-files": FILES,
}

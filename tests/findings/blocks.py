from __future__ import annotations

from tests.evidence import URL, argv, log, metrics, vllm_cache, vllm_gauges, vllm_start
from ullage.evidence import Evidence
from ullage.findings.base import Severity

from .scenario import Scenario, Scenarios

HYBRID = {"model": "Qwen/Qwen3.5-27B", "enable_prefix_caching": False}
ENLARGED = "Setting attention block size to 784 tokens to ensure that attention page size is >= mamba page size."
HUGE = ENLARGED.replace("784", "2096")
FLASH = {"model": "deepseek-ai/DeepSeek-V4-Flash", "max_num_batched_tokens": 16_384}
LLAMA = {"model": "meta-llama/Llama-3.1-8B-Instruct"}
GEMMA = {"model": "google/gemma-3-4b-it"}


def started(tokens: int, concurrency: float, *besides: str, **given: object) -> Evidence:
    return log("vllm.log", *vllm_start(tokens, concurrency, *besides, **given))  # type: ignore[arg-type]


def served(prompt: int, output: int, count: int = 100, **besides: float) -> Evidence:
    """A page of a server that has finished `count` requests of these mean lengths."""
    sums = {"request_prompt_tokens_sum": prompt * count, "request_generation_tokens_sum": output * count}
    counts = {"request_prompt_tokens_count": count, "request_generation_tokens_count": count}
    cache = vllm_cache(num_gpu_blocks=4001, kv_cache_size_tokens=64_016, kv_cache_max_concurrency=7.814453125)
    return metrics(URL, cache, *vllm_gauges(**sums, **counts, **besides))


def flags(text: str = "") -> Evidence:
    return argv(f"vllm serve small --port 30000 {text}", URL)


PRINTED = (
    Scenario(  # the figures of vllm-project/vllm issue 40691
        fires=(started(290_864, 33.04, ENLARGED, length=32_768, version="0.19.0", **HYBRID),),
        silent=(started(290_864, 8.88, length=32_768, version="0.19.0", **LLAMA),),
        says=("290,864 tokens", "pool / groups", "33 requests of 32,768 tokens", "requests of 4,096 tokens"),
        advice="ullage limits --at",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(started(302_945, 1.16, length=262_144, version="0.28.0", **FLASH),),
        silent=(started(302_944, 1.16, length=262_144, version="0.28.0", **LLAMA),),
        says=("302,945 tokens", "concurrency x max_model_len", "1 requests of 262,144 tokens"),
        advice="ullage limits --at",
        severity=Severity.WARNING,
    ),
    Scenario(  # nothing tells the groups: from what to what
        fires=(started(315_733, 102.78, length=3072, version="0.28.0", **GEMMA),),
        silent=(
            started(315_733, 102.78, length=3072, version="0.28.0", disable_hybrid_kv_cache_manager=True, **GEMMA),
        ),
        says=("315,733 tokens", "102 requests of 3,072 tokens"),
        advice="ullage limits --at",
        severity=Severity.WARNING,
    ),
)
ONE = (
    Scenario(  # 512 blocks, of which 511 can be given, and a full request takes 512
        fires=(started(8192, 1.0, length=8192, **LLAMA),),
        silent=(started(8208, 1.0, length=8192, **LLAMA),),
        says=("1.00x is printed", "8,192 tokens takes 512 blocks", "511 can be given"),
        advice="--max-model-len 8176",
        severity=Severity.WARNING,
    ),
    Scenario(  # groups that are not known: it may be one block short
        fires=(started(33_014, 1.007, length=32_768, version="0.28.0", model="nobody/knows"),),
        silent=(started(34_014, 1.038, length=32_768, version="0.28.0", model="nobody/knows"),),
        says=("1.01x is printed", "whether a request of 32,768 tokens fits is not known"),
        advice="--max-model-len 31744",
        severity=Severity.WARNING,
    ),
)
SLOTS = (
    Scenario(
        fires=(flags("--max-num-seqs 64"), served(800, 800)),
        silent=(flags("--max-num-seqs 32"), served(800, 800)),
        says=("up to 64 requests", "the pool holds 40 of the mean length (800 + 800 tokens)"),
        advice="--max-num-seqs 40",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(flags("--max-num-seqs 64"), served(800, 800, num_preemptions_total=3)),
        silent=(flags("--max-num-seqs 64"), served(800, 800, count=5, num_preemptions_total=3)),  # too few for a mean
        says=("preempted",),
        advice="--max-num-seqs 40",
        severity=Severity.WARNING,
    ),
)
FIXED = (
    Scenario(
        fires=(
            started(302_945, 1.16, "Available KV cache memory: 16.0 GiB", length=262_144, version="0.23.0", **FLASH),
        ),
        silent=(started(302_944, 1.16, length=262_144, version="0.28.0", **LLAMA),),
        says=("a request of 4,096 tokens takes 1,684 blocks", "1,668 (3.00 GiB)", "the batch in flight"),
        advice="--max-num-batched-tokens (now 16,384",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(started(567_978, 4.33, HUGE, length=131_072, version="0.24.0", model="Qwen/Qwen3.6-35B-A3B"),),
        silent=(started(1_082_734, 33.04, ENLARGED, length=32_768, version="0.24.0", **HYBRID),),
        says=("a request of 4,096 tokens takes 8 blocks", "6", "recurrent states"),
        advice="--no-enable-prefix-caching",
        severity=Severity.INFO,
    ),
)
BLOCK = (
    Scenario(
        fires=(started(290_864, 33.04, ENLARGED, length=32_768, **HYBRID),),
        silent=(started(290_864, 8.88, length=32_768, **LLAMA),),
        says=("a block is 784 tokens", "a request of 1 token takes 4 of 1,486 blocks"),
        advice="ullage limits --at",
        severity=Severity.INFO,
    ),
)
SCENARIOS: Scenarios = {
    "printed-tokens-no-capacity": PRINTED,
    "one-times-not-served": ONE,
    "more-slots-than-pool": SLOTS,
    "fixed-cost-per-request": FIXED,
    "enlarged-block": BLOCK,
}

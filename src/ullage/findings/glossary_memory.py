"""What the lines of `ullage memory` mean, for `ullage explain`: parts of a GPU, and what is on tap."""

from __future__ import annotations

MEMORY = {
    "weights": "The model's weights on this GPU, as the engine states them or by what was free before and after.",
    "pools": (
        "All pools of an SGLang server together, by what was free before and after they were made. What they"
        " consist of stands below, and is not counted again."
    ),
    "rest of the pools": (
        "What the pools took beside those that are named: padding, the page that each keeps spare, metadata. A"
        " little below zero it is the rounding of the lines, or what the formula counts and the build does not"
        " take."
    ),
    "window KV": "DeepSeek-V4's window pool: --swa-full-tokens-ratio of the tokens of the pool, in every layer.",
    "c4 KV": "DeepSeek-V4's keys and values of the layers that keep one slot for 4 tokens. It buys context.",
    "c4 index keys": "DeepSeek-V4's keys that pick what attention reads, one for 4 tokens. They buy context.",
    "c128 KV": "DeepSeek-V4's keys and values of the layers that keep one slot for 128 tokens. It buys context.",
    "c4 state": (
        "States of DeepSeek-V4's compressors that make one slot of 4 tokens. Sized by the window pool, whatever runs."
    ),
    "c128 state": (
        "States of DeepSeek-V4's compressors that make one slot of 128 tokens. In the first builds they scale with"
        " the pool and take half of it; since 0.5.15 they are fixed by the running requests."
    ),
    "pools that tokens are charged for": (
        "What a token of the pool is charged, times the tokens, where no known formula tells the pools apart."
    ),
    "KV and window pool": "Keys and values of all layers, with those of sliding windows, as one line states them.",
    "convolution states": "Convolution states of recurrent layers, one for each state slot.",
    "recurrent states": "States of Mamba, GDN or KDA layers, one for each state slot. They do not grow with context.",
    "recurrent states of drafts": (
        "A state for each draft token of each request, which speculative decoding keeps until the draft is judged."
        " Fewer draft tokens or running requests make it smaller."
    ),
    "convolution windows of drafts": (
        "Convolution windows of recurrent layers for each draft token of each request, kept until the draft is judged."
    ),
    "request table": (
        "SGLang's table of which token lies where: (request slots + 1) x (context + 4) x 4 bytes, made at the"
        " start and outside the fraction. It grows with --context-length and --max-running-requests and not with"
        " use."
    ),
    "index logits": (
        "What DeepSeek-V4's indexer takes while a prompt is computed: up to chunk x context bytes for a prompt of"
        " the whole context, outside the fraction. Builds that go row by row (sgl-project/sglang PR 39095) take"
        " less."
    ),
    "set up before serving": (
        "What went between the pools and the end of the start, and is no graph: workspaces of attention, warm-up."
    ),
    "graphs": "CUDA graphs with their private pools, as the capture measured them. Fewer or smaller sizes take less.",
    "graphs (estimated)": "What vLLM estimated for its CUDA graphs, where no line says what they took.",
    "kept for graphs, not taken": (
        "Estimated for CUDA graphs, so left out of the pool, and not taken by them. A higher share gives it to the"
        " pool."
    ),
    "free at the end of the start": (
        "What was free on this GPU when the server was ready. A run takes activations out of it, and the allocator"
        " keeps them: SGLang's guide wants 5 to 8 GB here."
    ),
    "free at the last line": "What was free at the last line of the start that tells it.",
    "free before the weights were loaded": (
        "What SGLang found free after it had set up CUDA and NCCL: the M that its fraction is a share of. Where"
        " several ranks differ, the least counts."
    ),
    "free when the engine began": "What vLLM found free, its own CUDA context and NCCL taken off.",
    "free when the table was printed": "What llama.cpp found free on the device when it printed its table.",
    "free when it was refused": "What was free when vLLM refused to start: the start has taken none of it.",
    "idle": "What the driver says is free now. Nobody holds it.",
    "idle now": "What the driver says is free now. No log tells it: it needs NVML or a captured nvidia-smi -q -x.",
    "taken since the start": (
        "What was free when the server was ready, less what is idle now: activations, and what the allocator keeps"
        " of them. Only told where the driver names all processes on the GPU."
    ),
    "driver": "What the driver keeps of the GPU for itself.",
    "context and NCCL": (
        "What the server's CUDA contexts and NCCL's buffers took before the weights: the GPU's total less the"
        " driver, other processes, and what the engine found free."
    ),
    "before the engine began": (
        "The GPU's total less what vLLM found free: CUDA context, NCCL buffers, and other processes. It comes out"
        " of what is outside the share."
    ),
    "its processes": (
        "What the driver counts for the server's own processes on this GPU. A check, and no line of its own."
    ),
    "usable": "What the engine found free when it began: the most that it could have.",
    "unaccounted": (
        "The whole less all parts. Near zero, everything is explained; its range is the rounding of the printed"
        " figures. Below zero, something was given back after it was measured, or two figures count the same"
        " memory."
    ),
    "together": "The sum of the parts that are known, where the whole is not.",
    "total": "The GPU's memory as the driver states it, a little less than its name says.",
    "weights and non-torch": "What vLLM since 0.29 calls consumed memory: weights, NCCL and workspaces in one figure.",
    "non-torch": "What vLLM took outside PyTorch's allocator: NCCL, workspaces.",
    "activation peak": (
        "What one step of --max-num-batched-tokens took at most when vLLM tried it out. It is kept free for such a"
        " step, and grows with that flag."
    ),
    "kept for the activation peak": "The activation peak, where it lies in what is idle: no full step runs.",
    "KV cache": "The memory of the KV cache on this device.",
    "outside the share": (
        "The GPU's total less what --gpu-memory-utilization asks for. CUDA context, NCCL, other processes, and"
        " before 0.20 the graphs come out of it."
    ),
    "left by --gpu-memory-utilization": "Of what is outside the share, what nothing is known to take.",
    "left by --num-gpu-blocks-override": (
        "What the share left for the pool, and the blocks that were asked for do not take."
    ),
    "context": "llama.cpp: what its table counts for the context: caches, and what stands beside them.",
    "rest of the context": "llama.cpp: the context of its table less the caches that it logs.",
    "compute buffer": "llama.cpp: room for one graph of -ub tokens. Without flash attention it grows with -c too.",
    "output buffer": "llama.cpp: the logits of one step, in host memory.",
    "window cache": (
        "llama.cpp: the KV cache of sliding-window layers, of window + -ub cells; --swa-full makes it whole."
    ),
    "index keys": "llama.cpp: the cache of a sparse-attention model's indexer.",
    "compressor states": "llama.cpp: states of a compressed-attention model, of each sequence.",
    "scratch of a forward pass": "The tank's buffers of one step; they grow with --chunked-prefill-size.",
    "grows with context": "What is sized by --context-length and not by what requests use.",
    "on tap": (
        "What a setting would make of the memory that is idle. All of it is predicted; the lines below say how far"
        " the formula was off where the answer is known."
    ),
    "margin": "What is to stay free on each GPU (--margin). A start measures no activations: try it under load.",
    "pool": "The KV pool as a setting would make it.",
    "avail_before_weights_gib": "What was free before the weights were loaded: SGLang's fraction is a share of it.",
    "avail_after_weights_gib": "What was free when the weights were loaded.",
    "avail_after_pool_gib": "What was free when the pools were made.",
    "bytes_per_token": "What one more token of the pool takes: stated, else the bytes of the pools / their tokens.",
    "tokens_per_hundredth": "Tokens of the pool that +0.01 of SGLang's fraction buys: 0.01 x M / bytes per token.",
    "pool_per_hundredth": "Tokens or blocks that +0.01 of vLLM's share buys: 0.01 x total / bytes of one.",
    "available_gpu_mem_gib": (
        "What was free when the start had ended, as its last line states it. Activations of a run come out of it:"
        " SGLang's guide wants 5 to 8 GB."
    ),
    "index_logits": "Chunk x context bytes, which DeepSeek-V4's indexer takes for a prompt of the whole context.",
    "free_before_weights": "What was free before the weights were loaded: SGLang's fraction is a share of it.",
    "free_after_start": "What was free on the GPU with least left when the start had ended.",
    "free_after_weights": "What was free when the weights were loaded.",
    "free_at_start": "What vLLM found free on the GPU when it began, its own CUDA context and NCCL taken off.",
    "peak_torch": "What PyTorch had at the peak of vLLM's trial step, weights included (V0 until 0.6.5).",
    "available": "What vLLM's share left for the pool.",
    "estimate": "What vLLM expected its CUDA graphs to take.",
    "free_at_last": "What was free at the last line of the start that tells it.",
    "M": "What was free before the weights were loaded: SGLang's fraction is a share of it.",
    "slack": "What SGLang's fraction leaves alone: M x (1 - fraction). Graphs and activations come out of it.",
    "budget": "What SGLang's fraction leaves for the pools: free after the weights - M x (1 - fraction).",
    "requested": "The share of the GPU that vLLM may use: total x gpu_memory_utilization.",
    "weights_and_pools": "Free before the weights less free after the pools, where nothing tells the two apart.",
    "pools_taken": "What the pools took: free before they were made less free after.",
    "pool_bytes": "What the pool takes as it is: tokens x bytes of a token.",
    "request_table": "The request table of SGLang, by its formula: see `request table`.",
    "set_up": "What went between the pools and the end of the start, and is no graph: workspaces, warm-up.",
    "since_start": (
        "What was free when the server was ready less what is idle now: activations, and what is kept of them."
    ),
    "held": "What the driver counts for the server's own processes on this GPU.",
    "taken": "What a setting would take beyond what is taken now. Predicted.",
    "left": "What a setting would leave of the memory that is idle. Predicted.",
    "worth": "What the bytes that a change gives back would buy of the pool. Predicted.",
    "graphs_not_taken": "What vLLM estimated for its CUDA graphs less what they took: inside the share, and nobody's.",
    "graphs_above_estimate": (
        "What CUDA graphs took less what vLLM had estimated: it comes out of what is outside the share."
    ),
    "not_in_blocks": "What vLLM's share left for the pool less the blocks that were asked for: nobody's.",
    "activation_peak": "What half of vLLM's token budget would give back of the activation peak. Predicted.",
    "compute": "What half of llama.cpp's -ub would give back of its compute buffers. Predicted.",
    "idle at the end of the start": "What was free when vLLM was ready. No line of it states that.",
}

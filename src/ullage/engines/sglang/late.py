"""Pools that SGLang sizes after the graphs were captured (SGLANG_ENABLE_POST_CAPTURE_KV_SIZING).

What the lines before the capture state of KV is then an upper bound, in addresses (kv_pool_runtime.py, 03cb0c9b).
"""

from __future__ import annotations

from collections.abc import Iterable


def is_late(names: Iterable[str]) -> bool:
    """By what the line of the late sizing states."""
    return any(name.startswith("post_capture_") for name in names)

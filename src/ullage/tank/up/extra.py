"""Is the extra installed, and is this a machine for it?"""

from __future__ import annotations

import importlib.util
import sys

from ...errors import UllageError

NEEDED = "gguf jinja2 numba onnx onnxruntime sglang_router starlette tokenizers uvicorn".split()


def require_extra() -> None:
    if not sys.platform.startswith("linux"):
        raise UllageError("ullage tank runs on Linux only", "it finds its processes by /proc")
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise UllageError("ullage tank needs the extra: pip install 'ullage[tank]'", f"missing: {', '.join(missing)}")

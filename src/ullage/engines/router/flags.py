"""The router's command line, with its defaults where nothing was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ...evidence import Argv, Evidence
from ...figure import Figure, Source, configured, default

# name: (default of the repository version of 2026, unit)
_DEFAULTS: Mapping[str, tuple[int | float, str]] = {
    "max_concurrent_requests": (-1, "requests"),
    "queue_size": (100, "requests"),
    "queue_timeout_secs": (60, "s"),
    "request_timeout_secs": (1800, "s"),
    "retry_max_retries": (5, "tries"),
    "cb_failure_threshold": (10, "failures"),
    "health_check_interval_secs": (60, "s"),
}
_SWITCHES = ("disable_retries", "disable_circuit_breaker", "pd_disaggregation")
_NUMBERS = (*_DEFAULTS, "rate_limit_tokens_per_second", "port", "prometheus_port")
_WORDS = ("policy", "prefill_policy", "decode_policy", "host", "api_key", "prometheus_host")


_WRAPPERS = ("env", "nohup", "sudo", "exec", "time", "nice", "numactl")


def is_router(words: Sequence[str]) -> bool:
    """`python -m sglang_router.launch_router`, `sglang-router ...`, `smg launch ...`, wrappers before it or not."""
    if any(word == "-m" and after.endswith("launch_router") for word, after in pairwise(words)):
        return True
    plain = [w for w in words if w not in _WRAPPERS and not w.startswith("-") and "=" not in w]
    return bool(plain) and plain[0].rsplit("/", 1)[-1] in ("sglang-router", "smg", "sgl-model-gateway", "sgl-router")


class RouterFlags(NamedTuple):
    figures: Mapping[str, Figure]
    prefill: tuple[str, ...]
    decode: tuple[str, ...]
    workers: tuple[str, ...]


def from_argv(evidence: Evidence, argv: Argv) -> RouterFlags:
    """Flags by their names with underscores. `--prefill URL [PORT|none]` and `--decode URL` repeat; `--worker-urls`
    takes several.
    """
    given = _grouped(argv.words)
    place = evidence.place or "--flags"
    figures = {name: figure for name in (*_NUMBERS, *_SWITCHES, *_WORDS) if (figure := _figure(name, given, place))}
    for name, (value, unit) in _DEFAULTS.items():
        figures.setdefault(
            name,
            default(
                name, value, unit, f"the router's default of --{name.replace('_', '-')} (2026); older releases differ"
            ),
        )
    prefill, decode = ([group[0] for group in given.get(name, []) if group] for name in ("prefill", "decode"))
    workers = [url for group in given.get("worker_urls", []) for url in group]
    if joined := [url for url in (*prefill, *decode, *workers) if "," in url]:
        figures["urls_with_a_comma"] = configured("urls_with_a_comma", " ".join(joined), "", Source(place, "--prefill"))
    return RouterFlags(figures, tuple(prefill), tuple(decode), tuple(workers))


def _grouped(words: Sequence[str]) -> dict[str, list[list[str]]]:
    """Every occurrence of every flag with the words that follow it."""
    found: dict[str, list[list[str]]] = {}
    current: list[str] | None = None
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            current = [value] if equals else []
            found.setdefault(name.replace("-", "_"), []).append(current)
        elif current is not None:
            current.append(word)
    return found


def _figure(name: str, given: Mapping[str, list[list[str]]], place: str) -> Figure | None:
    if name not in given:
        return None
    words = given[name][-1]
    source = Source(place, f"--{name.replace('_', '-')}")
    if name in _SWITCHES:
        return configured(name, True, "", source)
    if name in _WORDS:
        return configured(name, words[0], "", source) if words else None
    try:
        return configured(name, int(words[0]), _DEFAULTS.get(name, (0, ""))[1], source)
    except (IndexError, ValueError):
        return None

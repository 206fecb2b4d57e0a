"""Figures of sglang-router: its command line, the line of its start, and its metrics page."""

from __future__ import annotations

ROUTER = {
    "policy": (
        "sglang-router: how it picks a worker (--policy): cache_aware, round_robin, power_of_two and others. It shares"
        " out requests, not tokens, and knows nothing of a worker's pool."
    ),
    "prefill_policy": (
        "sglang-router: how it picks a prefill server (--prefill-policy), where that is not as --policy says."
    ),
    "decode_policy": (
        "sglang-router: how it picks a decode server (--decode-policy), where that is not as --policy says."
    ),
    "mode": "sglang-router: what the line of its start calls its mode: workers alike, or prefill and decode apart.",
    "pd_disaggregation": (
        "sglang-router: whether it sends every request to a prefill and a decode server (--pd-disaggregation)."
    ),
    "queue_timeout_secs": (
        "sglang-router: seconds that a request waits in its queue for the limit (--queue-timeout-secs, 60 by default);"
        " then it is answered with 408."
    ),
    "rate_limit_tokens_per_second": (
        "sglang-router: how many requests a second its limit is refilled by (--rate-limit-tokens-per-second). The"
        " tokens are the limiter's, not the model's; with it the limit is no strict cap on requests at once."
    ),
    "cb_failure_threshold": (
        "sglang-router: failures after which a worker's circuit breaker opens (--cb-failure-threshold, 10 by default)."
        " The worker gets nothing while it is open; with none left a request is answered with 503."
    ),
    "disable_circuit_breaker": (
        "sglang-router: no circuit breakers (--disable-circuit-breaker): failures keep no worker out."
    ),
    "disable_retries": "sglang-router: a failed request is not tried again (--disable-retries).",
    "health_check_interval_secs": (
        "sglang-router: seconds between two health checks of a worker (--health-check-interval-secs, 60 by default)."
    ),
    "prometheus_host": "sglang-router: the address of its metrics page (--prometheus-host); a listener of its own.",
    "prometheus_port": (
        "sglang-router: the port of its metrics page (--prometheus-port), apart from the port of requests."
    ),
    "rate_limit": "sglang-router: requests that came to its limit, by what became of them, since its start.",
    "responses": "sglang-router: requests that it answered, by status code, since its start.",
    "requests_total": "sglang-router: requests that it routed, since its start, by its metrics page.",
    "http_requests_total": "sglang-router: HTTP requests that it took, since its start, by its metrics page.",
    "http_connections_active": "sglang-router: HTTP connections that are open to it now, by its metrics page.",
    "worker_requests_active": (
        "sglang-router: requests that are with its workers now, over all of them, by its metrics page."
    ),
    "worker_retries_exhausted_total": (
        "sglang-router: requests that failed although all tries were made, since its start."
    ),
    "worker_cb_transitions_total": (
        "sglang-router: how often a worker's circuit breaker changed its state, since its start."
    ),
    "worker_pool_size": "sglang-router: workers that it has, over all kinds and models, by its metrics page.",
    "active_workers": "sglang-router: workers that it has, by the metrics page of older releases.",
    "healthy_workers": "sglang-router: workers that it holds for healthy, by its metrics page.",
    "jobs": (
        "sglang-router: workers that were added or taken away with success, by the kind of the job, since its start."
    ),
}

"""Every test runs with a clean environment: no key, no proxy, no colour setting of the machine leaks in."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

settings.register_profile("ullage", deadline=None)  # a busy machine is not a failure
settings.load_profile("ullage")

# A shell has what it puts in the background ignore Ctrl-C, and so does all that such a run starts.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)

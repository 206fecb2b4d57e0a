"""One worker: `python -m ullage.tank.worker`, with SGLang's flags."""

from __future__ import annotations

import math
import re
import sys
from typing import Any, NoReturn

import click

from ..errors import UllageError
from .config import GIB, Pace, ServerArgs

_UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": GIB, "kb": 10**3, "mb": 10**6, "gb": 10**9}


class Size(click.ParamType):  # type: ignore[type-arg]
    """1GiB, 512MiB, 2e9 are not alike: the unit is said."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)", str(value).strip())
        if match is None or match[2].lower() not in _UNITS:
            self.fail(f"{value!r} is no size: write 1GiB or 512MiB", param, ctx)
        return int(float(match[1]) * _UNITS[match[2].lower()])


class PaceType(click.ParamType):  # type: ignore[type-arg]
    name = "prefill=S,decode=S"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Pace:
        if isinstance(value, Pace):
            return value
        parts = dict(part.partition("=")[::2] for part in str(value).split(","))
        try:
            pace = Pace(float(parts.pop("prefill")), float(parts.pop("decode")))
        except (KeyError, ValueError):
            self.fail(f"{value!r} is no pace: write prefill=0.001,decode=0.02 (seconds)", param, ctx)
        if parts or not all(0 <= seconds <= 3600 for seconds in pace):
            self.fail(f"{value!r} is no pace: two times of at most an hour, none below 0", param, ctx)
        return pace


class Key(click.ParamType):  # type: ignore[type-arg]
    """An empty key would guard nothing, and an unset variable on the command line makes one."""

    name = "key"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        key = str(value)
        if not key.strip() or not key.isascii() or not key.isprintable():
            self.fail("a key must have characters, all of them printable ASCII", param, ctx)
        return key


class Number(click.FloatRange):
    """NaN is below no bound and above none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        return number if math.isfinite(number) else self.fail(f"{value!r} is no number", param, ctx)


_AT_LEAST_ONE = click.IntRange(min=1)
_SECONDS = Number(0, 10**6)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--model-path", "--model", default="smollm2", help="smollm2, tiny, or a GGUF file")
@click.option("--served-model-name")
@click.option("--host", default="127.0.0.1")
@click.option("--port", type=click.IntRange(1, 65535), default=30000)
@click.option("--api-key", type=Key(), envvar="ULLAGE_TANK_API_KEY", help="rather by ULLAGE_TANK_API_KEY than here")
@click.option("--memory", "memory_bytes", type=Size(), default="1GiB", help="all that this worker may use")
@click.option("--mem-fraction-static", type=Number(0, 1, min_open=True, max_open=True))
@click.option("--page-size", type=_AT_LEAST_ONE, default=16)
@click.option("--context-length", type=click.IntRange(min=16))
@click.option("--max-total-tokens", type=_AT_LEAST_ONE)
@click.option("--max-running-requests", type=_AT_LEAST_ONE)
@click.option("--max-queued-requests", type=click.IntRange(min=0))
@click.option("--chunked-prefill-size", type=_AT_LEAST_ONE, default=512)
@click.option("--max-prefill-tokens", type=_AT_LEAST_ONE, default=16384)
@click.option("--schedule-conservativeness", type=Number(0, 10), default=1.0)
@click.option("--disable-radix-cache", is_flag=True)
@click.option("--disaggregation-mode", type=click.Choice(["null", "prefill", "decode"]), default="null")
@click.option("--disaggregation-transfer-backend", "--transfer", type=click.Choice(["tcp", "nixl"]), default="tcp")
@click.option("--disaggregation-bootstrap-port", type=click.IntRange(1, 65535), default=8998)
@click.option("--disaggregation-decode-extra-slots", type=click.IntRange(min=0))
@click.option("--num-reserved-decode-tokens", type=click.IntRange(min=0), default=512)
@click.option("--bootstrap-timeout-s", type=_SECONDS, default=300, envvar="SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT")
@click.option("--waiting-timeout-s", type=_SECONDS, default=300, envvar="SGLANG_DISAGGREGATION_WAITING_TIMEOUT")
@click.option("--decode-log-interval", type=_AT_LEAST_ONE, default=40)
@click.option("--random-seed", type=click.IntRange(min=0), default=0, help="of the tiny model's weights")
@click.option("--threads", type=click.IntRange(1, 256), help="all cores if not given")
@click.option("--pace", type=PaceType(), help="seconds for each prompt token and each decode step")
@click.option("--enable-metrics/--disable-metrics", default=True)
def worker(**asked: object) -> None:
    """Serves a model on the CPU, as SGLang does on a GPU."""
    try:
        from .serve.server import serve  # takes seconds, which a word that is off need not

        serve(ServerArgs(**asked))  # type: ignore[arg-type]
    except ModuleNotFoundError as error:
        _fail(UllageError(f"{error.name} is not installed", "pip install 'ullage[tank]'"))
    except MemoryError:
        _fail(UllageError("this machine has no such memory to give", "lower --memory"))
    except UllageError as error:
        _fail(error)


def _fail(error: UllageError) -> NoReturn:
    click.echo(f"ullage tank: {error.message}" + (f"; {error.advice}" if error.advice else ""), err=True)
    sys.exit(error.exit_code)


if __name__ == "__main__":
    worker()

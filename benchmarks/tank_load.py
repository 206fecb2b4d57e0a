"""Load on a real tank, and kill -9 under load: does every request end, and does everything come back?

    python benchmarks/tank_load.py --seconds 120                 200 streams at once, no failure allowed
    python benchmarks/tank_load.py --seconds 300 --kill-every 10 a process is killed at random, again and again

Starts a tank of its own (`ullage tank up --detach` with the tiny model, other flags after `--`), and ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp

STREAMS, LONGEST_S = 200, 120.0


def tank(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ullage", "tank", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)


def status() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tank("status", "--json").stdout)
    return found


def processes() -> list[dict[str, Any]]:
    return [p for p in status()["parts"] if p.get("pid")]


class Load:
    """Streams that are asked one after another, so that a given number is always open."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session
        self.ended: Counter[str] = Counter()
        self.tokens = 0

    async def keep(self, until: float, number: int) -> None:
        rng = random.Random(number)
        while time.monotonic() < until:
            try:
                end = await asyncio.wait_for(self._ask(rng), LONGEST_S)
            except asyncio.TimeoutError:
                end = "HANGS"
            except (aiohttp.ClientError, OSError) as error:
                end = f"connection: {type(error).__name__}"
            self.ended[end] += 1
            if end != "served":
                await asyncio.sleep(0.5)

    async def _ask(self, rng: random.Random) -> str:
        """What came of one request: served, or the error that its caller got."""
        body = {
            "model": "tiny",
            "prompt": "".join(rng.choices("abcdefgh ", k=rng.randrange(8, 120))),
            "max_tokens": rng.randrange(8, 96),
            "stream": True,
            "temperature": 0,
            "ignore_eos": True,
        }
        async with self._session.post(f"{self._url}/v1/completions", json=body) as response:
            if response.status != 200:
                return f"status {response.status}"
            last = b""
            async for line in response.content:
                if line.startswith(b"data: "):
                    if b'"error"' in line:
                        return "error in the stream"
                    self.tokens += 1
                    last = line
            return "served" if last.strip() == b"data: [DONE]" else "cut off"


def footprint(pid: int) -> tuple[float, int]:
    """(resident MiB, open descriptors) of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(os.listdir(f"/proc/{pid}/fd"))


def told(when: str) -> None:
    for each in processes():
        try:
            size, descriptors = footprint(each["pid"])
        except OSError:
            continue
        print(f"{when}: {each['name']:<8} pid {each['pid']:<8} {size:7.1f} MiB {descriptors:4} descriptors", flush=True)


async def kill(until: float, every_s: float) -> Counter[str]:
    killed: Counter[str] = Counter()
    while time.monotonic() + every_s < until:
        await asyncio.sleep(every_s)
        victims = await asyncio.to_thread(processes)
        victim = random.choice(victims)
        try:
            os.kill(victim["pid"], signal.SIGKILL)
        except ProcessLookupError:
            continue
        killed[victim["name"]] += 1
    return killed


async def drained(session: aiohttp.ClientSession, urls: list[str]) -> bool:
    """All pages free or cached, all queues empty, on every worker, within a minute."""
    for _ in range(120):
        try:
            loads = [await (await session.get(f"{url}/v1/loads")).json() for url in urls]
        except (aiohttp.ClientError, OSError):
            loads = []
        flat = [load["loads"][0] for load in loads]
        names = ("num_used_tokens", "num_running_reqs", "num_waiting_reqs")
        if flat and not any(one[name] for one in flat for name in names):
            return True
        await asyncio.sleep(0.5)
    print(json.dumps(flat, indent=1))
    return False


async def run(arguments: argparse.Namespace) -> int:
    started = status()
    url = started["url"]
    workers = [p["url"] for p in started["parts"] if p["name"] != "router"]
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:
        await Load(url, session).keep(time.monotonic() + 5, 1)
        told("before")
        load, until = Load(url, session), time.monotonic() + arguments.seconds
        killing = asyncio.create_task(kill(until, arguments.kill_every)) if arguments.kill_every else None
        halves = asyncio.create_task(asyncio.sleep(arguments.seconds / 2))
        halves.add_done_callback(lambda _: told("half-way"))
        await asyncio.gather(*(load.keep(until, number) for number in range(arguments.streams)))
        print(f"{sum(load.ended.values())} requests, {load.tokens} events: {dict(load.ended)}")
        if killing:
            print(f"killed: {dict(await killing)}")
        empty = await drained(session, workers)
        print("all pages are free again" if empty else "PAGES ARE MISSING")
        told("after")
        again = Load(url, session)
        await again.keep(time.monotonic() + 2, 2)
        print(f"and then: {dict(again.ended)}")
    fine = empty and not load.ended["HANGS"] and set(again.ended) == {"served"}
    return 0 if fine and (killing or set(load.ended) == {"served"}) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--kill-every", type=float, default=0, help="seconds; 0: nobody is killed")
    parser.add_argument("up", nargs="*", help="flags for ullage tank up")
    arguments = parser.parse_args()
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="tank-load-")
    up = tank("up", "--detach", "--model", "tiny", *arguments.up)
    print(up.stdout[-800:], up.stderr[-800:])
    if up.returncode:
        return up.returncode
    try:
        return asyncio.run(run(arguments))
    finally:
        print(tank("down").stdout)


if __name__ == "__main__":
    sys.exit(main())

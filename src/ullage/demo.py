"""`make demo`: a tank comes up, answers, is asked what it can hold while it works, and goes down again.

python -m ullage.demo [FLAGS of ullage tank up]
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from .tank.up.probe import ask
from .tank.up.state import State, read_state, the_place
from .tank.up.words import limits_command

_QUESTIONS = ("What is a water tank?", "Name three rivers.", "Write a line about rain.")
_ROWS = ("--at", "2000", "--request", "prompt=500,output=1500")
_AT_WORK = 3  # requests that run while it is asked
_OWN_PORTS = {"--port": 8000, "--base-port": 30000, "--bootstrap-port": 8998, "--metrics-port": 29000}


def main() -> int:
    try:
        code = _show(["tank", "up", "--detach", *_ports(), *sys.argv[1:]])
        return code or _with_tank()
    except KeyboardInterrupt:
        return 130


def _with_tank() -> int:
    state = read_state(the_place())
    assert state is not None
    try:
        print("\nSome requests, through the router:\n", flush=True)
        for question in _QUESTIONS:
            _ask(state, question)
        _put_to_work(state)
        print()
        code = _show([*limits_command(state).split()[1:], *_ROWS])
    finally:
        print()
        _show(["tank", "down"])
    _next_steps()
    return code


def _show(words: Sequence[str]) -> int:
    """Runs a command of ullage as one would type it. Ctrl-C is first its affair, then ours."""
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
    try:
        print("$ ullage " + " ".join(words) + "\n", flush=True)
        code = subprocess.call([sys.executable, "-m", "ullage", *words])
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt
    return code


def _ask(state: State, question: str) -> None:
    began = time.monotonic()
    body = {"model": state.model, "messages": [{"role": "user", "content": question}], "max_tokens": 24}
    answer = ask(state.url, "/v1/chat/completions", {**body, "temperature": 0}, timeout_s=60)
    if answer.status != 200:
        print(f"  {question}  -> {answer.status}: {answer.body.decode('utf-8', 'replace')}", flush=True)
        return
    said = " ".join(answer.json["choices"][0]["message"]["content"].split())
    count, seconds = answer.json["usage"]["completion_tokens"], time.monotonic() - began
    print(f"  {question}\n    {json.dumps(said, ensure_ascii=False)}  {count} tokens, {seconds:.1f} s", flush=True)


def _put_to_work(state: State) -> None:
    """So that there is something to see. They end with the tank."""
    body = {"model": state.model, "prompt": "Water " * 500, "max_tokens": 1500, "ignore_eos": True}

    def work() -> None:
        ask(state.url, "/v1/completions", body, timeout_s=300)

    busy = [threading.Thread(target=work, daemon=True) for _ in range(_AT_WORK)]
    for one in busy:
        one.start()
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline and all(one.is_alive() for one in busy) and _running(state) < _AT_WORK:
        time.sleep(0.1)


def _running(state: State) -> int:
    loads = [ask(part.url, "/v1/loads").json for part in state.parts if part.role in ("decode", "unified")]
    return sum(rank["num_running_reqs"] for answer in loads if answer for rank in answer["loads"])


def _ports() -> list[str]:
    """Nothing where the ports that it takes by itself are free; else free ones."""
    named = {word.partition("=")[0] for word in sys.argv[1:]}
    wanted = {flag: port for flag, port in _OWN_PORTS.items() if flag not in named}
    if all(_free(port) and _free(port + 1) for port in wanted.values()):
        return []
    return [word for flag in wanted for word in (flag, str(_any_port()))]


def _free(port: int) -> bool:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _any_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def _next_steps() -> None:
    ullage = _here(str(Path(sys.executable).with_name("ullage")))
    up = f"{ullage} limits http://127.0.0.1:8000 --follow"
    print("\nTo try next:")
    print(f"  {ullage} tank up --detach                     # and, while it is up:")
    print(f"  {up} --request prompt=1000,output=500,shared=800")
    print(f"  {up} --html limits.html")
    print(f"  {up} --sources")
    print(f"  {ullage} tank status")
    print(f"  {ullage} tank down")
    print(f"  {ullage} tank up --unified 1 --memory 2GiB    # one worker that does both, and a larger pool")
    print(f"  {ullage} explain kv pool")


def _here(path: str) -> str:
    """As it is typed from the folder one stands in."""
    near = os.path.relpath(path)
    return path if near.startswith("..") else near


if __name__ == "__main__":
    sys.exit(main())

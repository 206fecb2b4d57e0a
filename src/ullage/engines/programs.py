"""Which server a process is: by its command line, or by the title that it wrote over it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

ROUTER = "sglang-router"


class Command(NamedTuple):
    """What a command line starts. `head`: how many words name it: the interpreter, the program, its subcommand."""

    program: str  # "SGLang", "vLLM", "llama.cpp", "sglang-router"; "" of any other
    head: int


class Door(NamedTuple):
    """Where a server answers, as it was told. `ports`: the one that was named, else those it may take by itself."""

    host: str
    ports: tuple[int, ...]
    named: bool
    tls: bool
    socket: str  # path of a Unix socket; "" where it answers over TCP
    others: frozenset[int]  # ports of the same process that are not its API: metrics, bootstrap
    all_http: bool  # no port of it is one of collectives or message queues, so that each may be asked


class _Kind(NamedTuple):
    """`modules`: of `python -m`; `programs`: by name. Both with the subcommands of which one must follow, if any."""

    modules: Mapping[str, tuple[str, ...]]
    programs: Mapping[str, tuple[str, ...]]
    scripts: tuple[str, ...]  # how the path of a script ends that an interpreter runs
    readable: tuple[str, ...]  # the head that the engine's flag reader knows
    ports: tuple[int, ...]
    environment: str


_SERVE = ("serve",)
_LAUNCH = ("launch", "server")
_KINDS = {
    "SGLang": _Kind(
        {"sglang.launch_server": (), "ullage.tank.worker": (), "sglang": _SERVE, "sglang.cli.main": _SERVE},
        {"sglang": _SERVE},
        ("sglang/launch_server.py", "ullage/tank/worker.py"),
        ("sglang", "serve"),
        (30000,),
        r"SGL(?:ANG)?_",
    ),
    "vLLM": _Kind(
        {
            "vllm.entrypoints.openai.api_server": (),
            "vllm.entrypoints.api_server": (),
            "vllm.entrypoints.grpc_server": (),
            "vllm.entrypoints.cli.main": _SERVE,
            "vllm": _SERVE,
        },
        {"vllm": _SERVE},
        ("vllm/entrypoints/openai/api_server.py", "vllm/entrypoints/api_server.py"),
        ("vllm", "serve"),
        (8000,),
        r"VLLM_",
    ),
    "llama.cpp": _Kind({}, {"llama": _SERVE}, (), ("llama-server",), (8080,), r"LLAMA_|GGML_"),
    ROUTER: _Kind(
        {
            "sglang_router.launch_router": (),
            "sglang_router.launch_server": (),
            "ullage.tank.up.keyed_router": (),
            "sglang_router": _LAUNCH,
            "sglang_router.cli": _LAUNCH,
        },
        {"sglang-router": (), "smg": _LAUNCH, "sgl-model-gateway": (), "sgl-router": ()},
        ("sglang_router/launch_router.py", "sglang_router/launch_server.py", "ullage/tank/up/keyed_router.py"),
        ("sglang-router", "launch"),
        (30000, 3001),
        r"SGL(?:ANG)?_",
    ),
}
_PROGRAMS = {name: (program, subs) for program, kind in _KINDS.items() for name, subs in kind.programs.items()}
# Titles of processes that are a server themselves, whose command line is lost under them.
_TITLED = {"sglang::server": "SGLang", "sglang::router": ROUTER}
# vLLM lets its users choose what stands before the colons (VLLM_PROCESS_NAME_PREFIX).
_TITLES = (
    (re.compile(r"sglang::\S"), "SGLang"),
    (re.compile(r"VLLM::\S|\S+::(?:EngineCor|DPCoordinat|APIServer_\d|Worker_[DPTCE]+\d)"), "vLLM"),
)
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*[a-z]?")
_LLAMA_SERVER = re.compile(r"llama[-_]server(?:[-_.](?!sh$|py$|log$|service$)[\w.-]+)?")
_QUESTIONS = frozenset(["-h", "--help", "--help-all", "-V", "--version", "--version-verbose"])
_BOTH = r"CUDA_|NVIDIA_VISIBLE_DEVICES$|HIP_VISIBLE_DEVICES$|ROCR_VISIBLE_DEVICES$|NCCL_|RCCL_|NVSHMEM_|UCX_|GLOO_"
_BOTH += r"|PYTORCH_(?:\w+_)?ALLOC_CONF$|OMP_NUM_THREADS$|(?:HF_HUB|TRANSFORMERS)_OFFLINE$|TRITON_CACHE_DIR$"


def program_of(words: Sequence[str]) -> str:
    """Which server a command line is, "" for none. One that mentions or starts a server (a shell, sudo, an editor) is
    none: what it starts is a process of its own.
    """
    return command_of(words).program


def title_of(title: str) -> str:
    """The server that a process belongs to by the title that it set: `sglang::scheduler_TP0`, `VLLM::EngineCore`."""
    return next((program for pattern, program in _TITLES if pattern.match(title)), "") if "::" in title else ""


def command_of(words: Sequence[str]) -> Command:
    """What a command line starts, and how many of its words say so."""
    name = _name(words[0]) if words else ""
    if name in _TITLED:
        return Command(_TITLED[name], 1)
    if not _PYTHON.fullmatch(name):
        return _entry_point(words, 0)
    place, module = _behind_options(words)
    if place >= len(words):
        return Command("", 0)
    return _module(words, place, module) if module else _script(words, place)


def launched(words: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The server that a line of a unit or a script starts, and the variables that are stated with it: without what
    stands before it and gives way to it (`exec`, `nohup`, `env A=1`, `numactl --interleave=all`, `sudo -u llm`).
    """
    place = next((n for n in range(len(words)) if command_of(words[n:]).program), 0)
    pairs = [(name, value) for name, equals, value in (w.partition("=") for w in words[:place]) if equals]
    return {name: value for name, value in pairs if name.isidentifier()}, tuple(words[place:])


def readable(words: Sequence[str]) -> tuple[str, ...]:
    """The command line of a server as the reader of its engine's flags knows it; others as they are."""
    program, head = command_of(words)
    return (*_KINDS[program].readable, *words[head:]) if program else tuple(words)


def of_flags(engine: str, flags: Sequence[str]) -> tuple[str, ...]:
    """The command line of an engine's server with these flags, as the reader of its flags knows it."""
    kind = _KINDS.get(engine, _KINDS["SGLang"])  # the tank has SGLang's
    return (*kind.readable, *flags)


def environment_of(program: str) -> re.Pattern[str]:
    """The variables that bear on the capacity or the start of a server, to be matched. No other is kept."""
    return re.compile(f"(?:{_KINDS[program].environment}|{_BOTH})")


def door_of(program: str, words: Sequence[str], environment: Mapping[str, str]) -> Door:
    """Where a server answers. Of two flags the last counts; flags outrank llama-server's variables."""
    own = program == "llama.cpp"
    host = _flag(words, "--host") or (environment.get("LLAMA_ARG_HOST", "") if own else "")
    port = _number(_flag(words, "--port") or (environment.get("LLAMA_ARG_PORT", "") if own else ""))
    tls = bool(_flag(words, "--ssl-certfile", "--ssl-keyfile", "--ssl-cert-file", "--ssl-key-file", "--tls-cert-path"))
    socket = host if own and host.endswith(".sock") else _flag(words, "--uds") if program == "vLLM" else ""
    stated = [_number(_flag(words, name)) for name in ("--prometheus-port", "--disaggregation-bootstrap-port")]
    others = frozenset(stated) - {0} | ({29000} if program == ROUTER else {8998}) - {port}
    ports, all_http = (port,) if port else _KINDS[program].ports, program in ("llama.cpp", ROUTER)
    return Door(host, ports, bool(port), tls, socket, others, all_http)


def _entry_point(words: Sequence[str], place: int) -> Command:
    """A program by its own name, with the subcommand that makes it a server."""
    name = _name(words[place]) if place < len(words) else ""
    if name not in _PROGRAMS and not _LLAMA_SERVER.fullmatch(name):
        return Command("", 0)
    if _QUESTIONS & set(words[place + 1 : place + 3]):
        return Command("", 0)
    program, subcommands = _PROGRAMS.get(name, ("llama.cpp", ()))
    return _with_subcommand(program, subcommands, words, place)


def _module(words: Sequence[str], place: int, module: str) -> Command:
    for program, kind in _KINDS.items():
        if module in kind.modules:
            return _with_subcommand(program, kind.modules[module], words, place)
    return Command("", 0)


def _script(words: Sequence[str], place: int) -> Command:
    """A script that an interpreter runs: a file of an engine's sources, or what pip made of an entry point."""
    path = f"/{words[place]}".replace("\\", "/")
    for program, kind in _KINDS.items():
        if any(path.endswith(f"/{script}") for script in kind.scripts):
            return Command(program, place + 1)
    return _entry_point(words, place)


def _with_subcommand(program: str, subcommands: Sequence[str], words: Sequence[str], place: int) -> Command:
    following = words[place + 1] if place + 1 < len(words) else ""
    if following in subcommands or (following in _LAUNCH and program == ROUTER):
        return Command(program, place + 2)
    alone = not subcommands or (program == ROUTER and following.startswith("--"))
    return Command(program, place + 1) if alone else Command("", 0)


def _behind_options(words: Sequence[str]) -> tuple[int, str]:
    """(place of the word that names what Python runs, the module if it is one). Past the end where it runs code."""
    place = 1
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        option = words[place]
        letters = option[1:] if not option.startswith("--") else ""
        taking = re.match(r"[^cmXW]*([cmXW])(.*)", letters, re.DOTALL)
        if taking and taking[1] == "c":
            return len(words), ""
        if taking and taking[1] == "m":
            return (place, taking[2]) if taking[2] else (place + 1, "".join(words[place + 1 : place + 2]))
        place += 1 + (bool(taking and not taking[2]) or option == "--check-hash-based-pycs")
    return place + (words[place : place + 1] in (["--"], ("--",))), ""


def _name(word: str) -> str:
    """`C:\\bin\\llama-server.exe` and `/opt/bin/llama-server` by their name alone."""
    return word.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".exe")


def _flag(words: Sequence[str], *names: str) -> str:
    """The value of the last of these flags: `--port 1`, `--port=1`; underscores for dashes, as all engines allow."""
    value = ""
    for word, following in pairwise((*words, "")):
        name, equals, stated = word.partition("=")
        if name.startswith("--") and name.replace("_", "-") in names:
            value = stated if equals else following
    return value


def _number(word: str) -> int:
    """A port that can be; 0 for any other word."""
    return int(word) if word.isascii() and word.isdigit() and len(word) < 6 and int(word) < 65536 else 0

"""Who routes to whom, and who pairs with whom, as it is drawn."""

from __future__ import annotations

from collections.abc import Sequence

from tests.evidence import log, on_host, start
from ullage.evidence import Evidence, Process
from ullage.report.model import report_on
from ullage.report.topology import tree

ROUTER = "python -m sglang_router.launch_router --port 8000 --pd-disaggregation --prefill {} --decode {}"


def worker(port: int, role: str, model: str = "small") -> tuple[Evidence, ...]:
    command = f"python -m sglang.launch_server --model-path /m/{model} --port {port} --disaggregation-mode {role}"
    return on_host(command, port)


def drawn(items: Sequence[Evidence], *, letters: bool = False) -> list[str]:
    """Without where each runs."""
    lines = tree(report_on(list(items)).deployment, letters=letters)
    return [
        f"{line.lead}{line.text}" for line in lines if line.strong or "taken" in line.text or "not read" in line.text
    ]


def named(port: int, role: str, model: str = "small") -> str:
    return f"{role}  {model}  SGLang (version not known)  http://127.0.0.1:{port}"


def test_prefill_and_decode_that_no_router_names_are_a_pair_and_it_is_inferred() -> None:
    alone = "python -m sglang.launch_server --model-path /m/other --port 3"
    assert drawn([*worker(1, "prefill"), *on_host(alone, 3), *worker(2, "decode")]) == [
        "prefill and decode, taken as a pair: of one model; no router was read",
        f"|- {named(1, 'prefill')}",
        f"`- {named(2, 'decode')}",
        named(3, "unified", "other"),
    ]


def test_two_pairs_of_two_models() -> None:
    lines = drawn(
        [*worker(1, "prefill", "a"), *worker(2, "prefill", "b"), *worker(3, "decode", "b"), *worker(4, "decode", "a")]
    )
    assert [line.split("  ")[-1].rpartition(":")[2] for line in lines if "http" in line] == ["1", "4", "2", "3"]
    assert sum("taken as a pair" in line for line in lines) == 2


def test_of_two_names_of_models() -> None:
    lines = drawn([*worker(1, "prefill", "v4"), *worker(2, "decode", "v4-fp8")])
    assert lines[0] == "prefill and decode, taken as a pair: the only ones; no router was read"


def test_what_a_router_names_is_below_it_and_pairs_with_nothing_else() -> None:
    router = on_host(ROUTER.format("http://127.0.0.1:1", "http://10.9.9.9:2"), 9, listens=("127.0.0.1:8000",))
    lines = drawn([*router, *worker(1, "prefill"), *worker(2, "decode")], letters=True)
    assert lines == [
        named(2, "decode"),
        "router  sglang-router  2 workers  http://127.0.0.1:8000",
        f"├─ {named(1, 'prefill')}",
        "└─ http://10.9.9.9:2  not read",
    ]


def test_of_files_too() -> None:
    roles = ("prefill", "decode")
    items = [log(f"{role}.log", *start(9000, port=n, disaggregation_mode=role)) for n, role in enumerate(roles)]
    assert drawn(items)[0].startswith("prefill and decode, taken as a pair")
    assert len(drawn(items[:1])) == 1


def test_where_a_server_runs() -> None:
    process, *others = on_host("python -m sglang.launch_server --model-path /m/x --port 4", unit="x.service")
    assert isinstance(process.content, Process)
    listens = ("0.0.0.0:4", "127.0.0.1:5", "127.0.0.1:6")
    content = process.content._replace(listens=listens, cwd="/srv/x", output="the journal")
    lines = list(tree(report_on([process._replace(content=content), *others]).deployment, letters=False))
    assert [line.text for line in lines[1:]] == [
        "pid 4242 and 1 more, x.service, as llm in /srv/x, up 60 min",
        "listens on 0.0.0.0:4 and 127.0.0.1:5, 1 more, writes to the journal",
    ]


def test_of_what_is_not_known_nothing_is_said() -> None:
    (process, *_) = on_host("sglang::router", 7, listens=(), hidden=True)
    lines = list(tree(report_on([process]).deployment, letters=False))
    assert [line.text for line in lines[1:]] == ["pid 7 and 1 more, as llm, up 60 min"]

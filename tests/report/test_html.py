"""The page as it stands in its file: whole, closed, escaped, and with a source behind every number."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ullage.report.html as html
from tests.evidence import READ_AT, argv, document, log, on_host, start, vllm_start
from tests.report.pages import REPORTS
from tests.report.test_curve import server
from ullage.capacity.admission import FitsNow
from ullage.capacity.demand import Demand
from ullage.capacity.pool import Pool
from ullage.capacity.request import Shape
from ullage.deployment import Deployment, standard_answers
from ullage.engines.levels import level_of
from ullage.engines.server import Role
from ullage.evidence import Argv, Evidence
from ullage.figure import Figure, Kind, Source, missing, read
from ullage.findings.labels import KINDS
from ullage.report.curve import Curve, Point, Stretch
from ullage.report.html.chart import chart, looks_of
from ullage.report.html.markup import data, prose, tag, text
from ullage.report.html.numbers import Numbers
from ullage.report.html.tanks import layers_of, tank
from ullage.report.model import Report, report_on
from ullage.report.rows import rows_of
from ullage.report.topology import tree
from ullage.report.words import ratio, value_of

VOID = {"meta", "link", "rect", "line", "path", "circle", "input"}
STYLE = Path(html.__file__).with_name("page.css").read_text("utf-8")


class Element(NamedTuple):
    tag: str
    attributes: Mapping[str, str]
    inside: tuple[str, ...]  # the ids and tags it lies in


class Reader(HTMLParser):
    """Elements and their words; complains where a tag is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.words: dict[int, str] = {}
        self.open: list[tuple[str, int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        inside = tuple(self.elements[i].attributes.get("id", name) for name, i in self.open)
        assert len(attributes) == len(attrs), f"an attribute stands twice: {attrs}"
        self.elements.append(Element(tag, attributes, inside))
        if tag not in VOID:
            self.open.append((tag, len(self.elements) - 1))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert tag not in VOID
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for _, i in self.open:
            self.words[i] = self.words.get(i, "") + data

    def all(self, tag: str, **attributes: str) -> list[tuple[Element, str]]:
        return [
            (e, self.words.get(i, ""))
            for i, e in enumerate(self.elements)
            if e.tag == tag and attributes.items() <= e.attributes.items()
        ]


@cache
def page(name: str) -> str:
    return html.to_html(REPORTS[name]())


@cache
def parsed(name: str) -> Reader:
    reader = Reader()
    reader.feed(page(name))
    reader.close()
    assert reader.open == []
    return reader


every = pytest.mark.parametrize("name", REPORTS)


@every
def test_ids_are_unique_and_whatever_points_at_one_finds_it(name: str) -> None:
    elements = parsed(name).elements
    ids = Counter(e.attributes["id"] for e in elements if "id" in e.attributes)
    assert set(ids.values()) == {1}
    for element in elements:
        for attribute in ("popovertarget", "aria-labelledby", "for"):
            assert element.attributes.get(attribute, next(iter(ids))) in ids
        for target in re.findall(r"url\(#([^)]+)\)", " ".join(element.attributes.values())):
            assert target in ids
        if element.tag == "a":
            assert element.attributes["href"].removeprefix("#") in ids


@every
def test_the_page_asks_for_nothing_and_runs_nothing_but_its_own_script(name: str) -> None:
    for element in parsed(name).elements:
        assert element.tag not in ("iframe", "object", "embed", "img", "base", "form")
        assert not [a for a in element.attributes if a.startswith("on") or a in ("style", "src", "srcset", "action")]
        assert element.attributes.get("href", "#")[0] == "#" or element.attributes["href"] == "data:,"
    assert "@import" not in STYLE
    assert "url(" not in STYLE
    scripts = [words for e, words in parsed(name).all("script") if e.attributes.get("type") != "application/json"]
    assert len(scripts) == 1


@every
def test_the_policy_names_the_style_and_the_script_by_their_hashes(name: str) -> None:
    [policy] = [
        e.attributes["content"] for e, _ in parsed(name).all("meta", **{"http-equiv": "Content-Security-Policy"})
    ]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag_name in ("style", "script"):
        [content] = [w for e, w in parsed(name).all(tag_name) if "type" not in e.attributes]
        assert f"{tag_name}-src 'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'" in policy


@every
def test_every_number_has_a_source_or_a_reason_in_its_panel(name: str) -> None:
    panels = {e.attributes["id"]: words for e, words in parsed(name).all("div", **{"class": "source"})}
    buttons = [e for e, _ in parsed(name).all("button") if "n" in e.attributes["class"].split()]
    assert buttons
    for button in buttons:
        words = panels[button.attributes["popovertarget"]]
        assert button.attributes["title"]
        kind = button.attributes["class"].split()[1]
        assert kind in words
        assert len(words.split(kind, 1)[1].strip()) > 3, words


def headline(*items: Evidence, at: Sequence[int] = (), requests: Sequence[Shape] = ()) -> list[str]:
    """The sentences at the head of the page."""
    reader = Reader()
    reader.feed(html.to_html(report_on(items, at, requests)))
    return [words for _, words in reader.all("p", **{"class": "answer"})]


SHARED = "llama-server -m m.gguf -c 16384 -np 8 -kvu"


def test_the_headline_is_what_is_safe_at_a_usual_length_and_at_the_full_context() -> None:
    """Slots let in 8 of any length; the shared pool holds one full context."""
    assert headline(argv(SHARED)) == [
        "4 requests of 4,096 tokens are safe in parallel (bound by KV pool); 1 of the full 16,384 (KV pool)."
    ]
    assert headline(argv(SHARED), at=[2000]) == [
        "8 requests of 2,000 tokens are safe in parallel (bound by slots); 1 of the full 16,384 (KV pool)."
    ]


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        (Shape(2000, 500), "2,000 + 500 tokens are safe in parallel"),
        (Shape(2000, 500, 1500), "2,000 + 500 tokens, 1,500 of them shared, are safe in parallel"),
        (Shape(2000, None), "2,000 tokens with no output limit named is safe in parallel"),
    ],
)
def test_the_headline_tells_the_shape_that_was_asked_for(shape: Shape, told: str) -> None:
    [words] = headline(argv(SHARED), requests=[shape])
    assert told in words


def test_the_headline_says_a_range_and_an_upper_bound_as_such() -> None:
    slots = [{"id": n, "n_ctx": 1024, "is_processing": False} for n in range(4)]
    doubtful = headline(document("http://127.0.0.1:8080", "slots", slots))
    assert doubtful == ["1 to 4 requests of the full 1,024 tokens are safe in parallel (bound by KV pool)."]
    [unknown_slots] = headline(log("v.log", *vllm_start(64_000, 7.81)))
    assert unknown_slots.startswith("At most ")


def test_each_headline_says_whose_it_is_in_the_words_of_the_terminal() -> None:
    report = REPORTS["chains"]()
    titles = [title.removeprefix("Parallel requests, ") for title, _ in rows_of(report)]
    assert titles == [
        "http://127.0.0.1:30002",
        "alone.log (port 8000)",
        "prefill to decode, small-prefill.log (port 1)",
        "prefill to decode, other-prefill.log (port 3)",
    ]
    assert [words for _, words in parsed("chains").all("span", **{"class": "whose"})] == titles
    told = [words for _, words in parsed("chains").all("p", **{"class": "answer"})]
    starts = ("How many requests fit is not known", "At most 24 requests", "64 requests of", "10 requests of")
    assert all(words.startswith(title + start) for words, title, start in zip(told, titles, starts, strict=True))
    headings = [words for e, words in parsed("chains").all("h3") if "limits" in e.inside]
    assert headings == titles


@pytest.mark.parametrize("name", ["chain", "aggregated", "unknown"])
def test_where_there_is_one_it_is_not_named(name: str) -> None:
    assert not parsed(name).all("span", **{"class": "whose"})


def size(*roles: str, routers: int = 0) -> str:
    """What stands small beside the model, of servers in these roles."""
    logs = (log(f"{i}.log", *start(500_000, port=i, disaggregation_mode=role)) for i, role in enumerate(roles, 1))
    flags = (argv(f"sglang-router --port {port}", f"{port}.flags") for port in range(8000, 8000 + routers))
    [title] = of_servers(*logs, *flags).all("h1")
    return title[1].removeprefix("small").strip()


def test_a_chain_is_told_in_the_order_of_a_request_with_servers_of_a_role_together() -> None:
    assert size("decode", "prefill") == "prefill → decode"
    assert size("prefill", "decode", "prefill") == "2 prefill → decode"
    assert size("decode", "prefill", routers=1) == "router → prefill → decode"


def test_of_what_is_no_chain_servers_and_routers_are_counted() -> None:
    assert size("null", "null", routers=2) == "2 servers, 2 routers"
    assert size("null", "null") == "2 servers"
    assert size("null") == ""


@every
def test_the_headline_says_the_safe_of_the_rows(name: str) -> None:
    report = REPORTS[name]()
    told = [words for _, words in parsed(name).all("p", **{"class": "answer"})]
    full = [a for a in report.answers if a.label == "full" and (a.chain or next(iter(a.by_server.values()))).safe.known]
    for answer in full:
        limits = [answer.chain] if answer.chain else [x for x in answer.by_server.values() if not x.refused]
        assert [any(value_of(x.safe) in words and x.safe_binds in words for words in told) for x in limits] == [
            True
        ] * len(limits)


@every
def test_numbers_that_are_shown_are_those_of_the_report(name: str) -> None:
    """What each row of the table admits stands in a button."""
    report = REPORTS[name]()
    found = [(a.chain or limits).admits for a in report.answers for limits in a.by_server.values()]
    shown = {words.strip("<=*") for _, words in parsed(name).all("button")}
    assert {value_of(figure) for figure in found} <= shown


@every
def test_tables_have_headers_and_the_page_has_landmarks(name: str) -> None:
    reader = parsed(name)
    for landmark in ("header", "nav", "main", "footer", "h1"):
        assert reader.all(landmark)
    assert reader.all("html", lang="en")
    assert all(e.attributes.get("scope") in ("col", "row") for e, _ in reader.all("th"))
    assert all(words.strip() for _, words in reader.all("th"))
    for element, words in reader.all("svg"):
        assert element.attributes.get("aria-hidden") or (element.attributes["role"] == "img" and words)
    levels = [int(e.tag[1]) for e in reader.elements if re.fullmatch("h[1-6]", e.tag) and "source" not in str(e.inside)]
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_hostile_names_stay_words() -> None:
    text_of = page("hostile")
    assert "<script>alert" not in text_of
    assert "<img" not in text_of
    assert not re.search("[\x00\x1b\u202e]", text_of)
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in text_of
    assert len(parsed("hostile").all("h1")) == 1


def test_the_page_says_what_was_not_read_and_why() -> None:
    section = next(words for e, words in parsed("unknown").all("section", id="not-read"))
    assert "server_info" in section
    assert "401" in section
    assert not parsed("aggregated").all("section", id="not-read")


def test_without_limits_there_is_a_reason_and_no_curve() -> None:
    words = next(words for e, words in parsed("unknown").all("section", id="limits"))
    assert "No curve: the start-up lines are not in this log" in words
    assert not [e for e, _ in parsed("unknown").all("figure", **{"class": "chart"})]


def test_roles_that_are_no_chain_say_why_and_have_a_curve_each() -> None:
    roles = (Role.PREFILL, Role.DECODE)
    servers = tuple(replace(server(100_000, 10, 50_000, role=role), engine="vLLM") for role in roles)
    deployment = Deployment(servers)
    reader = Reader()
    reader.feed(html.to_html(Report(deployment, tuple(standard_answers(deployment)), (), (), (), (), READ_AT)))
    assert deployment.no_chain
    assert deployment.no_chain in next(words for e, words in reader.all("section", id="limits"))
    assert len(reader.all("figure", **{"class": "chart"})) == 2


def test_what_a_setting_differs_in_is_marked() -> None:
    rows = parsed("several").all("tr", **{"class": "differing"})
    report = REPORTS["several"]()
    differing = [s for server in report.deployment.servers for s in server.settings if s.differs]
    assert [words.split("←")[0].strip() for _, words in rows] == [s.label for s in differing] == ["running requests"]
    assert all("100" in words and "64" in words for _, words in rows)


def test_the_curve_is_in_the_page_for_the_script() -> None:
    [(_, words)] = parsed("chain").all("script", type="application/json")
    told = json.loads(words)
    assert told["points"][0][:2] == [256, 256]
    assert told["binds"] == ["decode: request slots", "decode: KV pool"]
    assert "8,961 to 524,281: bound by decode: KV pool" in next(
        w for _, w in parsed("chain").all("ul", **{"class": "legend"})
    )


def of_servers(*items: Evidence) -> Reader:
    reader = Reader()
    reader.feed(html.to_html(report_on(items)))
    return reader


def test_the_evidence_of_a_finding_on_several_servers_says_whose_each_figure_is() -> None:
    reader = of_servers(*(log(f"{port}.log", *start(20_000, port=port, host="0.0.0.0")) for port in (30000, 30001)))
    lists = [words for _, words in reader.all("ul", **{"class": "evidence"})]
    assert any("of 30000.log" in words and "of 30001.log" in words for words in lists)
    shared = [words for e, words in reader.all("li") if "findings" in e.inside and words.startswith("default_output")]
    assert shared == ["default_output_tokens unbounded (default) of 30000.log (port 30000), 30001.log (port 30001)"]


@every
def test_the_servers_are_the_tree_of_the_terminal(name: str) -> None:
    lines = list(tree(REPORTS[name]().deployment, letters=True))
    shown = [words for e, words in parsed(name).all("li") if e.inside[-1] == "ul" and "servers" in e.inside]
    if name not in (
        "chain",
        "hostile",
    ):  # the addresses of replayed servers differ; letters that may not stand are gone
        assert shown == [line.lead + line.text for line in lines]
    assert len(shown) == len(lines)
    assert len(lines) >= len(REPORTS[name]().deployment.servers)


def test_what_is_not_known_says_why_on_paper_too() -> None:
    reader = of_servers(argv("llama-server -m m.gguf"))
    facts = next(words for _, words in reader.all("dl", **{"class": "facts"}))
    assert re.search(r"total contextnot known \(.{9,}\)", facts)
    tanks = next(words for e, words in reader.all("section", id="tanks"))
    assert re.search(r"running requests not known \(.{9,}\)", tanks)


def test_the_environment_and_a_context_that_was_only_asked_for_are_told() -> None:
    process, command = on_host("python -m sglang.launch_server --model-path /m/x --port 30000 --context-length 4096")
    assert isinstance(command.content, Argv)
    stated = command.content._replace(environment={"CUDA_VISIBLE_DEVICES": "4,5"})
    facts = next(w for _, w in of_servers(process, command._replace(content=stated)).all("dl", **{"class": "facts"}))
    assert "environmentCUDA_VISIBLE_DEVICES=4,5" in facts
    assert "4,096 tokens, by the context length that was asked for" in facts


def test_the_highest_use_that_was_seen_is_told() -> None:
    highest = read("running", 31, "requests", Source("p"), note="the highest that Prometheus saw in 1 h")
    served = replace(server(100_000, 10, 50_000), peaks={"running": highest})
    deployment = Deployment((served,))
    reader = Reader()
    reader.feed(html.to_html(Report(deployment, tuple(standard_answers(deployment)), (), (), (), (), READ_AT)))
    told = [words for _, words in reader.all("p", **{"class": "queues"})]
    assert "highest: running 31 (the highest that Prometheus saw in 1 h)" in told


def test_a_stretch_of_one_length_is_told_as_one() -> None:
    slots, first = Point(256, 64, 64, 64, 64, "slots"), Point(257, 60, 60, 60, 60, "KV pool")
    last = Point(4096, 4, 4, 4, 4, "KV pool")
    curve = Curve(
        "s", (slots, first, last), (Stretch(256, 256, "slots"), Stretch(257, 4096, "KV pool")), "context length"
    )
    reader = Reader()
    reader.feed(chart(curve, (), looks_of([curve])))
    [legend] = [words for _, words in reader.all("ul", **{"class": "legend"})]
    assert "256: bound by slots257 to 4,096: bound by KV pool" in legend
    assert "256 tokens: slots binds; 257 to 4,096 tokens: KV pool binds" in reader.all("title")[0][1]
    assert not [words for _, words in reader.all("text") if words.startswith("from")]


def test_figures_of_one_name_say_where_each_was_read() -> None:
    reader = of_servers(log("30000.log", *start(20_000)), log("30001.log", *start(60_000, port=30_001)))
    [differs] = [
        words for e, words in reader.all("ul", **{"class": "evidence"}) if words.count("max_total_num_tokens") == 2
    ]
    assert "in 30000.log" in differs
    assert "in 30001.log" in differs


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ("give -kvu beside -np 4, or -c 4 times as large", ["-kvu", "-np", "-c"]),
        ("(--max-num-seqs 11 at most)", ["--max-num-seqs"]),
        ("a non-flag, 3-4 and -5; --enable-metrics-for-all-schedulers is long", []),
        ("a <b> --x & y", ["--x"]),
    ],
)
def test_a_flag_is_kept_together_and_no_word_is_lost(words: str, flags: list[str]) -> None:
    reader = Reader()
    reader.feed(tag("p", prose(words)))
    assert [inside for _, inside in reader.all("span", **{"class": "flag"})] == flags
    assert reader.all("p")[0][1] == words


def test_a_curve_of_one_number_is_said_and_not_drawn() -> None:
    reader = of_servers(argv("llama-server -m m.gguf -c 8192 -np 4"))
    assert "one number holds at all lengths, bound by slots" in next(w for _, w in reader.all("section", id="limits"))
    assert not reader.all("figure", **{"class": "chart"})


# Tanks


counts = st.none() | st.integers(0, 10**6)


def counted(name: str, value: int | None) -> Figure:
    return missing(name, "tokens", f"no {name}") if value is None else read(name, value, "tokens", Source("s"))


@given(counts, counts, counts, counts)
def test_a_tank_is_filled_by_what_is_known_and_hatched_by_what_is_not(
    size: int | None, used: int | None, evictable: int | None, reserved: int | None
) -> None:
    parts = (counted("used", used), counted("evictable", evictable), counted("reserved", reserved))
    level = level_of("KV pool", counted("size", size), *parts)
    layers = layers_of(level)
    drawn = str(tank(level, Pool("KV pool", "tokens", level.size, FitsNow(), Demand()), Numbers()))
    unknown = not size or used is None or evictable is None or reserved is None
    assert ("url(#hatch-unknown)" in drawn) == (unknown and any(x.look == "unknown" and x.share != 0 for x in layers))
    assert any(layer.look == "unknown" for layer in layers) == unknown
    assert all(layer.share is None or layer.figure.known or layer.look == "unknown" for layer in layers)
    known = [layer.share for layer in layers if layer.share is not None]
    if known and sum(filter(None, (used, evictable, reserved))) <= (size or 0):
        assert sum(known) == pytest.approx(1)


@given(st.integers(1, 10**6), st.integers(2, 10), st.floats(0, 1), counts)
def test_a_tank_of_some_size_is_full_as_far_as_it_is_for_certain(
    least: int, times: int, share: float, evictable: int | None
) -> None:
    size, used = counted("size", least).between(least, times * least), round(share * least)
    level = level_of("KV pool", size, counted("used", used), counted("evictable", evictable), counted("reserved", 0))
    first, perhaps, *_, last = layers = layers_of(level)
    assert first.share == pytest.approx(used / (times * least))
    assert first.most == pytest.approx(used / least)
    assert perhaps.look == "unknown"
    assert (last.share is None) == (evictable is None)
    assert sum(layer.share or 0 for layer in layers) == pytest.approx(1)
    assert (last.share or 0) * times * least <= max(0, times * least - used - (evictable or 0))


def test_a_pool_of_some_size_is_told_and_drawn_as_a_range() -> None:
    busy = {"n_ctx": 1024, "is_processing": True, "id_task": 1, "n_prompt_tokens": 64}
    report = report_on([document("http://127.0.0.1:8080", "slots", [{"id": n, **busy} for n in range(4)])])
    reader = Reader()
    reader.feed(html.to_html(report))
    tanks = [words for _, words in reader.all("figure", **{"class": "tank"})]
    assert [words.startswith(name) for words, name in zip(tanks, ("slots", "KV pool"), strict=True)] == [True, True]
    assert "6 to 25%" in tanks[1]
    assert "in use 6 to 25%" in tanks[1]
    [level] = [level for level in report.deployment.servers[0].levels if level.pool == "KV pool"]
    assert ratio(level.in_use) == "6 to 25%"
    assert value_of(level.room) == "768 to 3,840"
    assert not [words for _, words in reader.all("summary") if "rank slot" in words]


@given(st.floats(0, 1.5))
def test_a_share_alone_fills_a_tank_of_unknown_size(share: float) -> None:
    stated = read("usage", share, "of the pool", Source("s"))
    nothing = counted("count", None)
    used, rest = layers_of(level_of("KV pool", nothing, nothing, nothing, nothing, stated))
    assert (used.look, rest.look) == ("used", "unknown")
    assert used.share == min(1, share)


# Escaping


@given(st.text())
def test_words_never_become_markup(words: str) -> None:
    reader = Reader()
    reader.feed(tag("p", words, title=words))
    reader.close()
    [element] = reader.elements
    held = re.sub(
        r"[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\U0010ffff]|[\u200e\u200f\u202a-\u202e\u2066-\u2069]", "\ufffd", words
    )
    assert (element.tag, element.attributes["title"], reader.words.get(0, "")) == ("p", held, held)
    assert text(words).encode("utf-8") == text(held).encode("utf-8")


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_data_stays_inside_its_element(value: object) -> None:
    held = data(value)
    assert "<" not in held
    assert json.loads(held) == value


# Looks


def colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6})", block))


def schemes() -> Iterator[tuple[str, dict[str, str]]]:
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[:2]
    yield "light", colours(light)
    yield "dark", colours(light) | colours(dark)


def contrast(one: str, other: str) -> float:
    """As WCAG 2 reckons it."""

    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("scheme", "colour"), list(schemes()), ids=["light", "dark"])
def test_words_and_marks_stand_out(scheme: str, colour: dict[str, str]) -> None:
    grounds = ("--paper", "--raised", "--faint")
    for words in ("--ink", "--soft", "--link", "--error", "--warning", "--info", "--liquid"):
        for ground in grounds:
            assert contrast(colour[words], colour[ground]) >= 4.5, (scheme, words, ground)
    for band in ("--b0", "--b1", "--b2", "--b3", "--b4", "--b5"):
        assert contrast(colour["--ink"], colour[band]) >= 4.5
        assert contrast(colour["--liquid"], colour[band]) >= 3
    for mark in ("--kept", "--hatch", "--focus"):
        assert contrast(colour[mark], colour["--raised"]) >= 3, (scheme, mark)


def test_what_is_no_reading_looks_different() -> None:
    for kind in (Kind.DEFAULT, Kind.INFERRED, Kind.PREDICTED, Kind.MISSING):
        assert f".n.{kind.value} {{" in STYLE
    assert set(KINDS) == set(Kind)

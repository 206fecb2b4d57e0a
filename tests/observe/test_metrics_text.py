from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.masking import Masker
from ullage.observe.metrics_text import looks_like_metrics, parse, unquoted

MASKER = Masker()


def test_names_labels_and_values_stay_as_sent() -> None:
    page = (
        "# HELP x:n_total Tokens.\n# TYPE x:n counter\n"
        'x:n{model="/m/a b",rank="0"} 6.0\nplain 3 1700000000000\n\tx:n_total 1e3\ny NaN\nz +Inf\n'
    )
    samples = parse(page, MASKER)
    assert samples.problems == ()
    assert [(s.name, dict(s.labels), s.value) for s in samples.samples[:3]] == [
        ("x:n", {"model": "/m/a b", "rank": "0"}, 6.0),
        ("plain", {}, 3.0),
        ("x:n_total", {}, 1000.0),
    ]
    assert math.isnan(samples.samples[3].value)
    assert samples.samples[4].value == math.inf


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ('a{x="q\\"uote"} 1', 'q"uote'),
        ('a{x="new\\nline"} 1', "new\nline"),
        ('a{ x = "1" , y="2" } 1', "1"),
        ('a{x="1"} 5 # {trace_id="z"} 0.6', "1"),
    ],
)
def test_unusual_lines_are_read_too(line: str, label: str) -> None:
    samples = parse(line, MASKER)
    assert samples.problems == ()
    assert samples.samples[0].labels["x"] == label


def test_bad_lines_are_reported_with_their_number_and_cost_only_themselves() -> None:
    samples = parse('a 1\nthis is no metric\nb{x="1"} 2\nb{x="1"} 3\nb{x="2"} 4\nc{y="', MASKER)
    assert [(s.name, s.value) for s in samples.samples] == [("a", 1), ("b", 2), ("b", 4)]
    assert [problem.split(":")[0] for problem in samples.problems[:2]] == ["line 2", "line 6"]
    assert "cut off" in samples.problems[1]
    assert "b comes twice" in samples.problems[2]


def test_a_page_pasted_twice_is_read_once_and_few_problems_are_shown() -> None:
    page = "".join(f"m{n} {n}\n" for n in range(500))
    samples = parse(page + page, MASKER)
    assert len(samples.samples) == 500
    assert len(samples.problems) == 21
    assert samples.problems[-1] == "480 more like these"


def test_labels_are_masked() -> None:
    page = 'info{api_key="hunter2-hunter2",url="http://me:pw@h/"} 1\nodd{token="se\\\\cret"} 1'
    text = repr(parse(page, MASKER))
    assert "hunter2" not in text
    assert "pw@" not in text
    assert "cret" not in text


def test_of_a_histogram_the_sum_and_count_are_kept_and_the_buckets_are_not() -> None:
    page = 'm_bucket{le="1"} 3\nm_bucket{le="+Inf"} 5\nm_sum 7.5\nm_count 5\n'
    assert [(s.name, s.value) for s in parse(page, MASKER).samples] == [("m_sum", 7.5), ("m_count", 5)]


@pytest.mark.parametrize("text", ["# TYPE a gauge\na 1", "a:b_c 155\n", 'cut="1"} 3\na 1\nb 2\nc 3', 'a{x="1"} NaN'])
def test_looks_like_metrics(text: str) -> None:
    assert looks_like_metrics(text)


@pytest.mark.parametrize("text", ["", "OK", "# a comment\n", "[2026-01-01 00:00:00] x 1", "not found 404 page", "{}"])
def test_does_not_look_like_metrics(text: str) -> None:
    assert not looks_like_metrics(text)


@given(st.text(alphabet='ab{}="\\,# 1.\n\t:_é\u2028', max_size=60))
def test_nothing_makes_it_crash(text: str) -> None:
    looks_like_metrics(text)
    parse(text, MASKER)


def test_the_first_pages_of_a_run_may_be_parsed_at_once() -> None:
    code = """
import sys, threading
from ullage.masking import Masker
from ullage.observe.metrics_text import parse
sys.setswitchinterval(1e-6)
ready, found = threading.Barrier(8), []
def read():
    ready.wait()
    found.append(len(parse("a 1\\nb 2", Masker()).samples))
threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert "prometheus_client" not in sys.modules
print(found)
"""
    for _ in range(3):
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert (run.stdout, run.stderr) == (f"{[2] * 8}\n", "")


PAGE = '# HELP llamacpp:a A "quoted" word\n# TYPE llamacpp:a counter\nllamacpp:a{b="c"} 5\nllamacpp:d 6\n'


@given(st.integers(60, 200))
def test_a_page_inside_a_json_string_is_the_page_as_far_as_it_goes(end: int) -> None:
    """llama.cpp sent its page like that for some builds (issue 17384)."""
    sent = json.dumps(PAGE)[:end]
    page = unquoted(sent)
    assert page == PAGE if end >= len(json.dumps(PAGE)) else PAGE.startswith(page.rstrip("\\"))


@given(st.text(max_size=60))
def test_what_is_no_quoted_page_stays_as_it_is(text: str) -> None:
    assert unquoted(text) == text or text.lstrip().startswith('"')
    assert unquoted(json.dumps(text)) == json.dumps(text) or "\n" in text

"""The page in a real browser: Debian's chromium, light and dark, on a phone, by keyboard, without a network."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ullage.report.html as html
from tests.report.pages import REPORTS

CHROMIUM = shutil.which("chromium") or ""
RUNS = bool(CHROMIUM) and subprocess.run([CHROMIUM, "--version"], capture_output=True).returncode == 0
pytestmark = [
    pytest.mark.skipif(not RUNS, reason="no chromium runs here: apt install chromium"),
    pytest.mark.skipif(importlib.util.find_spec("playwright") is None, reason="playwright is not installed"),
]
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
).split()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        found = player.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("pages")
    for name, made in REPORTS.items():
        (folder / f"{name}.html").write_text(html.to_html(made()), "utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in REPORTS}


class Opened:
    """A page with what it said to the console and what it asked of the network."""

    def __init__(self, browser: Any, url: str, **given: Any) -> None:
        self.page = browser.new_context(**given).new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(url)

    def close(self) -> None:
        self.page.context.close()


@pytest.fixture
def opened(browser: Any, files: dict[str, str]) -> Iterator[Any]:
    pages: list[Opened] = []

    def open_(name: str = "chain", **given: Any) -> Opened:
        pages.append(Opened(browser, files[name], **given))
        return pages[-1]

    yield open_
    for page in pages:
        page.close()


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_is_silent(opened: Any, name: str, scheme: str) -> None:
    found = opened(name, color_scheme=scheme)
    for width in (360, 768, 1280):
        found.page.set_viewport_size({"width": width, "height": 800})
        assert found.page.evaluate("document.documentElement.scrollWidth") <= width
    assert found.said == []
    assert found.asked == [found.page.url]
    ground, ink = (
        found.page.evaluate(f"getComputedStyle(document.body).{what}") for what in ("backgroundColor", "color")
    )
    assert (brightness(ground) > brightness(ink)) == (scheme == "light")


@pytest.mark.parametrize("name", REPORTS)
def test_on_paper_nothing_is_cut_off_and_it_is_light(opened: Any, name: str) -> None:
    """A4 within its margins is 703 pixels wide."""
    page = opened(name, color_scheme="dark", viewport={"width": 703, "height": 1000}).page
    page.emulate_media(media="print")
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = false)")
    beyond = page.evaluate(
        """() => [...document.querySelectorAll('main th, main td, main p, main li, main .tank, main dd')]
            .filter(e => e.checkVisibility() && !e.closest('details'))
            .filter(e => e.getBoundingClientRect().right > e.closest('main > section').getBoundingClientRect().right + 1
                || e.scrollWidth > e.clientWidth + 1)
            .map(e => e.textContent)"""
    )
    assert beyond == []
    assert page.locator(".cross:visible").count() == 0
    paper, ink = (page.evaluate(f"getComputedStyle(document.body).{what}") for what in ("backgroundColor", "color"))
    assert brightness(paper) == 3 * 255
    assert brightness(ink) < 255


def brightness(colour: str) -> int:
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))


def test_a_number_opens_its_source_by_keyboard_and_closes_again(opened: Any) -> None:
    page = opened().page
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('button.n')"):
            break
    number = page.evaluate("document.activeElement.textContent")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    panel = page.locator(".source:popover-open")
    assert panel.count() == 1
    assert number.strip("<=*") in panel.inner_text()
    assert "/server_info" in panel.inner_text()
    page.keyboard.press("Escape")
    assert panel.count() == 0
    assert page.evaluate("document.activeElement.textContent") == number


def test_a_panel_is_closed_by_its_button_or_by_a_click_beside_it(opened: Any) -> None:
    page = opened().page
    panel = page.locator(".source:popover-open")
    page.locator(".tank button.n").first.click()
    panel.locator(".close").click()
    assert panel.count() == 0
    page.locator(".tank button.n").first.click()
    assert panel.is_visible()
    page.mouse.click(5, 5)
    assert panel.count() == 0


def test_the_panel_lies_within_the_screen_of_a_phone(opened: Any) -> None:
    page = opened(viewport={"width": 360, "height": 640}).page
    page.locator("td button.n").first.click()
    box = page.locator(".source:popover-open").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 640


def test_the_slider_reads_the_curve_by_keyboard(opened: Any) -> None:
    page = opened().page
    slider, said = page.locator(".reader input"), page.locator(".reader output")
    slider.focus()
    page.keyboard.press("Home")
    assert said.inner_text() == "256 tokens: admits 256, safe 256; bound by decode: request slots"
    page.keyboard.press("End")
    assert said.inner_text() == "524,281 tokens: admits 4, safe 4; bound by decode: KV pool"
    assert slider.get_attribute("aria-valuetext") == said.inner_text()
    page.keyboard.press("PageDown")
    assert said.inner_text() != "524,281 tokens: admits 4, safe 4; bound by decode: KV pool"


def test_the_pointer_reads_the_curve(opened: Any) -> None:
    page = opened().page
    box = page.locator(".wide svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] / 2)
    assert "admits 256" in page.locator(".reader output").inner_text()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] / 2)
    assert "bound by decode: KV pool" in page.locator(".reader output").inner_text()


def test_without_a_script_it_says_the_same(opened: Any) -> None:
    page = opened(java_script_enabled=False).page
    assert page.locator(".wide svg").is_visible()
    assert page.locator(".reader").is_hidden()
    page.locator("td button.n").first.click()
    assert page.locator(".source:popover-open").is_visible()


def test_what_is_hidden_says_so_when_it_is_opened(opened: Any) -> None:
    page = opened().page
    page.locator("#findings summary").first.click()
    assert page.locator("#findings details[open] p").first.is_visible()


def test_hostile_names_run_nothing(opened: Any) -> None:
    found = opened("hostile")
    dialogs: list[Any] = []
    found.page.on("dialog", lambda dialog: dialogs.append(dialog))
    found.page.locator("td button.n").first.click()
    assert (dialogs, found.said) == ([], [])
    assert "<img src=x" in found.page.locator("h1").inner_text()

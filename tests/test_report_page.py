"""The report's page in a real browser: every plot drawn, every control works, nothing in a name becomes
markup."""

import csv
import io
import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from results_maker import HOSTILE, headlines, read_csv

from gridcount.benchmark.store import read_results

ROOT = Path(__file__).parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_browser() -> str:
    """A Chromium. Whoever could have installed it by `make browser` fails without it; anybody else is told
    what was not tested."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        why = f"the report page was not tested: no browser found ({', '.join(BROWSERS)}). Install one, as root: make browser"
        if os.environ.get("CI") or (hasattr(os, "geteuid") and os.geteuid() == 0):
            pytest.fail(why)
        pytest.skip(why)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_browser()
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"] if root else [])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Browser, report_folder: Path) -> Iterator[Page]:
    """The page in a window; at the end it has told no error and asked the network for nothing."""
    window = browser.new_page(viewport={"width": 1200, "height": 900})
    problems: list[str] = []
    window.on(
        "console",
        lambda message: problems.append(message.text) if message.type in ("error", "warning") else None,
    )
    window.on("pageerror", lambda error: problems.append(str(error)))
    window.on(
        "request",
        lambda request: (
            problems.append(request.url)
            if request.url.split(":")[0] not in ("file", "data", "blob")
            else None
        ),
    )
    window.goto((report_folder / "report.html").as_uri())
    window.wait_for_selector("html[data-ready]")
    yield window
    window.close()
    assert problems == []


def drag(window: Page, plot: Any, share: float = 0.4) -> None:
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    x, y = box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.4
    window.mouse.move(x, y)
    window.mouse.down()
    window.mouse.move(x + box["width"] * share, y, steps=4)
    window.mouse.up()


def test_every_plot_is_drawn(opened: Page) -> None:
    drawn = opened.evaluate(
        """() => [...document.querySelectorAll("figure")].map((figure) => ({
            id: figure.id,
            caption: figure.querySelector("figcaption").textContent,
            label: figure.querySelector(".canvas svg").getAttribute("aria-label"),
            points: [...figure.querySelectorAll("path.series")].map((path) => path.getAttribute("d").split("L").length),
            broken: [...figure.querySelectorAll("path")].filter((path) => /NaN|undefined|Infinity/.test(path.getAttribute("d"))).length,
            marks: figure.querySelectorAll("g.estimate").length,
        }))"""
    )
    by_name = {figure["id"]: figure for figure in drawn}
    assert len(by_name) == len(drawn) >= 18
    for figure in drawn:
        assert figure["caption"]
        assert figure["label"]
        assert figure["broken"] == 0, figure
        assert figure["marks"] or (figure["points"] and min(figure["points"]) > 1), figure
    assert by_name["paper-maze2d-curve-0"]["points"] == [20] * 4
    assert by_name["bins-ablation-0"]["marks"] == 3
    assert by_name["speed-curve-0"]["points"] == [3]  # which nothing scored: of what runs logged


def test_tables_match_the_results_file(opened: Page, results_file: Path) -> None:
    expected = headlines(results_file)
    heads = [cell.inner_text() for cell in opened.locator("#paper-maze2d-scores-table thead th").all()]
    lines = opened.locator("#paper-maze2d-scores-table tbody tr").all()
    assert len(lines) == 4
    compared = 0
    for line in lines[:-1]:
        dataset = line.locator("th").inner_text()
        for algorithm, cell in zip(heads[1:], line.locator("td").all(), strict=True):
            if (seeds := expected.get(("paper/maze2d", algorithm, "", dataset))) is not None:
                assert cell.inner_text().split("\n")[0] == f"{np.mean(seeds):.1f} ± {np.std(seeds):.1f}"
                compared += 1
    assert compared == len([name for name in expected if name[0] == "paper/maze2d"]) == 12
    umaze = (
        opened.locator("#paper-maze2d-scores-table tbody tr", has_text="umaze")
        .locator("td")
        .nth(heads.index("gpc-sac") - 1)
        .inner_text()
    )
    difference = np.mean(expected["paper/maze2d", "gpc-sac", "", "maze2d-umaze-v1"]) - 141.0
    assert "paper 141.0" in umaze
    assert f"{difference:+.1f}".replace("-", "\N{MINUS SIGN}") in umaze


def test_the_legend_takes_methods_away_and_brings_them_back(opened: Page) -> None:
    curves = opened.locator("#paper-maze2d-curve-0 path.series")
    button = opened.locator("#paper-maze2d .legend button", has_text="sac").first
    assert curves.count() == 4
    button.focus()
    opened.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    assert curves.count() == 3
    assert opened.locator("#paper-maze2d-profile path.series").count() == 3
    button.click()
    assert curves.count() == 4


def test_drag_wheel_and_keys_zoom_and_reset(opened: Page) -> None:
    figure = opened.locator("#paper-maze2d-curve-1")
    plot = figure.locator("svg")
    before = plot.locator("path.series").first.get_attribute("d")
    drag(opened, plot)
    assert plot.get_attribute("data-zoomed") == "yes"
    assert plot.locator("path.series").first.get_attribute("d") != before
    figure.locator(".reset").click()
    assert plot.get_attribute("data-zoomed") == "no"
    assert plot.locator("path.series").first.get_attribute("d") == before
    plot.click(position={"x": 150, "y": 80})
    opened.mouse.wheel(0, -300)
    opened.wait_for_function("document.querySelector('#paper-maze2d-curve-1 svg').dataset.zoomed === 'yes'")
    plot.dblclick(position={"x": 150, "y": 80})
    assert plot.get_attribute("data-zoomed") == "no"
    opened.keyboard.press("+")
    assert plot.get_attribute("data-zoomed") == "yes"
    opened.keyboard.press("Escape")
    assert plot.get_attribute("data-zoomed") == "no"


def test_the_wheel_scrolls_the_page_until_a_plot_is_clicked(opened: Page) -> None:
    plot = opened.locator("#paper-maze2d-curve-1 svg")
    plot.scroll_into_view_if_needed()
    plot.hover()
    opened.mouse.wheel(0, -300)
    opened.wait_for_timeout(100)
    assert plot.get_attribute("data-zoomed") == "no"


def test_hovering_reads_out_all_methods(opened: Page) -> None:
    plot = opened.locator("#paper-maze2d-curve-0 svg")
    plot.scroll_into_view_if_needed()
    plot.hover(position={"x": 200, "y": 90})
    readout = opened.locator("#paper-maze2d-curve-0 .readout").inner_text()
    assert readout.startswith("update ")
    assert all(name in readout for name in ("gpc-sac", "cql", "iql", "sac", "paper 141.0"))


def test_hovering_says_nothing_of_a_run_that_has_ended(opened: Page) -> None:
    plot = opened.locator("#bins-curve-1 svg")
    plot.scroll_into_view_if_needed()
    readout = opened.locator("#bins-curve-1 .readout")
    box = plot.bounding_box()
    assert box is not None
    for share, told_of in ((0.3, {"bins 5", "bins 15", "bins 30"}), (0.95, {"bins 15", "bins 30"})):
        plot.hover(position={"x": share * box["width"], "y": 90})
        assert {
            name for name in ("bins 5", "bins 15", "bins 30") if f"{name}\n" in readout.inner_text()
        } == told_of


def test_other_figures_and_bands_can_be_chosen(opened: Page) -> None:
    curve = opened.locator("#paper-maze2d-curve-0 path.series").first
    before = curve.get_attribute("d")
    opened.select_option('#paper-maze2d [data-control="metric"]', "critic_loss")
    assert curve.get_attribute("d") != before
    opened.select_option('#paper-maze2d [data-control="metric"]', "headline")
    opened.select_option('#paper-maze2d [data-control="band"]', "seeds")
    assert opened.locator("#paper-maze2d-curve-0 path.seed").count() == 4 * 3
    opened.select_option('#paper-maze2d [data-control="smooth"]', "5")
    assert curve.get_attribute("d") != before


def test_every_button_downloads_the_data_behind_it(
    opened: Page, report_folder: Path, results_file: Path
) -> None:
    buttons = opened.locator("button.save:visible, button[data-table]:visible").all()
    assert len(buttons) > 20
    for button in buttons:
        opened.wait_for_timeout(120)  # Chromium drops downloads beyond ten in a second
        button.focus()
        with opened.expect_download() as caught:
            opened.keyboard.press("Enter")
        lines = list(csv.reader(io.StringIO(Path(caught.value.path()).read_text())))
        assert len(lines) > 1
        assert {len(line) for line in lines} == {len(lines[0])}
        own = report_folder / "tables" / caught.value.suggested_filename
        if button.get_attribute("data-table"):
            expected = list(csv.reader(io.StringIO(own.read_text())))
            assert [list(map(number, line)) for line in lines] == [
                list(map(number, line)) for line in expected
            ]
    opened.wait_for_timeout(120)
    with opened.expect_download() as caught:
        opened.locator("#paper-maze2d-curve-0 .save").click()
    curves = read_csv(Path(caught.value.path()))
    found = {
        (line["method"], int(line["seed"]), int(line["updates"])): float(line["score"]) for line in curves
    }
    rows = [
        row
        for row in read_results(results_file)
        if (row["suite"], row["dataset"]) == ("paper/maze2d", "maze2d-umaze-v1")
    ]
    assert len(found) == len(rows)
    for row in rows:
        assert found[row["algorithm"], row["seed"], row["updates"]] == pytest.approx(row["score"], rel=1e-6)


def number(text: str) -> float | str:
    try:
        return round(float(text), 9) if math.isfinite(float(text)) else text
    except ValueError:
        return text


def test_names_do_not_become_markup(opened: Page) -> None:
    assert opened.evaluate("window.hacked") is None
    assert opened.locator("img").count() == 0
    assert opened.locator("h2", has_text="onerror").inner_text() == HOSTILE


@pytest.mark.parametrize("width", [320, 390, 820])
def test_no_page_is_wider_than_the_window(opened: Page, width: int) -> None:
    opened.set_viewport_size({"width": width, "height": 800})
    opened.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    opened.wait_for_timeout(200)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.evaluate(
        "[...document.querySelectorAll('.canvas svg')].every((svg) => svg.getBoundingClientRect().right <="
        " innerWidth)"
    )


def test_light_and_dark_follow_the_system_and_the_button(opened: Page) -> None:
    def ground() -> str:
        return str(opened.evaluate("getComputedStyle(document.body).backgroundColor"))

    opened.emulate_media(color_scheme="light")
    light = ground()
    opened.emulate_media(color_scheme="dark")
    dark = ground()
    assert dark != light
    opened.locator("#theme").click()
    assert ground() == light
    opened.locator("#theme").click()
    assert ground() == dark


def test_a_picture_of_the_page_is_kept(opened: Page) -> None:
    opened.locator("#paper-maze2d").scroll_into_view_if_needed()
    (ROOT / "build").mkdir(exist_ok=True)
    opened.screenshot(path=ROOT / "build" / "report.png", full_page=True)
    assert (ROOT / "build" / "report.png").stat().st_size > 50_000

"""The report: its tables are the results', its page works in a real browser, and nothing in a name can become markup."""

import csv
import io
import json
import math
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from results_maker import make_results, make_rows

from gridcount.benchmark.store import read_results, write_rows
from gridcount.cli import main
from gridcount.report.experiments import Layout, sections
from gridcount.report.page import all_tables, page
from gridcount.report.table_formats import to_csv, to_latex, to_markdown
from gridcount.report.tables import cost_table, score_table

ROOT = Path(__file__).parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=2>\"'&_$%|"
MEGABYTE = 10**6
PUBLISHED = {"gpc-sac": {"maze2d-umaze-v1": [141.0]}, "pbrl": {"maze2d-umaze-v1": [86.7, 2.0]}}


def headlines(path: Path) -> dict[tuple[str, str, str, str], list[float]]:
    """Each seed's mean of its last three scores, from the file itself: (suite, algorithm, variant, dataset) -> seeds."""
    scores: dict[tuple[str, str, str, str], dict[int, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in read_results(path):
        if "score" in row:
            scores[row["suite"], row["algorithm"], row["variant"], row["dataset"]][row["seed"]].append((row["updates"], row["score"]))
    return {cell: [float(np.mean([v for _, v in sorted(own)[-3:]])) for own in seeds.values()] for cell, seeds in scores.items()}


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def section_of(rows: list[Any], **facts: Any) -> Any:
    name = rows[0]["suite"]
    return sections(rows, {name: Layout(name, "a title", **facts)})[0]


# ---- tables


def test_the_table_has_the_papers_numbers_and_the_differences() -> None:
    section = section_of(make_rows("s", "gpc-sac", "maze2d-umaze-v1", source="d4rl"), published=PUBLISHED)
    table = score_table(section)
    assert table is not None
    assert table.columns == ("dataset", "gpc-sac", "pbrl (paper only)")
    ours, theirs = table.rows[0][1:]
    mean = section.experiments[0].scores.mean
    assert ours.difference == pytest.approx(mean - 141.0)
    assert ours.under == "paper 141.0"
    assert not ours.marked
    assert theirs.text == "86.7 ± 2.0"
    assert dict(table.protocol)["Data"] == "D4RL's own"


def test_a_difference_to_scores_on_other_data_is_marked() -> None:
    table = score_table(section_of(make_rows("s", "gpc-sac", "maze2d-umaze-v1", source="generated"), published=PUBLISHED))
    assert table is not None
    assert table.rows[0][1].marked
    assert "different data" in table.notes[-1]
    assert "†" in to_markdown(table)


def test_a_changed_config_has_a_column_of_its_own() -> None:
    rows = make_rows("s", "sac", "maze2d-umaze-v1") + make_rows("s", "sac", "maze2d-umaze-v1", config={"batch_size": 1024})
    assert section_of(rows).methods == ("sac · batch_size 1024", "sac · batch_size 256")


def test_the_protocol_says_what_differs_and_where() -> None:
    rows = make_rows("s", "sac", "maze2d-umaze-v1", seeds=(0, 1)) + make_rows(
        "s", "sac", "hopper-medium-v2", seeds=(0,), source="re-collected"
    )
    table = score_table(section_of(rows))
    assert table is not None
    told = dict(table.protocol)
    assert told["Seeds"] == "1 (0): hopper-medium-v2; 2 (0, 1): maze2d-umaze-v1"
    assert told["Data"] == "re-collected: hopper-medium-v2; generated: maze2d-umaze-v1"
    assert told["Evaluated"] == "every 5,000 updates, on 20 episodes"
    assert told["Updates"] == "100,000"
    assert told["Preset"] == "fast"


def test_a_run_that_has_not_come_to_its_end_says_so() -> None:
    rows = [row for row in make_rows("s", "sac", "maze2d-umaze-v1") if row["seed"] == 0 or row["updates"] <= 60_000]
    table = score_table(section_of(rows))
    assert table is not None
    assert dict(table.protocol)["Updates"] == "60,000 to 100,000 of 100,000 planned"


def test_aggregates_compare_only_datasets_that_all_methods_have() -> None:
    rows = [row for name in ("a", "b") for row in make_rows("s", name, "maze2d-umaze-v1")] + make_rows("s", "a", "hopper-medium-v2")
    assert section_of(rows).common_datasets() == ("maze2d-umaze-v1",)
    assert {method: len(tasks) for method, tasks in section_of(rows).common().items()} == {"a": 1, "b": 1}


def test_cost_leaves_out_the_interval_that_compiles() -> None:
    table = cost_table(
        section_of(make_rows("s", "sac", "maze2d-umaze-v1", seeds=(0, 1)))
    )  # 2.5 s per 1,000 updates and seed, and 10 s once
    assert table is not None
    assert [entry.text for entry in table.rows[0]] == ["sac", "2", "2.50"]


def test_the_papers_cost_stands_beside_ours() -> None:
    rows = make_rows("s", "sac", "hopper-medium-v2", scored=False)
    table = cost_table(section_of(rows, kind="cost", published={"sac": {"average": [42.1]}}))
    assert table is not None
    assert table.columns[2] == "paper (one GPU)"
    assert table.rows[0][2].text == "42.1"


def test_markup_in_names_is_escaped_in_every_format() -> None:
    rows = make_rows(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    section = section_of(rows, published={HOSTILE: {HOSTILE: [1.0]}})
    for table in all_tables(section):
        assert "\\|" in to_markdown(table)
        assert "<script" not in re.sub(r"\\<", "", to_markdown(table))
        assert "\\_\\$\\%" in to_latex(table)
        assert not re.search(r"(?<!\\)[_%&](?!.*needs)", to_latex(table).replace("% needs", "").replace(" & ", ""))
        assert HOSTILE in {value for line in csv.reader(io.StringIO(to_csv(table))) for value in line}
    text = page([section])
    assert text.count("<script") == 2
    assert "<img" not in text


def test_suites_order_tables_and_numbers_in_names_count_as_numbers() -> None:
    rows = [row for name in ("bins 30", "bins 5", "bins 15") for row in make_rows("s", "sac", "hopper-medium-v2", name)]
    assert section_of(rows).methods == ("sac · bins 5", "sac · bins 15", "sac · bins 30")
    assert section_of(rows, variants=("bins 15", "bins 30", "bins 5")).methods == ("sac · bins 15", "sac · bins 30", "sac · bins 5")


def test_a_hundred_runs_of_a_thousand_evaluations_stay_under_eight_megabytes() -> None:
    rows = [row for i in range(50) for row in make_rows("s", f"a{i % 5}", f"d{i // 5}", seeds=(0, 1), evaluations=1000)]
    assert len(rows) == 100 * 1000
    assert len(page(sections(rows, {})).encode()) < 8 * MEGABYTE


# ---- the command


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results file as `benchmark` leaves it."""
    return write_rows(tmp_path_factory.mktemp("results") / "results.parquet", make_results(HOSTILE))


@pytest.fixture(scope="module")
def made(results: Path) -> Path:
    """The report of it."""
    assert main(["report", str(results)]) == 0
    return results.parent / "report"


def test_the_folder_has_the_page_the_tables_and_the_figures(made: Path) -> None:
    names = {path.name for path in made.rglob("*") if path.is_file()}
    tables = {
        f"paper-maze2d-{table}.{kind}"
        for table in ("scores", "oracle", "aggregates", "improvement", "cost")
        for kind in ("md", "tex", "csv")
    }
    figures = {f"{name}.{kind}" for name in ("paper-maze2d-curves", "bins-ablation", "paper-maze2d-profile") for kind in ("png", "pdf")}
    assert {"report.html"} | tables | figures <= names
    assert not any(name.endswith(".partial") for name in names)


def test_the_csv_has_the_results_numbers(made: Path, results: Path) -> None:
    expected = headlines(results)
    lines = read_csv(made / "tables" / "paper-maze2d-scores.csv")
    ours = [line for line in lines if line["mean"]]
    assert len(ours) == 12
    for line in ours:
        seeds = expected["paper/maze2d", line["algorithm"], "", line["dataset"]]
        assert float(line["mean"]) == pytest.approx(np.mean(seeds))
        assert float(line["std"]) == pytest.approx(np.std(seeds))


def test_plain_runs_are_reported_too(tmp_path: Path) -> None:
    for name, seeds, pessimism in (("one", [0, 1], 0.2), ("more", [2], 0.2), ("other", [0], 0.4)):
        plan: dict[str, Any] = {
            "dataset": "maze2d-umaze-v1",
            "environment": None,
            "algorithm": "gpc-sac",
            "fields": {"pessimism": pessimism},
        }
        plan |= {"seeds": seeds, "updates": 20, "evaluate_every": 10, "episodes": 2, "fingerprint": "abc"}
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.json").write_text(json.dumps(plan))
        rows = [{"updates": update, "seed": seed, "score": float(seed)} for update in (10, 20) for seed in seeds]
        (tmp_path / "runs" / name / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--no-figures"]) == 0
    lines = read_csv(tmp_path / "out" / "tables" / "runs-scores.csv")
    assert {line["method"]: (line["seeds"], line["mean"]) for line in lines} == {
        "gpc-sac · pessimism 0.2": ("3", "1.0"),
        "gpc-sac · pessimism 0.4": ("1", "0.0"),
    }
    assert not (tmp_path / "out" / "figures").exists()


def test_a_users_suite_file_gives_title_and_published_numbers(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'title = "My table"\ndatasets = ["maze2d-umaze-v1"]\nalgorithms = ["sac"]\n[published.sac]\nmaze2d-umaze-v1 = [12.5]\n'
    )
    results = write_rows(tmp_path / "results.parquet", make_rows("mine", "sac", "maze2d-umaze-v1"))
    assert main(["report", str(results), "--suite", str(tmp_path / "mine.toml"), "--no-figures"]) == 0
    text = (tmp_path / "report" / "report.html").read_text()
    assert "My table" in text
    assert "paper 12.5" in text


def test_what_is_not_results_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "neither results" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "absent")]) == 2
    assert "no such file" in capsys.readouterr().err
    assert main(["report"]) == 2
    assert "name the results" in capsys.readouterr().err


# ---- the page in a browser


def find_browser() -> str:
    """A Chromium. Whoever could have installed it by `make browser` fails without it; anybody else is told what was not tested."""
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
def opened(browser: Browser, made: Path) -> Iterator[Page]:
    """The page in a window; at the end it has told no error and asked the network for nothing."""
    window = browser.new_page(viewport={"width": 1200, "height": 900})
    problems: list[str] = []
    window.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    window.on("pageerror", lambda error: problems.append(str(error)))
    window.on(
        "request", lambda request: problems.append(request.url) if request.url.split(":")[0] not in ("file", "data", "blob") else None
    )
    window.goto((made / "report.html").as_uri())
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


def test_tables_match_the_results_file(opened: Page, results: Path) -> None:
    expected = headlines(results)
    heads = [cell.inner_text() for cell in opened.locator("#paper-maze2d-scores-table thead th").all()]
    lines = opened.locator("#paper-maze2d-scores-table tbody tr").all()
    assert len(lines) == 4
    for line in lines[:-1]:
        dataset = line.locator("th").inner_text()
        for algorithm, cell in zip(heads[1:], line.locator("td").all(), strict=True):
            if (seeds := expected.get(("paper/maze2d", algorithm, "", dataset))) is not None:
                assert cell.inner_text().split("\n")[0] == f"{np.mean(seeds):.1f} ± {np.std(seeds):.1f}"
    umaze = (
        opened.locator("#paper-maze2d-scores-table tbody tr", has_text="umaze").locator("td").nth(heads.index("gpc-sac") - 1).inner_text()
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
    told = opened.locator("#paper-maze2d-curve-0 .readout").inner_text()
    assert told.startswith("update ")
    assert all(name in told for name in ("gpc-sac", "cql", "iql", "sac", "paper 141.0"))


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


def test_every_button_downloads_the_data_behind_it(opened: Page, made: Path, results: Path) -> None:
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
        own = made / "tables" / caught.value.suggested_filename
        if button.get_attribute("data-table"):
            expected = list(csv.reader(io.StringIO(own.read_text())))
            assert [list(map(number, line)) for line in lines] == [list(map(number, line)) for line in expected]
    opened.wait_for_timeout(120)
    with opened.expect_download() as caught:
        opened.locator("#paper-maze2d-curve-0 .save").click()
    curves = read_csv(Path(caught.value.path()))
    found = {(line["method"], int(line["seed"]), int(line["updates"])): float(line["score"]) for line in curves}
    rows = [row for row in read_results(results) if (row["suite"], row["dataset"]) == ("paper/maze2d", "maze2d-umaze-v1")]
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
    assert opened.evaluate("[...document.querySelectorAll('.canvas svg')].every((svg) => svg.getBoundingClientRect().right <= innerWidth)")


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

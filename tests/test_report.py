"""The report: its tables are the results', in every format, and nothing in a name can become markup."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from results_maker import HOSTILE, headlines, make_rows, read_csv, section_of

from gridcount.benchmark.store import write_rows
from gridcount.cli import main
from gridcount.report.cost_table import cost_table
from gridcount.report.experiments import Layout
from gridcount.report.figures import draw_curves
from gridcount.report.page import page
from gridcount.report.plain_runs import rows_of_runs
from gridcount.report.score_tables import score_table
from gridcount.report.sections import sections
from gridcount.report.table_formats import to_csv, to_latex, to_markdown
from gridcount.report.tables import all_tables
from gridcount.training.results import Costs, Facts, Place, column_names, is_metric

MEGABYTE = 10**6
PUBLISHED = {"gpc-sac": {"maze2d-umaze-v1": [141.0]}, "pbrl": {"maze2d-umaze-v1": [86.7, 2.0]}}


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
    table = score_table(
        section_of(make_rows("s", "gpc-sac", "maze2d-umaze-v1", source="generated"), published=PUBLISHED)
    )
    assert table is not None
    assert table.rows[0][1].marked
    assert "different data" in table.notes[-1]
    assert "†" in to_markdown(table)


def test_a_changed_config_has_a_column_of_its_own() -> None:
    rows = make_rows("s", "sac", "maze2d-umaze-v1") + make_rows(
        "s", "sac", "maze2d-umaze-v1", config={"batch_size": 1024}
    )
    assert section_of(rows).methods == ("sac · batch_size 1024", "sac · batch_size 256")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"every": 10_000, "evaluations": 10},
            ("sac · evaluated every 10,000", "sac · evaluated every 5,000"),
        ),
        (
            {"facts": {"environment": "my:Maze-v0"}},
            ("sac · scored in my:Maze-v0", "sac · the dataset's own environment"),
        ),
    ],
)
def test_runs_that_were_scored_differently_are_told_apart_by_that(
    changes: dict[str, Any], named: tuple[str, ...]
) -> None:
    facts = {"key": "sac--another"} | changes.pop("facts", {})
    rows = make_rows("s", "sac", "maze2d-umaze-v1") + [
        row | facts for row in make_rows("s", "sac", "maze2d-umaze-v1", **changes)
    ]
    assert section_of(rows).methods == named


def test_one_more_setting_on_one_dataset_leaves_the_usual_one_its_column_and_its_statistics() -> None:
    datasets = ("maze2d-umaze-v1", "maze2d-medium-v1", "maze2d-large-v1")
    rows = [
        row for name in ("sac", "gpc-sac") for dataset in datasets for row in make_rows("s", name, dataset)
    ]
    rows += make_rows("s", "gpc-sac", "maze2d-umaze-v1", config={"hidden": [256, 256, 256]})
    section = section_of(rows)
    assert set(section.methods) == {"sac", "gpc-sac", "gpc-sac · hidden 256x256x256"}
    assert set(section.common_datasets()) == set(datasets)
    assert set(section.common()) == {"sac", "gpc-sac"}
    table = next(table for table in all_tables(section) if table.name == "aggregates")
    assert any(
        "fewer than half of the datasets: gpc-sac · hidden 256x256x256" in note for note in table.notes
    )


def test_a_preset_that_differs_by_dataset_stays_one_method_beside_another_size_of_network() -> None:
    bins = {"maze2d-umaze-v1": 15, "maze2d-medium-v1": 11, "maze2d-large-v1": 10}
    rows = [
        row
        for dataset, count in bins.items()
        for row in make_rows("s", "gpc-sac", dataset, config={"state_bins": count})
    ]
    rows += [
        row | {"preset": "paper"}
        for row in make_rows("s", "gpc-sac", "maze2d-umaze-v1", config={"hidden": [256, 256, 256]})
    ]
    section = section_of(rows)
    assert set(section.common_datasets()) == set(bins)
    assert set(section.common()) == {"gpc-sac"}
    assert {each.dataset for each in section.experiments if each.method == "gpc-sac"} == set(bins)
    assert section.methods == ("gpc-sac", "gpc-sac · preset paper")


def test_the_papers_number_stands_where_ours_is_not_measured_yet() -> None:
    published = {"iql": {"maze2d-umaze-v1": [46.9], "maze2d-large-v1": [64.2]}}
    rows = [row for dataset in published["iql"] for row in make_rows("s", "gpc-sac", dataset)] + make_rows(
        "s", "iql", "maze2d-umaze-v1"
    )
    table = score_table(section_of(rows, published=published))
    assert table is not None
    texts = {line[0].text: line[table.columns.index("iql")] for line in table.rows}
    assert (texts["maze2d-large-v1"].plain(), texts["maze2d-large-v1"].muted) == ("paper 64.2", True)
    assert not texts["maze2d-umaze-v1"].muted
    assert texts["average"].plain() == ""


def test_a_single_evaluation_is_called_that_and_has_no_cost() -> None:
    section = section_of(make_rows("s", "sac", "maze2d-umaze-v1", evaluations=1))
    table = score_table(section)
    assert table is not None
    assert table.title.startswith("Scores: the only evaluation")
    assert cost_table(section) is None  # its one interval also compiled


def test_the_protocol_says_what_differs_and_where() -> None:
    rows = make_rows("s", "sac", "maze2d-umaze-v1", seeds=(0, 1)) + make_rows(
        "s", "sac", "hopper-medium-v2", seeds=(0,), source="re-collected"
    )
    table = score_table(section_of(rows))
    assert table is not None
    stated = dict(table.protocol)
    assert stated["Seeds"] == "1 (0): hopper-medium-v2; 2 (0, 1): maze2d-umaze-v1"
    assert stated["Data"] == "re-collected: hopper-medium-v2; generated: maze2d-umaze-v1"
    assert stated["Evaluated"] == "every 5,000 updates, on 20 episodes"
    assert stated["Updates"] == "100,000"
    assert stated["Preset"] == "fast"


def test_seeds_that_are_missing_in_one_cell_are_told_and_its_dataset_weighs_no_less() -> None:
    rows = [
        row for dataset in ("maze2d-umaze-v1", "maze2d-large-v1") for row in make_rows("s", "sac", dataset)
    ]
    rows += make_rows("s", "cql", "maze2d-umaze-v1") + make_rows("s", "cql", "maze2d-large-v1", seeds=(0,))
    tables = {table.name: table for table in all_tables(section_of(rows))}
    assert (
        dict(tables["scores"].protocol)["Seeds"]
        == "1 (0): cql on maze2d-large-v1; 3 (0 to 2): cql on maze2d-umaze-v1, sac"
    )
    average = next(line for line in tables["scores"].rows if line[0].text == "average")[
        tables["scores"].columns.index("cql")
    ]
    mean = next(line for line in tables["aggregates"].rows if line[0].text == "cql")[
        tables["aggregates"].columns.index("mean")
    ]
    assert mean.text == average.text
    assert any("have the same weight" in note for note in tables["aggregates"].notes)


def test_a_run_that_has_not_come_to_its_end_says_so() -> None:
    rows = [
        row
        for row in make_rows("s", "sac", "maze2d-umaze-v1")
        if row["seed"] == 0 or row["updates"] <= 60_000
    ]
    table = score_table(section_of(rows))
    assert table is not None
    assert dict(table.protocol)["Updates"] == "60,000 to 100,000 of 100,000 planned"


def test_the_interval_is_told_where_the_last_evaluation_comes_early() -> None:
    rows = [row for row in make_rows("s", "sac", "maze2d-umaze-v1", evaluations=2) if row["updates"] == 5000]
    table = score_table(section_of([*rows, *(row | {"updates": 7000} for row in rows)]))
    assert table is not None
    assert dict(table.protocol)["Evaluated"] == "every 5,000 updates, on 20 episodes"


def test_what_holds_over_datasets_is_told_of_those_alone() -> None:
    rows = [row for name in ("a", "b") for row in make_rows("s", name, "maze2d-umaze-v1")]
    table = next(
        t
        for t in all_tables(section_of(rows + make_rows("s", "a", "hopper-medium-v2", seeds=(7,))))
        if t.name == "aggregates"
    )
    assert dict(table.protocol)["Seeds"] == "3 (0 to 2)"


def test_a_log_without_an_environment_has_curves_and_is_named_where_others_are_scored() -> None:
    alone = section_of([row | {"in_log": 0.5} for row in make_rows("s", "gpc-sac", "reactor", scored=False)])
    assert "<h3>Learning curves</h3>" in page([alone])
    assert "normalised score</option>" not in page([alone])
    drawn = draw_curves(alone)
    assert drawn is not None
    assert drawn.axes[0].get_ylabel() == "share of actions in the log"
    both = section_of(
        [*make_rows("s", "gpc-sac", "reactor", scored=False), *make_rows("s", "gpc-sac", "maze2d-umaze-v1")]
    )
    table = score_table(both)
    assert table is not None
    assert table.notes[-1] == "Not scored: reactor."


def test_one_experiment_under_two_names_is_refused() -> None:
    rows = make_rows("s", "sac", "maze2d-umaze-v1", "careful")
    with pytest.raises(ValueError, match="called 'careful' in some of the results and 'bold' in others"):
        section_of([row | {"variant": "bold"} if row["seed"] == 1 else row for row in rows])


def test_aggregates_compare_only_datasets_that_all_methods_have() -> None:
    rows = [row for name in ("a", "b") for row in make_rows("s", name, "maze2d-umaze-v1")] + make_rows(
        "s", "a", "hopper-medium-v2"
    )
    assert section_of(rows).common_datasets() == ("maze2d-umaze-v1",)
    assert {method: len(tasks) for method, tasks in section_of(rows).common().items()} == {"a": 1, "b": 1}


def test_cost_leaves_out_the_interval_that_compiles() -> None:
    # 2.5 s per 1,000 updates and seed, and 10 s once
    table = cost_table(section_of(make_rows("s", "sac", "maze2d-umaze-v1", seeds=(0, 1))))
    assert table is not None
    assert [entry.text for entry in table.rows[0]] == ["sac", "2", "2.50"]


def test_seeds_that_had_several_cores_stand_in_a_line_of_their_own() -> None:
    rows = make_rows("s", "sac", "maze2d-umaze-v1", seeds=(0, 1)) + [
        row | {"cores_used": 8} for row in make_rows("s", "sac", "maze2d-medium-v1", seeds=(0, 1))
    ]
    table = cost_table(section_of(rows))
    assert table is not None
    assert {row[1].text for row in table.rows} == {"2", "2 on 2 cores"}


def test_memory_is_that_of_the_seeds_that_shared_it() -> None:
    alone = [row | {"gigabytes": 1.0} for row in make_rows("s", "sac", "maze2d-umaze-v1", seeds=(0,))]
    shared = [row | {"gigabytes": 5.0} for row in make_rows("s", "sac", "maze2d-umaze-v1", seeds=(1, 2))]
    table = cost_table(section_of(alone + shared))
    assert table is not None
    assert {row[1].text: row[-1].text for row in table.rows} == {"1": "1.0", "2": "5.0"}


def test_a_pause_of_the_machine_is_no_cost() -> None:
    rows = [
        row | {"seconds": row["seconds"] + (600 if row["updates"] >= 50_000 else 0)}
        for row in make_rows("s", "sac", "maze2d-umaze-v1")
    ]
    table = cost_table(section_of(rows))
    assert table is not None
    assert table.rows[0][-1].text == "2.50"


def test_the_papers_cost_stands_beside_ours() -> None:
    rows = make_rows("s", "sac", "hopper-medium-v2", scored=False)
    rows = [row | {"gigabytes": 0.5 + row["updates"] / 1e6} for row in rows]
    table = cost_table(section_of(rows, kind="cost", published={"sac": {"average": [42.1, 1.3]}}))
    assert table is not None
    assert table.columns[2:] == ("paper (one GPU)", "hopper-medium-v2", "GB")
    assert [entry.text for entry in table.rows[0][2:]] == ["42.1 (1.3 GB)", "2.50", "0.6"]


def test_one_setting_of_each_of_two_algorithms_is_a_table_and_two_of_one_are_an_ablation() -> None:
    names = ("sac", "gpc-sac")
    one = [row for name in names for row in make_rows("s", name, "maze2d-umaze-v1", "wide")]
    assert "ablation" not in {table.name for table in all_tables(section_of(one))}
    two = one + make_rows("s", "sac", "maze2d-umaze-v1", "narrow", config={"hidden": [8]})
    assert "ablation" in {table.name for table in all_tables(section_of(two))}


def test_tables_beside_a_paper_come_first_and_ablations_after_the_others() -> None:
    rows = [row for name in ("a", "b", "c", "runs") for row in make_rows(name, "sac", "maze2d-umaze-v1")]
    layouts = {
        "a": Layout("a", "an ablation", kind="ablation"),
        "b": Layout("b", "scores"),
        "c": Layout("c", "a paper's", published={"sac": {"maze2d-umaze-v1": [1.0]}}),
    }
    assert [section.layout.name for section in sections(rows, layouts)] == ["c", "b", "a", "runs"]


def test_a_seed_that_diverged_is_counted_and_told() -> None:
    how = {"diverged": "metric 'critic_loss' became inf after update 50,000"}
    rows = [
        row | (how if row["seed"] == 1 else {})
        for row in make_rows("s", "sac", "maze2d-umaze-v1")
        if row["seed"] != 1 or row["updates"] < 5e4
    ]
    lost = [
        row | how
        for row in make_rows("s", "sac", "hopper-medium-v2", scored=False, seeds=(0,), evaluations=1)
    ]
    table = score_table(section_of(rows + lost))
    assert table is not None
    texts = {line[0].text: line[1].plain() for line in table.rows}
    assert "1 of 3 diverged" in texts["maze2d-umaze-v1"]
    assert texts["hopper-medium-v2"] == "diverged"
    for each in all_tables(section_of(rows + lost)):
        assert any("seed 1: metric 'critic_loss' became inf" in note for note in each.notes), each.name


def test_a_seed_that_diverged_before_it_was_scored_is_not_among_the_seeds_of_a_score() -> None:
    rows = make_rows("s", "sac", "maze2d-umaze-v1", seeds=range(5))
    lost = {
        name: value
        for name, value in rows[0].items()
        if name not in ("score", "return", "success", "seconds")
    }
    rows = [row for row in rows if row["seed"]] + [lost | {"updates": 0, "diverged": "at once"}]
    tables = {table.name: table for table in all_tables(section_of(rows))}
    assert dict(tables["scores"].protocol)["Seeds"] == "4 (1 to 4)"
    assert any("fewer than 5 seeds" in note for note in tables["aggregates"].notes)


def test_markup_in_names_is_escaped_in_every_format() -> None:
    rows = make_rows(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    section = section_of(rows, published={HOSTILE: {HOSTILE: [1.0]}})
    for table in all_tables(section):
        assert "\\|" in to_markdown(table)
        assert "<script" not in re.sub(r"\\<", "", to_markdown(table))
        assert "\\_\\$\\%" in to_latex(table)
        assert not re.search(
            r"(?<!\\)[_%&](?!.*needs)", to_latex(table).replace("% needs", "").replace(" & ", "")
        )
        assert HOSTILE in {value for line in csv.reader(io.StringIO(to_csv(table))) for value in line}
    text = page([section])
    assert text.count("<script") == 2
    assert "<img" not in text


def test_suites_order_tables_and_numbers_in_names_count_as_numbers() -> None:
    rows = [
        row
        for name in ("bins 30", "bins 5", "bins 15")
        for row in make_rows("s", "sac", "hopper-medium-v2", name)
    ]
    assert section_of(rows).methods == ("sac · bins 5", "sac · bins 15", "sac · bins 30")
    assert section_of(rows, variants=("bins 15", "bins 30", "bins 5")).methods == (
        "sac · bins 15",
        "sac · bins 30",
        "sac · bins 5",
    )


def test_a_hundred_runs_of_a_thousand_evaluations_stay_under_eight_megabytes() -> None:
    rows = [
        row
        for i in range(50)
        for row in make_rows("s", f"a{i % 5}", f"d{i // 5}", seeds=(0, 1), evaluations=1000)
    ]
    assert len(rows) == 100 * 1000
    assert len(page(sections(rows, {})).encode()) < 8 * MEGABYTE


# ---- the command


def test_the_folder_has_the_page_the_tables_and_the_figures(report_folder: Path) -> None:
    names = {path.name for path in report_folder.rglob("*") if path.is_file()}
    tables = {
        f"paper-maze2d-{table}.{kind}"
        for table in ("scores", "oracle", "aggregates", "improvement", "cost")
        for kind in ("md", "tex", "csv")
    }
    drawn = (
        *(f"paper-maze2d-{name}" for name in ("curves", "aggregates", "profile", "improvement")),
        "bins-ablation",
    )
    figures = {f"{name}.{kind}" for name in drawn for kind in ("png", "pdf")}
    assert {"report.html"} | tables | figures <= names
    assert not any(name.endswith(".partial") for name in names)


def test_the_csv_has_the_results_numbers(report_folder: Path, results_file: Path) -> None:
    expected = headlines(results_file)
    lines = read_csv(report_folder / "tables" / "paper-maze2d-scores.csv")
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
        rows = [
            {"updates": update, "seed": seed, "score": float(seed)} for update in (10, 20) for seed in seeds
        ]
        (tmp_path / "runs" / name / "metrics.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows)
        )
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--no-figures"]) == 0
    lines = read_csv(tmp_path / "out" / "tables" / "runs-scores.csv")
    assert {line["method"]: (line["seeds"], line["mean"]) for line in lines} == {
        "gpc-sac · pessimism 0.2": ("3", "1.0"),
        "gpc-sac · pessimism 0.4": ("1", "0.0"),
    }
    assert not (tmp_path / "out" / "figures").exists()


def test_a_plain_run_has_the_preset_and_the_environment_of_a_cell(tmp_path: Path) -> None:
    plan: dict[str, Any] = {
        "dataset": "log.csv",
        "environment": "Hopper-v4",
        "algorithm": "sac",
        "fields": {},
    }
    plan |= {"seeds": [0], "updates": 10, "evaluate_every": 10, "episodes": 2, "fingerprint": "abc"}
    keys = set()
    for preset in ("", "fast"):  # the first as older versions recorded it
        place = tmp_path / f"run{preset}"
        place.mkdir()
        (place / "config.json").write_text(json.dumps(plan | ({"preset": preset} if preset else {})))
        (place / "metrics.jsonl").write_text(json.dumps({"updates": 10, "seed": 0, "score": 1.0}) + "\n")
        (row,) = rows_of_runs([place])
        assert (row["preset"], row["environment"]) == (preset or None, "Hopper-v4")
        keys.add(row["key"])
    assert len(keys) == 1  # a preset's name describes an experiment and does not make another one


def test_a_new_fact_of_a_run_is_no_curve() -> None:
    for column in column_names(Facts, Costs, Place):
        assert not is_metric(column, 1.0)
    assert is_metric("return", 1.0)
    assert is_metric("critic_loss", 1.0)
    assert not is_metric("in_log_expected", 1.0)


def test_the_same_run_three_times_is_three_experiments(tmp_path: Path) -> None:
    plan: dict[str, Any] = {
        "dataset": "maze2d-umaze-v1",
        "environment": None,
        "algorithm": "sac",
        "fields": {},
        "seeds": [0],
        "updates": 10,
    }
    plan |= {"evaluate_every": 10, "episodes": 2, "fingerprint": "abc"}
    places = [tmp_path / machine / "umaze" for machine in ("laptop", "server", "cluster")]
    for score, place in enumerate(places):
        place.mkdir(parents=True)
        (place / "config.json").write_text(json.dumps(plan))
        (place / "metrics.jsonl").write_text(
            json.dumps({"updates": 10, "seed": 0, "score": float(score)}) + "\n"
        )
    assert main(["report", *map(str, places), "--out", str(tmp_path / "out"), "--no-figures"]) == 0
    lines = read_csv(tmp_path / "out" / "tables" / "runs-scores.csv")
    assert sorted((line["seeds"], line["mean"]) for line in lines) == [
        ("1", "0.0"),
        ("1", "1.0"),
        ("1", "2.0"),
    ]


def test_a_users_suite_file_gives_title_and_published_numbers(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'title = "My table"\ndatasets = ["maze2d-umaze-v1"]\nalgorithms ='
        ' ["sac"]\n[published.sac]\nmaze2d-umaze-v1 = [12.5]\n'
    )
    results = write_rows(tmp_path / "results.parquet", make_rows("mine", "sac", "maze2d-umaze-v1"))
    assert main(["report", str(results), "--suite", str(tmp_path / "mine.toml"), "--no-figures"]) == 0
    text = (tmp_path / "report" / "report.html").read_text()
    assert "My table" in text
    assert "paper 12.5" in text


def test_a_suite_file_that_the_results_are_not_of_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "renamed.toml").write_text(
        'title = "t"\ndatasets = ["maze2d-umaze-v1"]\nalgorithms = ["sac"]\n'
    )
    results = write_rows(tmp_path / "results.parquet", make_rows("mine", "sac", "maze2d-umaze-v1"))
    assert main(["report", str(results), "--suite", str(tmp_path / "renamed.toml"), "--no-figures"]) == 2
    assert "no suite of this name; they have mine" in capsys.readouterr().err


def test_what_is_not_results_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "neither results" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "absent")]) == 2
    assert "no such file" in capsys.readouterr().err
    assert main(["report"]) == 2
    assert "name the results" in capsys.readouterr().err

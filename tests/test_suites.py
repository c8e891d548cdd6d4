"""Suites: what their files say, what is refused in them, and which cells they make."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from gridcount.algorithms import ALGORITHMS, make_algorithm
from gridcount.benchmark.suites import Suite, Variant, narrow, read_suite, suite_names
from gridcount.cli import main
from gridcount.commands.benchmark import Benchmark, _narrowed
from gridcount.paper import PAPER
from gridcount.training.plan import settings


def test_every_suite_that_comes_along_can_be_read_and_names_the_paper_s_cells() -> None:
    suites = {name: read_suite(name) for name in suite_names()}
    assert {"paper/gym", "paper/maze2d", "paper/adroit", "paper/cost"} <= suites.keys()
    scored = {dataset for name in ("gym", "maze2d", "adroit") for dataset in suites[f"paper/{name}"].datasets}
    assert scored == set(PAPER)
    assert len(suites["paper/gym"].cells()) == 15 * 7
    for suite in suites.values():
        assert suite.cells()
        assert set(suite.published) <= set(suite.algorithms)
        assert {dataset for table in suite.published.values() for dataset in table} <= {
            *suite.datasets,
            "average",
        }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('algorithms = ["gpc-sad"]', "gpc-sac"),
        ('datasets = ["maze2d-umaze-v9"]', "maze2d-umaze-v1"),
        ('titel = "x"', "title"),
        ("algorithm_fields = { sca = { hidden = [8] } }", "sac"),
        ("algorithm_fields = { sac = { hiden = [8] } }", "hidden"),
        (
            "algorithm_fields = { iql = { hidden = [8] } }",
            "unknown algorithm of this suite in [algorithm_fields] 'iql'",
        ),
        ("fields = ", "not a TOML file"),
        ("fields = { hiden = [8] }", "hidden"),
        ("fields = [1]", "'fields' is [1]; it must be a table"),
        ('seeds = "3"', "'seeds' is '3'; it must be a whole number"),
        ("updates = 1e5", "it must be a whole number"),
        ('scored = "no"', "it must be true or false"),
        ('datasets = "maze2d-umaze-v1"', "it must be a list"),
        ('datasets = ["maze2d-umaze-v1", "maze2d-umaze-v1"]', "is listed twice"),
        ('data = { maze2d-umaze = "a.hdf5" }', "maze2d-umaze-v1"),
        ("environments = { maze2d-umaze-v1 = 3 }", "it must be text"),
        ("published = { sac = { maze2d-umaze = [1.0] } }", "maze2d-umaze-v1"),
        ("published = { sac = { maze2d-umaze-v1 = 1.0 } }", "[MEAN, SPREAD]"),
        ("published = { sac = 1.0 }", "[MEAN, SPREAD]"),
        ("published = { sac = { maze2d-umaze-v1 = [nan] } }", "[MEAN, SPREAD]"),
        ("published = { sac = { maze2d-umaze-v1 = [true] } }", "[MEAN, SPREAD]"),
        ('environments = { maze2d-umaze-v1 = "no_such_module:Task-v0" }', "[environments] maze2d-umaze-v1: "),
        ('variants = [{ name = "a", feilds = {} }]', "fields"),
        ("variants = [1]", "a variant is 1"),
        ("variants = []", "'variants' is empty"),
        ("algorithm_fields = { sac = 3 }", "[algorithm_fields] sac is 3; it must be a table"),
        ("fields = { hidden = 64 }", "--hidden is 64; it must be a list of whole numbers"),
        ("fields = { hidden = [64.5] }", "it must be a list of whole numbers"),
        ("fields = { batch_size = 2.5 }", "--batch-size is 2.5; it must be a whole number"),
        ("fields = { batch_size = true }", "it must be a whole number"),
        ("fields = { discount = [0.9, 0.99] }", "it must be a number"),
        ('fields = { layer_norm = "yes" }', "--layer-norm is 'yes'; it must be true or false"),
        ("fields = { layer_norm = 1 }", "it must be true or false"),
        ('kind = "scatter"', "ablation"),
        ('variants = [{ name = "a" }, { name = "a" }]', "two variants are called 'a'"),
        (
            'variants = [{ name = "a" }, { name = "b", fields = { discount = 0.99 } }]',
            "the variants 'a' and 'b' are the same experiment: sac",
        ),
    ],
)
def test_a_wrong_suite_file_is_refused_with_the_way_out(
    change: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = {
        "title": 'title = "t"',
        "datasets": 'datasets = ["maze2d-umaze-v1"]',
        "algorithms": 'algorithms = ["sac"]',
    }
    lines[change.split(" =")[0]] = change
    (tmp_path / "mine.toml").write_text("\n".join(lines.values()))
    assert main(["benchmark", str(tmp_path / "mine.toml")]) == 2
    error = capsys.readouterr().err
    assert "mine.toml" in error
    assert message in error


def test_variants_that_a_preset_makes_the_same_are_refused() -> None:
    """The fast preset of a maze has LayerNorm, so leaving it out is a variant; the paper's has none."""
    suite = Suite(
        "s",
        "t",
        ("maze2d-umaze-v1",),
        ("sac",),
        preset="fast",
        variants=(Variant("a"), Variant("b", {"layer_norm": False})),
    )
    assert len(narrow(suite)) == 2
    with pytest.raises(
        ValueError, match="'a' and 'b' are the same experiment: sac on maze2d-umaze-v1, preset paper"
    ):
        narrow(replace(suite, preset="paper"))


def test_fields_can_change_for_every_algorithm_or_for_one() -> None:
    suite = Suite(
        "s",
        "t",
        ("maze2d-umaze-v1",),
        ("bc", "iql"),
        fields={"hidden": [8], "expectile": 0.8},
        algorithm_fields={"iql": {"hidden": [9]}},
    )
    bc, iql = suite.cells()
    assert bc.plan.fields == settings(make_algorithm("bc", "maze2d-umaze-v1", "paper", hidden=(8,)))
    assert iql.plan.fields["hidden"] == (9,)
    assert iql.plan.fields["expectile"] == 0.8


def test_what_falls_over_a_run_falls_over_the_run_that_is_asked_for() -> None:
    suite = Suite("s", "t", ("maze2d-umaze-v1",), ("iql",), preset="fast", updates=200_000)
    assert suite.cells()[0].plan.fields["schedule_updates"] == 200_000
    assert narrow(suite, scale=0.1)[0].plan.fields["schedule_updates"] == 20_000
    short = narrow(replace(suite, updates=2000), scale=0.3)[0]
    assert short.updates == short.plan.fields["schedule_updates"] == 1000
    assert replace(suite, fields={"schedule_updates": 7}).cells()[0].plan.fields["schedule_updates"] == 7


def test_a_run_is_as_long_as_asked_for_and_is_evaluated_on_the_way() -> None:
    suite = Suite("s", "t", ("maze2d-umaze-v1",), ("sac",), updates=2000)
    assert (suite.cells()[0].updates, suite.cells()[0].plan.evaluate_every) == (2000, 400)
    assert [(cell.updates, cell.plan.evaluate_every) for cell in replace(suite, updates=7000).cells()] == [
        (7000, 5000)
    ]
    assert replace(suite, evaluate_every=2000).cells()[0].plan.evaluate_every == 2000  # once, at the end


def test_a_suite_in_yaml_is_told_what_a_suite_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", str(tmp_path / "mine.yaml")]) == 2
    assert "TOML" in capsys.readouterr().err


def test_the_suites_in_the_docs_can_be_run(tmp_path: Path) -> None:
    blocks = re.findall(
        r"```toml\n(.*?)```", (Path(__file__).parent.parent / "docs" / "benchmark.md").read_text(), re.DOTALL
    )
    assert len(blocks) == 2
    for block in blocks:
        (tmp_path / "mine.toml").write_text(block)
        assert read_suite(str(tmp_path / "mine.toml")).cells()


def test_a_field_that_came_later_leaves_older_results_what_they_are() -> None:
    cell = Suite("s", "t", ("maze2d-umaze-v1",), ("gpc-sac",), preset="fast").cells()[0]
    assert "normalise" not in settings(make_algorithm("gpc-sac", "maze2d-umaze-v1", "fast"))
    assert settings(make_algorithm("gpc-sac", "hopper-medium-v2", "fast"))["normalise"] is True
    assert cell.changed(fields=cell.plan.fields | {"normalise": False}).key() == cell.key()
    assert cell.changed(fields=cell.plan.fields | {"normalise": True}).key() != cell.key()


def test_a_suite_with_the_name_of_one_that_comes_along_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ablation-prior.toml").write_text(
        'title = "mine"\ndatasets = ["maze2d-umaze-v1"]\nalgorithms = ["sac"]\n'
    )
    with pytest.raises(
        ValueError, match="already includes a suite 'ablation-prior'; give yours another name"
    ):
        read_suite(str(tmp_path / "ablation-prior.toml"))
    (tmp_path / "ablation-prior.toml").rename(
        tmp_path / "paper-maze2d.toml"
    )  # what the files of paper/maze2d are named after
    with pytest.raises(ValueError, match="already includes a suite 'paper/maze2d'"):
        read_suite(str(tmp_path / "paper-maze2d.toml"))


def test_files_of_a_suite_are_found_beside_it(maze_file: Path, tmp_path: Path) -> None:
    (tmp_path / "log.hdf5").write_bytes(maze_file.read_bytes())
    text = 'title = "t"\ndatasets = ["maze2d-umaze-v1"]\nalgorithms = ["sac"]\n[data]\nmaze2d-umaze-v1 = "log.hdf5"\n'
    (tmp_path / "mine.toml").write_text(text)
    assert read_suite(str(tmp_path / "mine.toml")).cells()[0].origin().startswith("generated ")


def test_narrowing_picks_algorithms_datasets_and_variants() -> None:
    suite = Suite("s", "t", ("maze2d-umaze-v1", "maze2d-large-v1"), ("gpc-sac", "sac"), updates=100_000)
    cells = narrow(suite, ("sac", "*-large-*"), 0.1)
    assert [(cell.algorithm, cell.dataset, cell.updates) for cell in cells] == [
        ("sac", "maze2d-large-v1", 10_000)
    ]
    with pytest.raises(ValueError, match="unknown part of the suite 'td4'"):
        narrow(suite, ("td4",))
    with pytest.raises(ValueError, match="scale"):
        narrow(suite, scale=2.0)


def test_a_name_that_looks_like_a_pattern_is_a_name() -> None:
    variants = (Variant("[64, 64]", {"hidden": (64, 64)}), Variant("[8]", {"hidden": (8,)}))
    suite = Suite("s", "t", ("maze2d-umaze-v1",), ("sac",), variants=variants, updates=1000)
    assert [cell.variant for cell in narrow(suite, ("[64, 64]",))] == ["[64, 64]"]


def test_a_share_of_a_short_run_is_no_longer_than_the_run() -> None:
    suite = Suite("s", "t", ("maze2d-umaze-v1",), ("sac",), updates=500)
    assert [cell.updates for cell in narrow(suite, scale=0.5)] == [500]


def test_every_algorithm_is_in_some_suite() -> None:
    assert {algorithm for name in suite_names() for algorithm in read_suite(name).algorithms} == set(
        ALGORITHMS
    )


def test_a_run_begins_with_the_preset_it_is_made_with_whatever_its_name_promises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gridcount.commands.benchmark._dry_run", lambda *_: 0)
    first = []
    for words in (["--only", "sac"], ["--only", "sac", "--preset", "paper"]):
        assert main(["benchmark", "paper/maze2d", "--dry-run", *words]) == 0
        first.append(capsys.readouterr().out.splitlines()[0])
    assert first[0].startswith("paper/maze2d, preset fast: small networks and short runs")
    assert "not the papers' own (--preset paper runs those)" in first[0]
    assert first[1] == "paper/maze2d, preset paper: the papers' own networks, hyper-parameters and epochs"


def test_a_folder_gives_the_datasets_that_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = read_suite("recollected")
    for name in ("hopper-medium-v2", "unrelated"):
        (tmp_path / f"{name}.hdf5").touch()
    narrowed = _narrowed(suite, Benchmark("recollected", data=(str(tmp_path),)))
    assert narrowed.data == {"hopper-medium-v2": str(tmp_path / "hopper-medium-v2.hdf5")}
    (tmp_path / "empty").mkdir()
    for folder, problem in {
        "empty": "it holds no dataset of recollected",
        "missing": "there is no such folder",
    }.items():
        assert main(["benchmark", "recollected", "--data", str(tmp_path / folder), "--dry-run"]) == 2
        assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        ("[columns.other]\naction = 'valve'", "dataset in [columns] 'other'"),
        ("[columns.log]\nactions = 'valve'", "Did you mean 'action'"),
        ("[columns.log]\naction = 3", "[columns.log] action is 3; it must be text"),
        ("[columns.log]\nscale_actions = 1", "scale_actions is 1; it must be true or false"),
        (
            "[columns.log]\naction_low = 'zero'",
            "action_low is 'zero'; it must be a number or a list of numbers",
        ),
    ],
)
def test_a_mapping_of_columns_that_makes_no_sense_is_refused(
    reading: str, message: str, tmp_path: Path
) -> None:
    text = f'title = "t"\ndatasets = ["log"]\nalgorithms = ["bc"]\n[data]\nlog = "log.csv"\n{reading}\n'
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_suite(str(tmp_path / "mine.toml"))

"""The command line as people meet it: help at once, mistakes answered with what exists, output that suits
a log file."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gridcount import __version__
from gridcount.cli import main
from gridcount.data.formats.d4rl import write_hdf5
from gridcount.training.logs import read_rows

UMAZE = "maze2d-umaze-v1"
HOPPER = Path(__file__).parent / "data" / "hopper_medium_replay-v1.hdf5"
UNSCORED = ["--hidden", "8", "--batch-size", "16", "--bins", "4", "--updates", "40", "--evaluate-every", "20"]
SMALL = [*UNSCORED, "--env", UMAZE, "--episodes", "2", "--no-plot"]


Said = Callable[[list[str]], tuple[int, str, str]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Run a command: its exit code, what it printed, what it complained of."""

    def said(words: list[str]) -> tuple[int, str, str]:
        try:
            code = main(words)
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        return code, *capsys.readouterr()

    return said


# --- help ---


def test_help_answers_without_importing_anything_heavy() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "gridcount", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "gridcount train DATASET" in result.stdout
    imported = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in result.stderr.splitlines()}
    assert "gridcount" in imported
    assert not imported & {"jax", "numpy", "tyro", "rich", "h5py", "mujoco", "gymnasium", "matplotlib"}


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command(words: list[str], said: Said) -> None:
    code, out, _ = said(words)
    assert code == 0
    for command in ("train", "evaluate", "plot", "data make", "data info"):
        assert f"gridcount {command}" in out


def test_the_version_is_printed(said: Said) -> None:
    assert said(["--version"]) == (0, f"{__version__}\n", "")


@pytest.mark.parametrize("command", [["train"], ["evaluate"], ["plot"], ["data", "make"], ["data", "info"]])
def test_every_command_explains_its_flags(command: list[str], said: Said) -> None:
    code, out, err = said([*command, "--help"])
    assert code == 0
    assert f"gridcount {' '.join(command)}" in out
    assert not err


def test_train_explains_the_flags_of_the_algorithm_named(said: Said) -> None:
    assert "--pessimism" in said(["train", "--help"])[1]
    assert "--pessimism" not in said(["train", "--algo", "sac", "--help"])[1]


# --- mistakes ---


@pytest.mark.parametrize(
    ("words", "meant", "listed"),
    [
        (
            ["trian", UMAZE],
            "train",
            "algorithms, benchmark, data, estimate, evaluate, export, plot, report, serve, support, theory,"
            " train, tune",
        ),
        (["data", "mak", UMAZE], "make", "info, list, make"),
        (["train", "maze2d-umase-v1"], UMAZE, "hopper-medium-v2"),
        (["data", "info", "hoper-medium-v2"], "hopper-medium-v2", UMAZE),
        (["data", "make", "maze2d-lrge-v1"], "maze2d-large-v1", UMAZE),
        (["train", UMAZE, "--algo", "gpcsac"], "gpc-sac", "gpc-sac, gpc-td3, iql"),
        (["train", UMAZE, "--algo=gpcsac"], "gpc-sac", "gpc-sac, gpc-td3, iql"),
        (["train", UMAZE, "--preset", "fsat"], "fast", "fast, paper"),
        (["train", UMAZE, "--evaluate-evry", "10"], "--evaluate-every", "--seeds"),
        (["train", UMAZE, "--pesimism=1"], "--pessimism", "--critic-rate"),
        (["train", UMAZE, "--no-plt"], "--no-plot", "--critic-rate"),
        (["evaluate", "run", "--episods", "3"], "--episodes", "--seed"),
        (["plot", "run", "--ot", "x.png"], "--out", "--help"),
        (["data", "make", UMAZE, "--transition", "3"], "--transitions", "--directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_near_miss_is_answered_with_what_was_meant_and_what_there_is(
    words: list[str], meant: str, listed: str, said: Said
) -> None:
    code, out, err = said(words)
    assert code == 2
    assert err.startswith("error: unknown ")
    assert f"Did you mean '{meant}'?" in err
    assert listed in err.partition("Available: ")[2]
    assert "Traceback" not in out + err


def test_a_flag_of_another_algorithm_is_unknown(said: Said) -> None:
    code, _, err = said(["train", UMAZE, "--algo", "sac", "--pessimism", "1"])
    assert code == 2
    assert "unknown flag '--pessimism'" in err


def test_an_unknown_environment_is_answered_with_those_there_are(
    maze_file: Path, tmp_path: Path, said: Said
) -> None:
    code, _, err = said(
        ["train", str(maze_file), *UNSCORED, "--env", "maze2d-umaze", "--run", str(tmp_path / "run")]
    )
    assert code == 2
    assert "unknown environment 'maze2d-umaze'. Did you mean 'maze2d-umaze-v1'?" in err
    assert "maze2d-large-dense-v1" in err
    assert not (tmp_path / "run").exists()


def test_something_with_no_near_match_gets_the_list_without_a_guess(said: Said) -> None:
    code, _, err = said(["train", "zzzz"])
    assert code == 2
    assert "Did you mean" not in err
    assert UMAZE in err


def test_a_word_where_a_number_belongs_is_refused_without_a_traceback(said: Said) -> None:
    code, out, err = said(["train", UMAZE, "--seeds", "many"])
    assert code == 2
    assert "--seeds" in out + err
    assert "Traceback" not in out + err


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (["--updates", "0"], "at least 1"),
        (["--updates", "-40"], "at least 1"),
        (["--seeds", "0"], "at least 1"),
        (["--episodes", "0"], "at least 1"),
        (["--evaluate-every", "0"], "at least 1"),
        (["--keep", "0"], "at least 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_values_that_make_no_sense_are_refused_before_training(
    change: list[str], reason: str, maze_file: Path, tmp_path: Path, said: Said
) -> None:
    code, out, err = said(["train", str(maze_file), *SMALL, *change, "--run", str(tmp_path / "run")])
    assert code == 2
    assert reason in err
    assert "seed 0  score" not in out
    assert not (tmp_path / "run").exists()


# --- output in a log file ---


def test_a_log_file_gets_plain_text_and_one_line_per_evaluation_and_seed(
    maze_file: Path, tmp_path: Path, said: Said
) -> None:
    run = tmp_path / ("a-run-directory-with-a-long-name" * 3)
    code, out, err = said(["train", str(maze_file), *SMALL, "--seeds", "2", "--run", str(run)])
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert "\r" not in out
    lines = out.splitlines()
    assert f"  run directory: {run}" in lines
    pattern = r"update +(\d+)  seed (\d)  score +(-?[\d.]+)  success +\d+%  in log +\d+%  "
    pattern += r"critic loss \S+  Q \S+  u \S+  \d+ updates/s  \d+:\d\d left"
    printed = [match.groups() for line in lines if (match := re.fullmatch(pattern, line))]
    assert printed == [
        (str(row["updates"]), str(row["seed"]), f"{row['score']:.1f}") for row in read_rows(run)
    ]
    assert len(printed) == 4
    assert "mean of the last 2 evaluations" in out  # there were only two


# --- data ---


def test_data_make_writes_a_file_that_data_info_describes(tmp_path: Path, said: Said) -> None:
    code, out, _ = said(
        ["data", "make", UMAZE, "--transitions", "3000", "--seed", "5", "--directory", str(tmp_path)]
    )
    assert code == 0
    path = Path(out.splitlines()[-1])
    assert path.parent == tmp_path
    assert "\x1b" not in out
    code, out, _ = said(["data", "info", str(path)])
    assert code == 0
    for fact in ("transitions", "episodes", "terminated", "reward", "observation[3]", "action[1]"):
        assert fact in out
    written = path.stat().st_mtime_ns
    assert (
        said(["data", "make", UMAZE, "--transitions", "3000", "--seed", "5", "--directory", str(tmp_path)])[0]
        == 0
    )
    assert path.stat().st_mtime_ns == written  # made once, kept for next time


def bad_file(path: Path, kind: str) -> Path:
    rows = 0 if kind == "empty" else 50
    columns = {
        "observations": np.zeros((rows, 4), np.float32),
        "actions": np.zeros((rows, 2), np.float32),
        "rewards": np.zeros(rows, np.float32),
        "terminals": np.zeros(rows, np.bool_),
    }
    if kind == "NaN":
        columns["observations"][17, 2] = np.nan
    if kind == "unscaled":
        columns["actions"][9, 1] = 3.0
    if kind == "incomplete":
        del columns["rewards"]
    write_hdf5(path, columns, {})
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    if kind == "text":
        path.write_text("observation,action,reward\n")
    return path


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("empty", "holds no transition"),
        ("NaN", "holds nan at row 17"),
        ("unscaled", "at row 9 is outside [-1, 1]"),
        ("incomplete", "key 'rewards' is missing"),
        ("truncated", "truncated or damaged"),
        ("text", "not an HDF5 file"),
    ],
)
def test_a_bad_file_is_refused_before_training_and_leaves_no_run_behind(
    kind: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    monkeypatch.chdir(tmp_path)
    path = bad_file(tmp_path / "log.hdf5", kind)
    for words in (["train", str(path), *SMALL], ["data", "info", str(path)]):
        code, out, err = said(words)
        assert code == 2
        assert err.startswith(f"error: {path}")
        assert reason in err
        assert "Traceback" not in out + err
    assert [each.name for each in tmp_path.iterdir()] == ["log.hdf5"]


def test_training_warns_of_what_a_check_of_the_file_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = rng.uniform(-1, 1, size=(60, 4)).round(4).astype(object)
    names, path = ["obs_temp", "obs_flow", "action_valve", "reward"], tmp_path / "log.csv"
    for holes in (False, True):
        if holes:
            table[5, 0] = table[9, 1] = "nan"
        path.write_text("\n".join(",".join(map(str, row)) for row in [names, *table.tolist()]))
        code, out, err = said(["train", str(path), *UNSCORED, "--no-plot"])
        assert code == (2 if holes else 0), err
        assert holes or "rows look shuffled" in out
    assert "obs_temp" in out
    assert "obs_flow" in out


def test_a_file_that_is_not_there_is_named(tmp_path: Path, said: Said) -> None:
    code, _, err = said(["train", str(tmp_path / "nowhere.hdf5")])
    assert code == 2
    assert f"{tmp_path / 'nowhere.hdf5'}: there is no such file" in err


def test_an_environment_that_does_not_fit_the_data_is_refused_before_training(
    tmp_path: Path, said: Said
) -> None:
    code, out, err = said(["train", str(HOPPER), *SMALL, "--run", str(tmp_path / "run")])
    assert code == 2
    assert "the dataset needs an environment of 11 observation and 3 action dimensions" in err
    assert "Traceback" not in out + err
    assert not (tmp_path / "run").exists()


# --- data without a simulator ---


@pytest.fixture(scope="module")
def unscored(maze_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose policy was trained without an environment."""
    run = tmp_path_factory.mktemp("unscored") / "run"
    assert main(["train", str(maze_file), *UNSCORED, "--algo", "gpc-sac", "--run", str(run)]) == 0
    return run


def test_training_without_an_environment_says_it_will_not_score_and_works(
    unscored: Path, maze_file: Path, said: Said
) -> None:
    rows = read_rows(unscored)
    assert [row["updates"] for row in rows] == [20, 40]
    assert all("score" not in row and "critic_loss" in row for row in rows)
    code, out, err = said(["train", str(maze_file), *UNSCORED, "--run", str(unscored), "--resume"])
    assert (code, err) == (0, "")
    assert "the policy is trained but not scored (name one with --env)" in out


def test_a_run_without_scores_is_drawn_alone_and_beside_another(
    unscored: Path, tmp_path: Path, said: Said
) -> None:
    code, out, _ = said(["plot", str(unscored)])
    assert (code, out.split()) == (0, ["picture:", str(unscored / "curve.png")])
    assert (unscored / "curve.png").stat().st_size > 10_000
    code, out, _ = said(["plot", str(unscored), str(unscored), "--out", str(tmp_path / "both.png")])
    assert (code, out.split()) == (0, ["picture:", str(tmp_path / "both.png")])
    assert (tmp_path / "both.png").stat().st_size > 10_000
    young = tmp_path / "young"
    young.mkdir()
    (young / "config.json").write_bytes((unscored / "config.json").read_bytes())
    (young / "metrics.jsonl").touch()
    code, _, err = said(["plot", str(unscored), str(young), "--out", str(tmp_path / "none.png")])
    assert code == 2
    assert f"{young}: no evaluation has been written yet" in err
    assert not (tmp_path / "none.png").exists()


def test_a_run_without_scores_is_reported_with_its_data_a_table_and_what_the_log_has(
    unscored: Path, tmp_path: Path, said: Said
) -> None:
    assert said(["report", str(unscored), "--out", str(tmp_path)])[0] == 0
    page = (tmp_path / "report.html").read_text()
    assert "the user&#x27;s own, fingerprint" in page
    assert 'value="in_log">share of actions in the log</option>' in page
    assert page.index('value="in_log"') < page.index('value="q_data"') < page.index('value="uncertainty"')
    lines = (tmp_path / "tables" / "runs-log.csv").read_text().splitlines()
    assert lines[0].startswith("suite,dataset,method,seeds,in_log,action_distance,q_data")
    in_log = float(lines[1].split(",")[4])
    assert in_log == pytest.approx(np.mean([row["in_log"] for row in read_rows(unscored)]), rel=1e-4)
    assert "Policy compared with the log: share of its actions in the log" in page


def test_a_run_without_an_environment_is_evaluated_in_the_one_named(unscored: Path, said: Said) -> None:
    code, _, err = said(["evaluate", str(unscored)])
    assert code == 2
    assert "trained without an environment; name one with --env" in err
    assert UMAZE in err
    code, out, _ = said(["evaluate", str(unscored), "--env", UMAZE, "--episodes", "2"])
    assert code == 0
    assert "after 40 updates" in " ".join(out.split())
    code, _, err = said(["evaluate", str(unscored), "--env", "maze2d-umaze"])
    assert code == 2
    assert f"Did you mean '{UMAZE}'?" in err


def test_help_that_was_shown_once_comes_without_the_learners(tmp_path: Path) -> None:
    script = (
        "import sys; from gridcount.cli import main; print(main(['train', '--help']), 'jax' in sys.modules)"
    )
    environment = {**os.environ, "GRIDCOUNT_HOME": str(tmp_path)}
    first, second = (
        subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    )
    assert "--anchor" in first
    assert first.endswith("0 True\n")
    assert second == first.removesuffix("True\n") + "False\n"

"""What a notebook types works as written, and is the same experiment as the command line's."""

import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from conftest import MakeLog
from log_files import write_minari
from test_policy import BOUNDS, ROLES, write_log

import gridcount as gc
from gridcount.algorithms import ALGORITHMS
from gridcount.benchmark.cells import Cell, run_cell
from gridcount.benchmark.suites import read_suite
from gridcount.cli import main
from gridcount.files.archive import numbered
from gridcount.training.checkpoints import load as load_checkpoint

ROOT = Path(__file__).parent.parent
COLUMNS = gc.Columns(observation="temp_*", action="valve", reward="yield", episode="batch")
SMALL: dict[str, Any] = {
    "hidden": (16, 16),
    "batch_size": 16,
    "updates": 40,
    "evaluate_every": 20,
    "progress": False,
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("log") / "reactor.csv")


@pytest.fixture(scope="module")
def data(log: Path) -> gc.Transitions:
    return gc.load(log, COLUMNS, action_bounds=(0, 100))


def last_arrays(run: Path) -> dict[str, Any]:
    arrays = load_checkpoint(numbered(run / "checkpoints")[-1])
    return {name: array for name, array in arrays.items() if name != "run"}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("page", ["docs/python.md", "README.md"])
def test_the_code_in_the_docs_runs(page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert blocks
    code = "\n".join(blocks).replace("seeds=3, out", "seeds=1, updates=1000, evaluate_every=500, out")
    # the pages train for minutes, which proves no more
    code = re.sub(r"((?:updates|every)=|>= )(\d+)000", r"\g<1>\g<2>00", code).replace("every=500", "every=50")
    write_log(tmp_path / "reactor.csv")
    (tmp_path / "page.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_python_the_command_line_and_a_benchmark_cell_end_in_the_same_bits(
    log: Path, data: gc.Transitions, tmp_path: Path
) -> None:
    gc.train(data, "gpc-anchor", seeds=2, out=tmp_path / "python", **SMALL)
    words = [
        "--algo",
        "gpc-anchor",
        "--seeds",
        "2",
        "--hidden",
        "16",
        "16",
        "--batch-size",
        "16",
        "--updates",
        "40",
        "--no-plot",
    ]
    assert (
        main(
            [
                "train",
                str(log),
                *ROLES,
                *BOUNDS,
                *words,
                "--evaluate-every",
                "20",
                "--run",
                str(tmp_path / "line"),
            ]
        )
        == 0
    )
    suite = f"""
        title = "mine"
        datasets = ["reactor"]
        algorithms = ["gpc-anchor"]
        preset = "fast"
        seeds = 2
        updates = 40
        evaluate_every = 20
        episodes = 1
        fields = {{ hidden = [16, 16], batch_size = 16 }}
        data = {{ reactor = "{log}" }}
        [columns.reactor]
        observation = "temp_*"
        action = "valve"
        reward = "yield"
        episode = "batch"
        action_low = 0
        action_high = 100
    """
    (tmp_path / "mine.toml").write_text(suite)
    (cell,) = read_suite(str(tmp_path / "mine.toml")).cells()
    run_cell(Cell.from_json(cell.to_json()), tmp_path / "cell")
    python = last_arrays(tmp_path / "python")
    assert same(python, last_arrays(tmp_path / "line"))
    assert same(python, last_arrays(tmp_path / "cell"))


def test_a_run_that_a_callback_stopped_goes_on_to_the_same_bits(data: gc.Transitions, tmp_path: Path) -> None:
    whole = gc.train(data, "bc", out=tmp_path / "whole", **SMALL)
    rows = []

    def stop(row: dict[str, Any]) -> bool:
        rows.append(row["updates"])
        return True

    stopped = gc.train(data, "bc", out=tmp_path / "stopped", callback=stop, **SMALL)
    assert rows == [20]
    assert "20 of 40 updates" in repr(stopped)
    again = gc.Run(tmp_path / "stopped").resume(data, progress=False)
    assert "40 updates" in repr(again)
    assert same(last_arrays(whole.directory), last_arrays(stopped.directory))
    np.testing.assert_array_equal(again.metrics["policy_loss"], whole.metrics["policy_loss"])


def test_a_run_on_data_that_was_in_no_file_asks_for_it(data: gc.Transitions, tmp_path: Path) -> None:
    unnamed = gc.Transitions.from_arrays(
        data.observation, data.action, data.reward, truncated=data.episode_end
    )
    run = gc.train(unnamed, "bc", out=tmp_path / "run", **SMALL)
    with pytest.raises(ValueError, match="needs the data it was trained on"):
        run.resume(updates=60, progress=False)
    with pytest.raises(ValueError, match="not the data this run was trained on"):
        run.resume(data, updates=60, progress=False)
    assert run.resume(unnamed, updates=60, progress=False).metrics["updates"].max() == 60


def test_a_run_has_columns_of_metrics_and_a_figure(data: gc.Transitions, tmp_path: Path) -> None:
    run = gc.train(data, "gpc-sac", seeds=2, out=tmp_path / "run", **SMALL)
    metrics = gc.Run(tmp_path / "run").metrics
    assert metrics["seed"].tolist() == [0, 1, 0, 1]
    assert metrics["updates"].tolist() == [20, 20, 40, 40]
    assert np.isfinite(metrics["critic_loss"]).all()
    run.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert run.policy(seed=1).seed == 1
    assert run.config["fields"]["hidden"] == [16, 16]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_is_exported_under_its_classes_name(name: str) -> None:
    kind = ALGORITHMS[name]
    assert getattr(gc, kind.__name__) is kind
    assert kind.__name__ in dir(gc)
    assert kind.__name__ in sys.modules["gridcount.algorithms"].__all__


def test_an_algorithm_can_be_given_as_an_object_with_its_fields(data: gc.Transitions, tmp_path: Path) -> None:
    algorithm = gc.GPCSAC(pessimism=2.0, bins=5, hidden=(16, 16), batch_size=16)
    run = gc.train(data, algorithm, updates=20, evaluate_every=20, out=tmp_path / "run", progress=False)
    assert run.config["algorithm"] == "gpc-sac"
    assert run.config["fields"]["pessimism"] == 2.0
    with pytest.raises(TypeError, match="not an algorithm"):
        gc.train(data, object(), out=tmp_path / "other", progress=False)
    with pytest.raises(ValueError, match="Did you mean 'pessimism'"):
        gc.train(data, "gpc-sac", pesimism=2.0, out=tmp_path / "other", progress=False)
    assert not (tmp_path / "other").exists()


def test_a_run_is_scored_where_an_environment_is_named(tmp_path: Path) -> None:
    from gridcount.envs.plant_logs import write_log as write_plant_log

    write_plant_log("fan", tmp_path / "fan.csv", 2000, seed=0)
    data = gc.load(tmp_path / "fan.csv", gc.Columns(observation="*", action="fan"), action_bounds=(0, 100))
    run = gc.train(data, "bc", env="gridcount/fan-v0", episodes=2, out=tmp_path / "run", **SMALL)
    result = gc.evaluate(run.policy(), "gridcount/fan-v0", episodes=3, seed=1)
    assert np.isfinite(run.metrics["return"]).all()
    assert result.returns.shape == (3,)
    assert "3 episodes" in repr(result)
    with pytest.raises(ValueError, match="name another with --env"):
        gc.evaluate(run.policy(), "gridcount/tank-v0")


def test_training_works_in_a_thread_and_prints_nothing_if_asked(
    data: gc.Transitions, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    thread = threading.Thread(target=lambda: gc.train(data, "bc", out=tmp_path / "run", **SMALL))
    thread.start()
    thread.join()
    assert gc.Run(tmp_path / "run").metrics["updates"].max() == 40
    assert capfd.readouterr().out == ""


def test_a_log_with_errors_is_refused_before_anything_is_made(data: gc.Transitions, tmp_path: Path) -> None:
    misaligned = gc.Transitions.from_arrays(
        data.observation, data.action, data.reward, next_observation=data.observation[::-1] + 1
    )
    with pytest.raises(ValueError, match="is not the observation of the row below"):
        gc.train(misaligned, "bc", out=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()


def test_a_check_is_a_sequence_that_reads_as_a_table(data: gc.Transitions) -> None:
    problems = gc.check(gc.Transitions.from_arrays(data.observation, data.action * 0.01, data.reward))
    assert problems.ok
    assert len(problems) == len(list(problems)) > 0
    assert problems[0].severity == "warning"
    assert "what to do" in repr(problems)
    assert "<pre>" in problems._repr_html_()


def frames(log: Path) -> dict[str, Any]:
    frame = pandas.read_csv(log)
    return {
        "pandas": frame,
        "polars": polars.read_csv(log),
        "pyarrow": pyarrow.Table.from_pandas(frame),
        "dict": {name: frame[name].to_numpy() for name in frame},
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "dict"])
def test_a_frame_is_read_as_its_file_is(kind: str, log: Path, data: gc.Transitions) -> None:
    found = gc.Transitions.from_frame(frames(log)[kind], COLUMNS, action_low=0, action_high=100)
    assert found.equals(data)
    assert found.observation_names == data.observation_names


@pytest.mark.parametrize("kind", ["pandas", "polars", "dict"])
def test_a_frame_without_pyarrow_is_read_by_its_columns(
    kind: str, log: Path, data: gc.Transitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = frames(log)[kind]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert gc.Transitions.from_frame(frame, COLUMNS, action_low=0, action_high=100).equals(data)


def test_text_in_a_frame_is_named_with_its_row() -> None:
    frame = pandas.DataFrame(
        {"obs": [1.0, 2.0, 3.0], "action": [0.1, 0.2, 0.3], "reward": ["1", "good", "2"]}
    )
    with pytest.raises(ValueError, match="column 'reward' holds"):
        gc.Transitions.from_frame(frame)


def test_arrays_become_the_transitions_of_the_same_file(log: Path, data: gc.Transitions) -> None:
    frame = pandas.read_csv(log)
    found = gc.Transitions.from_arrays(
        observation=frame[["temp_in", "temp_out"]].to_numpy(),
        action=frame["valve"].to_numpy(),
        reward=frame["yield"].to_numpy(),
        episode=frame["batch"].to_numpy(),
        action_low=0,
        action_high=100,
        observation_names=("temp_in", "temp_out"),
        action_names=("valve",),
    )
    assert found.equals(data)
    assert found.action_names == data.action_names


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": np.zeros(9)}, r"'reward' has shape \(9,\)"),
        ({"action_low": 0.0}, "give both action_low and action_high"),
        ({"observation_names": ("one", "two", "three")}, "3 observation_names for 2 observation dimensions"),
        ({"terminated": np.full(10, 2)}, "a flag must be 0 or 1"),
        ({"reward": np.array([np.nan] * 10)}, "'reward' holds nan at row 0"),
        ({"action": np.full((10, 1), 5.0)}, r"outside \[-1, 1\]"),
    ],
)
def test_arrays_that_cannot_be_a_log_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    arrays = {"observation": np.zeros((10, 2)), "action": np.zeros((10, 1)), "reward": np.zeros(10)}
    with pytest.raises(ValueError, match=message):
        gc.Transitions.from_arrays(**(arrays | changes))


def test_episodes_of_minari_are_read_as_its_files_are(
    make_log: MakeLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import minari

    dataset_id = write_minari(tmp_path, make_log(100), "hdf5", monkeypatch)
    read = gc.load(tmp_path / dataset_id)
    assert gc.Transitions.from_episodes(minari.load_dataset(dataset_id)).equals(read)
    episodes = [vars(episode) for episode in minari.load_dataset(dataset_id).iterate_episodes()]
    assert gc.Transitions.from_episodes(episodes).equals(read)


def test_an_episode_that_lacks_a_part_is_named() -> None:
    episode = {
        "observations": np.zeros((5, 2)),
        "actions": np.zeros((5, 1)),
        "rewards": np.zeros(5),
        "terminations": np.zeros(5),
    }
    with pytest.raises(ValueError, match="episode 0: has no truncations"):
        gc.Transitions.from_episodes([episode])
    with pytest.raises(ValueError, match="7 observations for 5 actions"):
        gc.Transitions.from_episodes(
            [episode | {"truncations": np.zeros(5), "observations": np.zeros((7, 2))}]
        )

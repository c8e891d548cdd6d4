"""Runs as a whole: what they record, that seeds do not touch each other, that divergence stops them, how
policies are scored."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import MakeLog
from jax import Array
from numpy.typing import NDArray
from problems import small
from rich.console import Console

from gridcount.algorithms import ALGORITHMS
from gridcount.algorithms.blocks import make_block
from gridcount.algorithms.contract import Prepared, Report, ignore_report
from gridcount.catalogue import FAMILIES
from gridcount.cli import main
from gridcount.envs.maze2d import Task, task
from gridcount.evaluation.rollouts import evaluate
from gridcount.files.archive import numbered, save_arrays
from gridcount.policy.actor import Actor, Perceptron
from gridcount.training import run as runs
from gridcount.training.checkpoints import flatten, load, unflatten
from gridcount.training.divergence import Diverged
from gridcount.training.logs import read_rows
from gridcount.training.loop import SideBySide, Vectorised, seed_keys
from gridcount.training.machine import commit_of
from gridcount.training.plan import Plan, read_plan, settings, write_record
from gridcount.training.progress import ConsoleDisplay
from gridcount.transitions import Batch

UMAZE = "maze2d-umaze-v1"
SMALL = ["--env", UMAZE, "--hidden", "8", "--batch-size", "16", "--episodes", "2", "--bins", "4", "--no-plot"]
SHORT = [*SMALL, "--updates", "40", "--evaluate-every", "20"]


@pytest.fixture(scope="module")
def pair(maze_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of seeds 0 and 1."""
    run = tmp_path_factory.mktemp("runs") / "pair"
    assert main(["train", str(maze_file), *SHORT, "--seeds", "2", "--run", str(run)]) == 0
    return run


def rows_of(run: Path, seed: int) -> list[dict[str, Any]]:
    return [row for row in read_rows(run) if row["seed"] == seed]


# --- what a run records ---


def test_metrics_have_one_row_per_evaluation_and_seed(pair: Path) -> None:
    rows = read_rows(pair)
    assert [(row["updates"], row["seed"]) for row in rows] == [(20, 0), (20, 1), (40, 0), (40, 1)]
    assert all(math.isfinite(value) for row in rows for value in row.values())
    assert {"score", "return", "success", "critic_loss", "policy_loss", "uncertainty", "temperature"} <= rows[
        0
    ].keys()


def test_the_recorded_plan_reads_back_as_it_was_written(pair: Path, maze_file: Path, tmp_path: Path) -> None:
    plan = read_plan(pair)
    assert (plan.dataset, plan.environment, plan.algorithm) == (str(maze_file), UMAZE, "gpc-sac")
    assert (plan.seeds, plan.updates, plan.evaluate_every, plan.episodes) == ((0, 1), 40, 20, 2)
    assert plan.fields["bins"] == 4
    write_record(tmp_path, plan)
    assert read_plan(tmp_path) == plan
    assert (tmp_path / "config.json").read_bytes() == (pair / "config.json").read_bytes()


def test_the_recorded_plan_makes_the_algorithm_that_was_trained(pair: Path) -> None:
    plan = read_plan(pair)
    algorithm = plan.make_algorithm()
    assert algorithm.hidden == (8,)
    assert json.loads(json.dumps(settings(algorithm))) == plan.fields


def test_the_machine_the_versions_and_the_commit_are_recorded(pair: Path) -> None:
    (start,) = json.loads((pair / "environment.json").read_text())
    assert start["versions"]["jax"] == jax.__version__
    assert start["versions"]["numpy"] == np.__version__
    assert {"gridcount", "jaxlib", "equinox", "optax", "mujoco"} <= start["versions"].keys()
    assert start["commit"] == commit_of(Path(runs.__file__))  # test_run_directories says what that is
    assert start["python"]
    assert start["platform"]
    assert start["cores"] >= 1
    assert start["devices"]


def test_a_directory_without_a_run_and_a_broken_config_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="not a run directory"):
        read_plan(tmp_path)
    (tmp_path / "config.json").write_text('{"dataset": "x"')
    with pytest.raises(ValueError, match=r"config\.json: not JSON"):
        read_plan(tmp_path)


def test_at_most_keep_checkpoints_remain_and_nothing_partial(maze_file: Path, tmp_path: Path) -> None:
    words = [
        "train",
        str(maze_file),
        *SMALL,
        "--updates",
        "80",
        "--evaluate-every",
        "20",
        "--checkpoint-seconds",
        "0",
    ]
    assert main([*words, "--keep", "3", "--run", str(tmp_path / "run")]) == 0
    assert [int(path.stem) for path in numbered(tmp_path / "run" / "checkpoints")] == [40, 60, 80]
    assert not list((tmp_path / "run").rglob("*.partial"))


# --- seeds ---


def test_a_seed_trained_with_others_is_the_seed_trained_alone(
    pair: Path, maze_file: Path, tmp_path: Path
) -> None:
    assert main(["train", str(maze_file), *SHORT, "--seed", "1", "--run", str(tmp_path / "alone")]) == 0
    assert read_rows(tmp_path / "alone") == rows_of(pair, seed=1)
    together, alone = (np.load(numbered(run / "checkpoints")[-1]) for run in (pair, tmp_path / "alone"))
    names = [name for name in alone.files if name != "run"]
    assert len(names) > 10
    for name in names:
        np.testing.assert_array_equal(together[name], alone[name], err_msg=name)


def test_seeds_differ(pair: Path) -> None:
    first, second = (rows_of(pair, seed) for seed in (0, 1))
    assert all(a["critic_loss"] != b["critic_loss"] for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_seeds_vectorised_in_one_program_agree_with_seeds_side_by_side(name: str, make_log: MakeLog) -> None:
    algorithm, rows, _ = small(name).prepare(make_log())
    keys = [seed_keys(seed) for seed in (0, 1, 2)]
    kinds: tuple[type[Any], ...] = (SideBySide, Vectorised)
    states = [algorithm.init(init, rows) for init, _ in keys]
    learners = [
        kind(make_block(algorithm, 5), jax.tree.map(jnp.copy, states), rows, [key for _, key in keys])
        for kind in kinds
    ]
    for start in (0, 5):
        one, other = (each.advance(start) for each in learners)
        assert one.keys() == other.keys()
        for metric in one:
            assert one[metric].shape == (3,)
            np.testing.assert_allclose(one[metric], other[metric], rtol=1e-4, atol=1e-6, err_msg=metric)
    for mine, yours in zip(*(each.states for each in learners), strict=True):
        for leaf, twin in zip(jax.tree.leaves(mine), jax.tree.leaves(yours), strict=True):
            np.testing.assert_allclose(leaf, twin, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_goes_on_from_a_file_to_the_same_bits(
    name: str, make_log: MakeLog, tmp_path: Path
) -> None:
    algorithm, rows, _ = small(name).prepare(make_log())
    init, key = seed_keys(0)
    fresh = algorithm.init(init, rows)
    whole = SideBySide(make_block(algorithm, 5), [jax.tree.map(jnp.copy, fresh)], rows, [key])
    whole.advance(0)
    save_arrays(tmp_path / "5.npz", flatten(whole.states[0]))
    resumed = SideBySide(
        make_block(algorithm, 5), [unflatten(fresh, load(tmp_path / "5.npz"), tmp_path)], rows, [key]
    )
    assert whole.advance(5) == resumed.advance(5)
    for leaf, twin in zip(jax.tree.leaves(whole.states), jax.tree.leaves(resumed.states), strict=True):
        np.testing.assert_array_equal(leaf, twin)


# --- divergence ---


DIVERGING = [
    *SMALL,
    "--updates",
    "40",
    "--evaluate-every",
    "1",
    "--critic-rate",
    "1e3",
]  # within a few updates


def finite(run: Path) -> bool:
    """Whether every array of every checkpoint is finite."""
    files = [np.load(path) for path in (run / "checkpoints").glob("*")]
    return all(np.isfinite(file[name]).all() for file in files for name in file.files)


def test_exploding_values_stop_the_run_before_its_first_checkpoint(
    maze_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", str(maze_file), *DIVERGING, "--seed", "7", "--run", str(run)]) == 2
    message = capsys.readouterr().err
    assert "seed 7: metric '" in message
    assert "No checkpoint had been written yet" in message
    assert "Traceback" not in message
    assert not numbered(run / "checkpoints")


def test_exploding_values_leave_the_last_good_checkpoint_and_name_it(
    maze_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", str(maze_file), *DIVERGING, "--checkpoint-seconds", "0", "--run", str(run)]) == 2
    message = capsys.readouterr().err
    kept = numbered(run / "checkpoints")
    assert kept
    assert f"The last good checkpoint is {kept[-1]}" in message
    assert "seed 0: metric '" in message
    assert finite(run)
    assert read_rows(run)[-1]["updates"] == int(kept[-1].stem)


@dataclass(frozen=True)
class BreaksUnseen:
    """An algorithm whose weights become infinite at its sixth update, while its only metric stays fine."""

    batch_size: int = 4

    def init(self, key: Array, rows: Batch, report: Report = ignore_report) -> dict[str, Array]:
        return {"weight": jnp.zeros(2), "updates": jnp.zeros((), jnp.int32)}

    def update(
        self, state: dict[str, Array], batch: Batch, key: Array
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        weight = jnp.where(state["updates"] == 5, jnp.inf, state["weight"])
        return {"weight": weight, "updates": state["updates"] + 1}, {"critic_loss": jnp.ones(())}

    def actor(self, state: dict[str, Array]) -> Actor:
        return Actor(Perceptron([jnp.ones((3, 2))], [jnp.zeros(2)], [], []))


def test_weights_that_go_bad_unseen_by_any_metric_are_never_saved(make_log: MakeLog, tmp_path: Path) -> None:
    data = make_log()
    prepared = Prepared(BreaksUnseen(), data.rows(), {})
    plan = Plan("log", None, "sac", {}, seeds=(3,), updates=8, evaluate_every=2, episodes=1, fingerprint="")
    with pytest.raises(Diverged, match=r"seed 3: '\['weight'\]' is no longer finite") as stopped:
        runs.train(plan, prepared, tmp_path, ConsoleDisplay(Console(quiet=True)), save_every=0)
    assert [int(path.stem) for path in numbered(tmp_path / "checkpoints")] == [2, 4]
    assert str(tmp_path / "checkpoints" / "0000000004.npz") in str(stopped.value)
    assert finite(tmp_path)


# --- scoring ---


def still(observation: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.zeros((len(observation), 2), np.float32)


def wander(observation: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(np.sin(7 * observation[:, :2] + observation[:, 2:]), np.float32)


def test_the_same_seed_gives_the_same_episodes_and_another_seed_others() -> None:
    first, again, other = (evaluate(wander, UMAZE, episodes=5, seed=seed) for seed in (3, 3, 4))
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(first.observations[0], other.observations[0])
    assert first.observations.shape == (301, 5, 4)


def start_at(monkeypatch: pytest.MonkeyPatch, position: tuple[float, float]) -> None:
    def start(self: Task, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return np.tile([*position, 0.0, 0.0], (count, 1))

    monkeypatch.setattr(Task, "start", start)


def test_standing_on_the_goal_succeeds_always_and_scores_by_the_reference_formula(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = task(UMAZE).goal
    start_at(monkeypatch, (float(x), float(y)))
    result = evaluate(still, UMAZE, episodes=3, seed=0)
    assert result.success is not None
    assert result.scores is not None
    assert result.success.all()
    np.testing.assert_array_equal(result.returns, 300.0)  # a reward of 1 at each of 300 steps
    np.testing.assert_allclose(result.scores, 100 * (300 - 23.85) / (161.86 - 23.85))
    assert result.summary()["success"] == 1.0


def test_standing_far_from_the_goal_never_succeeds_and_scores_below_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start_at(monkeypatch, (3.0, 1.0))
    result = evaluate(still, UMAZE, episodes=3, seed=0)
    assert result.success is not None
    assert result.scores is not None
    assert not result.success.any()
    np.testing.assert_array_equal(result.returns, 0.0)
    np.testing.assert_allclose(result.scores, 100 * (0 - 23.85) / (161.86 - 23.85))


def test_a_dense_maze_is_scored_by_its_own_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    start_at(monkeypatch, (3.0, 1.0))
    result = evaluate(still, "maze2d-umaze-dense-v1", episodes=2, seed=0)
    assert result.scores is not None
    low, high, limit = FAMILIES["maze2d-umaze-dense"]
    expected = limit * math.exp(-math.dist((3.0, 1.0), (1.0, 1.0)))
    np.testing.assert_allclose(result.returns, expected, rtol=1e-5)
    np.testing.assert_allclose(result.scores, 100 * (expected - low) / (high - low), rtol=1e-5)


def test_the_evaluate_command_prints_the_same_scores_twice(
    pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = []
    for _ in range(2):
        assert main(["evaluate", str(pair), "--episodes", "3"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert "after 40 updates, 3 episodes per seed" in " ".join(outputs[0].split())
    assert len([line for line in outputs[0].splitlines() if "%" in line]) == 2  # one line per seed

"""A policy is a thing of its own: kept, copied and loaded without its log, its learner or JAX."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from conftest import MakeLog
from problems import learn, small

from gridcount.algorithms import ALGORITHMS
from gridcount.algorithms.contract import act
from gridcount.cli import main
from gridcount.files.archive import numbered, save_arrays
from gridcount.policy.counts import LogCounts
from gridcount.policy.export.graph import actor_model
from gridcount.policy.policy import load_policy
from gridcount.policy.store import flatten, unflatten
from gridcount.training.restoring import host_actor
from gridcount.transitions import in_units

QUICK = ["--hidden", "16", "16", "--batch-size", "16", "--no-plot", "--checkpoint-seconds", "0"]


def write_log(path: Path, batches: int = 30, steps: int = 20) -> Path:
    """A CSV log of a valve in per cent that steers a temperature to 60."""
    rng = np.random.default_rng(0)
    lines = ["batch,temp_in,temp_out,valve,yield"]
    for batch in range(batches):
        inside, outside = rng.normal(60, 5, 2)
        for _ in range(steps):
            valve = float(np.clip(50 + 2 * (60 - inside) + rng.normal(0, 8), 0, 100))
            lines.append(f"{batch},{inside:.4f},{outside:.4f},{valve:.3f},{-abs(inside - 60):.4f}")
            inside, outside = (
                inside + 0.02 * (valve - 50) + rng.normal(0, 0.5),
                outside + 0.2 * (inside - outside),
            )
    path.write_text("\n".join(lines) + "\n")
    return path


ROLES = ["--observation", "temp_*", "--action", "valve", "--reward", "yield", "--episode", "batch"]
BOUNDS = ["--action-low", "0", "--action-high", "100"]
OBSERVATIONS = np.array([[58.0, 61.0], [60.0, 60.0], [66.0, 55.0]])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two seeds on a log of one's own, with two policies kept, and its log beside it."""
    folder = tmp_path_factory.mktemp("trained")
    log = write_log(folder / "reactor.csv")
    words = [
        str(log),
        *ROLES,
        *BOUNDS,
        "--seeds",
        "2",
        "--updates",
        "40",
        "--evaluate-every",
        "20",
        "--run",
        str(folder / "run"),
        *QUICK,
    ]
    assert main(["train", *words]) == 0
    return folder


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithms_policy_acts_alike_in_numpy_in_a_file_in_onnx_and_in_training(
    name: str, make_log: MakeLog
) -> None:
    prepared, state = learn(small(name), make_log(), 20)
    observation = np.random.default_rng(1).normal(size=(10_000, 3)).astype(np.float32)
    actor = host_actor(prepared, state)
    np.testing.assert_allclose(
        actor(observation), act(prepared.algorithm, state, jnp.asarray(observation)), atol=1e-5
    )
    again = unflatten(flatten(actor), 3, 2)
    np.testing.assert_array_equal(again(observation), actor(observation))
    np.testing.assert_allclose(
        again(observation[:1]), actor(observation)[:1], atol=1e-6
    )  # whatever else is asked beside it
    low, high = np.array([0.0, -5.0]), np.array([100.0, 3.0])
    graph = actor_model(actor, 3, low, high, name).SerializeToString()
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    scaled, action = session.run(["scaled_action", "action"], {"observation": observation})
    np.testing.assert_allclose(scaled, actor(observation), atol=1e-5)
    np.testing.assert_allclose(action, in_units(scaled, low, high), rtol=1e-12)


def test_a_copied_policy_acts_to_the_same_bits_without_log_and_run(trained: Path, tmp_path: Path) -> None:
    before = load_policy(trained / "run", seed=1)(OBSERVATIONS)
    shutil.copytree(trained / "run" / "policy", tmp_path / "elsewhere")
    script = (
        "import sys, numpy, gridcount\n"
        f"policy = gridcount.load_policy({str(tmp_path / 'elsewhere')!r}, seed=1)\n"
        f"numpy.save({str(tmp_path / 'actions.npy')!r}, policy(numpy.array({OBSERVATIONS.tolist()})))\n"
        "sys.exit('jax' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "actions.npy"), before)


def test_a_policy_speaks_of_the_logs_columns_in_the_logs_units(trained: Path) -> None:
    policy = load_policy(trained / "run")
    assert policy.observation_names == ("temp_in", "temp_out")
    assert policy.action_names == ("valve",)
    actions = policy(OBSERVATIONS)
    assert actions.shape == (3, 1)
    assert ((actions >= 0) & (actions <= 100)).all()
    np.testing.assert_allclose(actions, 50 + 50 * policy.scaled(OBSERVATIONS), rtol=1e-6)
    np.testing.assert_allclose(policy(OBSERVATIONS[0].tolist()), actions[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        ([1.0, 2.0, 3.0], r"shape \(3,\).*2 numbers each: temp_in, temp_out"),
        ([60.0, float("nan")], "observation 0 holds nan in 'temp_out'"),
        ([[60.0, 60.0], [float("inf"), 1.0]], "observation 1 holds inf in 'temp_in'"),
    ],
)
def test_an_observation_that_cannot_be_one_is_named(trained: Path, observation: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_policy(trained / "run")(observation)


def test_a_policy_counts_how_often_the_log_has_its_action(make_log: MakeLog) -> None:
    data = make_log(2000)
    counts = LogCounts.fit(data)
    own = counts(data.observation, data.action)
    assert own.min() >= 1
    far = np.where(data.action > 0, -1.0, 1.0).astype(np.float32) * 1.0
    assert counts(data.observation, far).mean() < own.mean()
    again = LogCounts.of(counts.arrays(), data.observation_dim, data.action_dim)
    np.testing.assert_array_equal(again(data.observation, data.action), own)


def test_the_last_policy_is_given_unless_another_is_asked_for(trained: Path) -> None:
    assert [int(path.stem) for path in numbered(trained / "run" / "policy")] == [20, 40]
    assert load_policy(trained / "run").updates == 40
    early = load_policy(trained / "run", at=20)
    assert early.updates == 20
    assert not np.array_equal(early(OBSERVATIONS), load_policy(trained / "run")(OBSERVATIONS))
    with pytest.raises(ValueError, match="after 30 updates; it holds those after 20, 40"):
        load_policy(trained / "run", at=30)
    with pytest.raises(ValueError, match="no seed 7; it holds 0, 1"):
        load_policy(trained / "run", seed=7)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _set(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _endless(folder: Path) -> None:
    """A tree whose first node leads back to itself."""
    counts = LogCounts.of(_counts(folder), 2, 1).arrays()
    below = counts["below"].copy()
    below[0] = 0
    save_arrays(folder / "counts.npz", counts | {"below": below})


def _huge(folder: Path) -> None:
    """A file of some bytes that states an array of 8 TB."""
    arrays: dict[str, Any] = {
        "counts|shape": np.array([10**6, 10**6]),
        "counts|at": np.array([0]),
        "counts|is": np.array([1.0]),
    }
    np.savez(folder / "counts.npz", **arrays)


def _counts(folder: Path) -> dict[str, Any]:
    with np.load(folder / "counts.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda folder: _cut(folder / "0000000040.npz"), r"0000000040.npz: the policy is damaged"),
        (lambda folder: _cut(folder / "counts.npz"), r"counts.npz: the policy is damaged"),
        (_endless, "do not lead to its cells"),
        (_huge, "8,000,000,000,000 bytes, more than a policy can have"),
        (
            lambda folder: _set(folder / "policy.json", action_low=[0, 0]),
            "'action_low' has 2 numbers for 1 actions",
        ),
        (
            lambda folder: _set(folder / "policy.json", observation_names=["temp_in"]),
            "0000000040.npz|counts.npz",
        ),
        (lambda folder: _set(folder / "policy.json", format=99), "newer; update gridcount"),
        (lambda folder: (folder / "policy.json").unlink(), "not a policy"),
        (lambda folder: list(map(Path.unlink, numbered(folder))), "holds no policy yet"),
    ],
)
def test_a_damaged_policy_is_named_and_never_half_used(
    trained: Path, tmp_path: Path, break_it: Callable[[Path], Any], message: str
) -> None:
    folder = shutil.copytree(trained / "run" / "policy", tmp_path / "policy")
    break_it(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_policy(folder)


def test_resuming_from_an_earlier_checkpoint_forgets_later_policies(trained: Path, tmp_path: Path) -> None:
    run = shutil.copytree(trained / "run", tmp_path / "run")
    expected = load_policy(run)(OBSERVATIONS)
    (run / "checkpoints" / "0000000040.npz").unlink()
    shutil.copy(
        run / "policy" / "0000000040.npz", run / "policy" / "0000000030.npz"
    )  # of updates that are made again
    metrics = run / "metrics.jsonl"
    metrics.write_text(
        "".join(line for line in metrics.read_text().splitlines(keepends=True) if '"updates": 20,' in line)
    )
    words = [
        str(trained / "reactor.csv"),
        *ROLES,
        *BOUNDS,
        "--seeds",
        "2",
        "--updates",
        "40",
        "--evaluate-every",
        "20",
    ]
    assert main(["train", *words, "--run", str(run), "--resume", *QUICK]) == 0
    np.testing.assert_array_equal(load_policy(run)(OBSERVATIONS), expected)
    assert [int(path.stem) for path in numbered(run / "policy")] == [20, 40]


def test_a_run_without_a_policy_says_what_is_needed(trained: Path, tmp_path: Path) -> None:
    run = shutil.copytree(trained / "run", tmp_path / "run", ignore=shutil.ignore_patterns("policy"))
    with pytest.raises(FileNotFoundError, match="need its training data"):
        load_policy(run)


def test_evaluate_needs_no_log_and_chooses_seeds_and_updates(
    maze_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Path(shutil.copy(maze_file, tmp_path / "maze.hdf5"))
    run = tmp_path / "run"
    words = [
        str(log),
        "--env",
        "maze2d-umaze-v1",
        "--seeds",
        "2",
        "--updates",
        "40",
        "--evaluate-every",
        "20",
        "--episodes",
        "2",
    ]
    assert main(["train", *words, "--run", str(run), *QUICK]) == 0
    log.rename(tmp_path / "hidden.hdf5")
    capsys.readouterr()
    for more, title in (
        ([], "after 40 updates"),
        (["--at", "20"], "after 20 updates"),
        (["--at", "oracle"], "oracle: chosen by its score"),
        (["--seed", "1"], "after 40 updates"),
    ):
        assert main(["evaluate", str(run), "--episodes", "2", *more]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert title in printed
        assert ("│ 0 │" in printed) == ("--seed" not in more)
    assert main(["evaluate", str(run), "--at", "sometime"]) == 2
    assert "--at is 'sometime'" in capsys.readouterr().err
    shutil.rmtree(run / "policy")  # a run of an earlier version
    assert main(["evaluate", str(run), "--episodes", "2"]) == 2
    assert "needs the data it was trained on" in capsys.readouterr().err
    (tmp_path / "hidden.hdf5").rename(log)
    assert main(["evaluate", str(run), "--episodes", "2"]) == 0
    assert "after 40 updates" in " ".join(capsys.readouterr().out.split())

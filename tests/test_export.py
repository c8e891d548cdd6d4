"""An export decides as its policy does, without gridcount and JAX, and what is damaged in it is named."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from small_policy import plant_log, random_actor, write_run

import gridcount
from gridcount.cli import main
from gridcount.policy.actor import Actor, Perceptron
from gridcount.policy.counts import LogCounts
from gridcount.policy.export import folder as exports
from gridcount.policy.export.network import OnnxActor
from gridcount.policy.export.reader import Decider
from gridcount.policy.few_values import FewValues
from gridcount.policy.guard import Guard
from gridcount.policy.policy import load_policy

FIELDS = ("action", "held", "count", "uncertainty", "resolution", "policy_action", "nearest_action")
EDGE = 1e-6  # of an action in [-1, 1]: closer to the edge of a bin, rounding decides


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"), clone=True)


@pytest.fixture(scope="module")
def exported(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("export") / "out"
    assert main(["export", str(run), "--to", "onnx", "--out", str(out)]) == 0
    return out


def observations(rows: int = 10_000) -> np.ndarray[Any, np.dtype[np.float32]]:
    """In the log's range and beyond it."""
    return np.random.default_rng(3).normal(60, 5, (rows, 2)).astype(np.float32)


def away_from_edges(policy: gridcount.Policy, states: Any) -> Any:
    """Where an action is not at the edge of a bin, so that two ways to multiply matrices cannot count it
    differently."""
    edges, scaled = policy.log.actions.edges, policy.scaled(states)
    return (np.abs(scaled[..., None] - edges) > EDGE).all(axis=(1, 2))


@pytest.mark.parametrize(
    "guard",
    [
        Guard(),
        Guard(20, 8, "clone"),
        Guard(10, 0, "abstain"),
        Guard(5, 64, [30.0]),
        Guard(fallback="nearest"),
    ],
    ids=str,
)
def test_the_reader_makes_the_policys_guarded_decisions(run: Path, tmp_path: Path, guard: Guard) -> None:
    policy = load_policy(run)
    decider = Decider(policy.export(tmp_path / "out", guard))
    states = observations()
    states = states[away_from_edges(policy, states)]
    assert len(states) > 9_990
    made, told = policy.decide(states, guard), decider.decide(states)
    assert 0.05 < made.held.mean() < 0.95
    for name in ("held", "count", "uncertainty", "resolution"):
        np.testing.assert_array_equal(told[name], getattr(made, name), name)
    for name in (
        "action",
        "policy_action",
        "nearest_action",
    ):  # 1e-5 of the range of [-1, 1], in units of 0 to 100
        np.testing.assert_allclose(told[name], getattr(made, name), rtol=0, atol=5e-4, err_msg=name)
    one = decider.decide(states[7].tolist())
    for name in FIELDS:
        np.testing.assert_allclose(one[name], told[name][7], rtol=1e-6, err_msg=name)


def test_an_action_that_is_not_a_number_is_held_at_any_resolution(run: Path, tmp_path: Path) -> None:
    weights = [np.full((2, 2), 1e20, np.float32), np.array([[1], [-1]], np.float32)]
    network = Perceptron(weights, [np.zeros(2, np.float32), np.zeros(1, np.float32)], [], [])
    trained, guard = load_policy(run), Guard(min_count=1, resolution=0, fallback="nearest")
    policy = gridcount.Policy(Actor(network), trained.facts, seed=0, updates=1, counts=trained.log)
    decider, huge = Decider(policy.export(tmp_path / "out", guard)), np.full((3, 2), 1e30, np.float32)
    with np.errstate(all="ignore"):
        made, told = policy.decide(huge, guard), decider.decide(huge)
    assert np.isnan(made.policy_action).all()
    for held, action in ((made.held, made.action), (told["held"], told["action"])):
        assert held.all()
        assert np.isfinite(action).all()


def test_the_reader_needs_neither_gridcount_nor_jax_and_stays_short(exported: Path, run: Path) -> None:
    script = (
        "import sys\n"
        "sys.modules['gridcount'] = sys.modules['jax'] = None\n"  # importing them now fails
        f"sys.path.insert(0, {str(exported)!r})\n"
        "import json, decide\n"
        f"told = decide.Decider({str(exported)!r}).decide([61.5, 58.0])\n"
        "print(json.dumps([told['action'].tolist(), bool(told['held']), int(told['count'])]))\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout
    made = load_policy(run).decide([61.5, 58.0])
    action, held, count = json.loads(printed)
    assert (held, count) == (made.held, made.count)
    np.testing.assert_allclose(action, made.action, atol=1e-3)
    assert len((exported / "decide.py").read_text().splitlines()) < 100


def test_an_export_opens_as_a_policy_with_the_guard_of_its_contract(run: Path, tmp_path: Path) -> None:
    policy = load_policy(run)
    guard = Guard(min_count=25, fallback="abstain")
    again = gridcount.load_policy(policy.export(tmp_path / "out", guard))
    states = observations(500)
    np.testing.assert_allclose(again(states), policy(states), atol=1e-3)
    np.testing.assert_array_equal(again.decide(states).held, policy.decide(states, guard).held)
    np.testing.assert_allclose(
        again.decide(states).action, Decider(tmp_path / "out").decide(states)["action"]
    )
    assert again.default_guard.fallback == "abstain"
    assert np.isfinite(again.decide(states, Guard(fallback="nearest")).action).all()
    assert again.observation_names == policy.observation_names
    with pytest.raises(ValueError, match="one policy, seed 0; there is no seed 5"):
        load_policy(tmp_path / "out", seed=5)
    with pytest.raises(ValueError, match="read from an export; export the run"):
        again.export(tmp_path / "third")


@pytest.mark.parametrize("ends", [(0.0, 100.0), (-1.0, 1.0)])
@pytest.mark.parametrize("guard", [Guard(), Guard(min_count=10**6, fallback="nearest")], ids=str)
def test_decisions_of_an_export_are_values_of_the_log_where_these_are_few(
    run: Path, tmp_path: Path, ends: tuple[float, float], guard: Guard
) -> None:
    trained, shares = load_policy(run), np.array([0.0, 0.1, 0.3, 1.0])
    values = tuple((ends[0] + shares * (ends[1] - ends[0])).tolist())
    log = plant_log()
    places = np.abs(log.action - (2 * shares - 1)).argmin(axis=1)
    stepped = replace(log, action=(2 * shares - 1).astype(np.float32)[places, None])
    facts = replace(trained.facts, action_low=ends[:1], action_high=ends[1:], action_values=(values,))
    counts, clone = LogCounts.fit(stepped), random_actor(1000)
    policy = gridcount.Policy(random_actor(0), facts, seed=0, updates=1, counts=counts, clone=clone)
    decider, states = Decider(policy.export(tmp_path / "out", guard)), observations()
    again = load_policy(tmp_path / "out")
    made, told, opened = policy.decide(states, guard), decider.decide(states), again.decide(states)
    assert made.held.mean() > 0.05
    assert len(np.unique(made.policy_action)) == len(values)
    for name in FIELDS:
        np.testing.assert_array_equal(told[name], getattr(made, name), name)
        np.testing.assert_array_equal(getattr(opened, name), getattr(made, name), name)
    for action in (made.policy_action, made.nearest_action, made.action[np.isfinite(made.action)]):
        assert set(action.ravel().tolist()) <= set(values)
    np.testing.assert_allclose(again(states), policy(states), rtol=0, atol=5e-4)  # continuous in both
    assert len(np.unique(again(states))) > 1000
    np.testing.assert_array_equal(again.rounded(states), policy.rounded(states))


def test_the_graph_alone_gives_values_of_the_log_and_keeps_what_is_not_a_number(tmp_path: Path) -> None:
    from gridcount.policy.export.graph import actor_model

    few = FewValues.of([(0.0, 1.0, 4.0), ()], [0, 0], [4, 1])
    network = Perceptron([np.eye(2, dtype=np.float32)], [np.zeros(2, np.float32)], [], [])
    model = actor_model(Actor(network), 2, [0, 0], [4, 1], "x", few)
    graph = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    states = np.array([[-9, 0.2], [-0.4, 9], [0.3, 0], [0.2, 0], [np.nan, 0]], np.float32)
    action, scaled = graph.run(["action", "scaled_action"], {"observation": states})
    np.testing.assert_array_equal(action[:, 0], [0, 1, 4, 1, np.nan])
    np.testing.assert_array_equal(scaled[:, 0], [-1, -0.5, 1, -0.5, np.nan])
    np.testing.assert_allclose(scaled[:4, 1], np.tanh(states[:4, 1]), rtol=1e-6)


@pytest.mark.parametrize("columns", [[(5.0,), ()], [(5.0,), (0.0, 1.0)]])
def test_the_graph_of_an_action_that_never_varies_gives_its_value(columns: list[tuple[float, ...]]) -> None:
    from gridcount.policy.export.graph import actor_model

    few = FewValues.of(columns, [0, 0], [10, 1])
    network = Perceptron([np.eye(2, dtype=np.float32)], [np.zeros(2, np.float32)], [], [])
    model = actor_model(Actor(network), 2, [0, 0], [10, 1], "x", few)
    graph = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    states = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    action, scaled = graph.run(["action", "scaled_action"], {"observation": states})
    assert action.shape == scaled.shape == (20, 2)
    np.testing.assert_array_equal(action[:, 0], 5)
    np.testing.assert_array_equal(scaled[:, 0], 0)


def test_nothing_is_exported_if_the_graph_rounds_otherwise_than_the_policy(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = load_policy(run)
    facts = replace(trained.facts, action_values=((0.0, 30.0, 100.0),))
    policy = gridcount.Policy(
        random_actor(0), facts, seed=0, updates=1, counts=LogCounts.fit(plant_log()), clone=random_actor(1)
    )
    right = FewValues.round
    monkeypatch.setattr(FewValues, "round", lambda few, *args: right(few, *args) + 1)
    with pytest.raises(RuntimeError, match="nothing was exported"):
        policy.export(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_contract_says_what_goes_in_and_comes_out(exported: Path) -> None:
    contract = json.loads((exported / "contract.json").read_text())
    assert [column["name"] for column in contract["observation"]] == ["temp in", "temp_out"]
    assert contract["action"] == [{"name": "valve", "low": 0.0, "high": 100.0, "values": []}]
    low, high = contract["observation"][0]["low"], contract["observation"][0]["high"]
    assert 40 < low < 60 < high < 80
    assert contract["fingerprint"] == "0123456789abcdef"
    assert contract["guard"]["fallback"] == "clone-or-abstain"
    assert {"gridcount", "onnx", "onnxruntime"} <= contract["versions"].keys()


def test_a_folder_is_not_overwritten_by_accident(exported: Path, run: Path, tmp_path: Path) -> None:
    policy = load_policy(run)
    with pytest.raises(FileExistsError, match="--replace overwrites it"):
        policy.export(exported)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not an export"):
        policy.export(tmp_path, replace=True)
    assert policy.export(exported, replace=True) == exported


def test_a_graph_that_would_act_differently_is_not_written(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other(OnnxActor):
        def __call__(self, observation: Any) -> Any:
            return super().__call__(observation) + np.float32(1e-3)

    monkeypatch.setattr(exports, "OnnxActor", Other)
    with pytest.raises(RuntimeError, match=r"differ by 0\.001 .* nothing was exported"):
        load_policy(run).export(tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("policy.onnx", b"not a network", "policy.onnx: the network cannot be used"),
        ("contract.json", b'{"format": 1}', "contract.json: 'algorithm' is missing"),
        ("counts.npz", b"PK", "counts.npz: the policy is damaged"),
    ],
)
def test_a_damaged_export_is_named(
    run: Path, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    out = load_policy(run).export(tmp_path / "out")
    (out / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_policy(out)


def test_a_network_of_other_dimensions_is_not_used(run: Path, tmp_path: Path) -> None:
    from gridcount.policy.export.graph import actor_model

    out = load_policy(run).export(tmp_path / "out")
    wide = Perceptron([np.ones((3, 1), np.float32)], [np.zeros(1, np.float32)], [], [])
    (out / "policy.onnx").write_bytes(actor_model(Actor(wide), 3, [0], [1], "x").SerializeToString())
    with pytest.raises(ValueError, match="it maps 3 numbers to 1, not 2 to 1"):
        load_policy(out)

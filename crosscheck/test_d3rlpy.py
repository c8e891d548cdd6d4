"""Losses of CQL, IQL and TD3+BC beside d3rlpy's, an implementation nobody here wrote: same batch, same
weights, same random numbers.

d3rlpy wants PyTorch and an old Gymnasium, so this runs in a virtual environment of its own: `make
crosscheck`, which also records what came out in results/crosscheck.json.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import d3rlpy
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from d3rlpy.models.encoders import VectorEncoderFactory
from d3rlpy.torch_utility import TorchMiniBatch
from torch import nn

from gridcount.algorithms.cql import CQL
from gridcount.algorithms.iql import IQL
from gridcount.algorithms.td3_bc import TD3BC
from gridcount.transitions import Transitions

ROWS, OBSERVATION, ACTION, HIDDEN = 64, 5, 3, (32, 32)
TOLERANCE = 1e-4
RECORD = Path(__file__).parent.parent / "results" / "crosscheck.json"
ENCODER = VectorEncoderFactory(list(HIDDEN))
FIELDS: dict[str, Any] = {
    "hidden": HIDDEN,
    "batch_size": ROWS,
    "critic_rate": 0.0,
}  # critics stand still: policies see those the losses saw
found: dict[str, dict[str, float]] = {}


@pytest.fixture(scope="module", autouse=True)
def record() -> Iterator[None]:
    yield
    versions = {"d3rlpy": d3rlpy.__version__, "torch": torch.__version__, "jax": jax.__version__}
    RECORD.write_text(
        json.dumps({"versions": versions, "tolerance": TOLERANCE, "losses": found}, indent=2) + "\n"
    )


def agree(name: str, ours: Any, theirs: Any) -> None:
    theirs = theirs.detach()
    found[name] = {"gridcount": float(ours), "d3rlpy": float(theirs)}
    assert abs(float(ours)) > 1e-3  # a loss of 0 would agree with anything
    assert float(ours) == pytest.approx(float(theirs), rel=TOLERANCE)


def log() -> Transitions:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(2, ROWS, OBSERVATION)).astype(np.float32)
    action = rng.uniform(-0.95, 0.95, (ROWS, ACTION)).astype(np.float32)
    reward = rng.normal(size=ROWS).astype(np.float32)
    terminated = rng.uniform(size=ROWS) < 0.2
    return Transitions(states[0], action, reward, states[1], terminated, terminated)


def livelier(state: Any) -> Any:
    """A state whose networks are far from their small beginnings, the targets each its own way."""
    rng = np.random.default_rng(1)
    networks = [name for name in state._fields if name.endswith(("policy", "critics", "value"))]
    moved = jax.tree.map(
        lambda leaf: leaf + 0.2 * jnp.asarray(rng.normal(size=leaf.shape), jnp.float32),
        {n: getattr(state, n) for n in networks},
    )
    return state._replace(**moved)


def theirs_of(batch: Any) -> TorchMiniBatch:
    column = {
        name: torch.tensor(np.array(getattr(batch, name)))
        for name in ("observation", "action", "next_observation")
    }
    flat = {name: torch.tensor(np.array(getattr(batch, name)))[:, None] for name in ("reward", "terminated")}
    return TorchMiniBatch(
        observations=column["observation"],
        actions=column["action"],
        rewards=flat["reward"],
        next_observations=column["next_observation"],
        next_actions=torch.zeros_like(column["action"]),
        returns_to_go=torch.zeros_like(flat["reward"]),
        terminals=flat["terminated"].float(),
        intervals=torch.ones_like(flat["reward"]),
        device="cpu:0",
    )


def copy_weights(module: nn.Module, weights: list[Any], biases: list[Any]) -> None:
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    assert len(layers) == len(weights)
    with torch.no_grad():
        for layer, weight, bias in zip(layers, weights, biases, strict=True):
            layer.weight.copy_(torch.tensor(np.array(weight).T))
            layer.bias.copy_(torch.tensor(np.array(bias)))


def copy_critics(modules: Any, ours: Any) -> None:
    for i, module in enumerate(modules):
        copy_weights(module, [w[i] for w in ours.members.weights], [b[i] for b in ours.members.biases])


class Given:
    """Random numbers handed to PyTorch one after the other, instead of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *numbers: Any):
        queue = [torch.tensor(np.array(each)) for each in numbers]
        monkeypatch.setattr(
            torch.distributions.Normal, "rsample", lambda self, shape=(): self.loc + self.scale * queue.pop(0)
        )
        monkeypatch.setattr(torch, "randn", lambda *shape, **_: queue.pop(0))
        monkeypatch.setattr(
            torch.Tensor, "uniform_", lambda self, low, high: queue.pop(0).reshape(self.shape)
        )
        self.queue = queue


def test_cql(monkeypatch: pytest.MonkeyPatch) -> None:
    # d3rlpy bootstraps the mean action where entropy is left out
    algorithm = CQL(**FIELDS, entropy_backup=True, conservatism=5.0)
    prepared = algorithm.prepare(log())
    batch = jax.tree.map(jnp.asarray, prepared.rows)
    fresh = algorithm.init(jax.random.key(0), prepared.rows)
    state = fresh._replace(learner=livelier(fresh.learner))
    key = jax.random.key(7)
    after, metrics = algorithm.update(state, batch, key)

    theirs = d3rlpy.algos.CQLConfig(
        conservative_weight=5.0,
        alpha_threshold=0.0,
        initial_alpha=1.0,
        alpha_learning_rate=0.0,
        temp_learning_rate=0.0,
        n_action_samples=10,
        soft_q_backup=True,
        actor_encoder_factory=ENCODER,
        critic_encoder_factory=ENCODER,
        gamma=0.99,
    ).create(device="cpu:0")
    theirs.create_impl((OBSERVATION,), ACTION)
    impl: Any = theirs.impl
    learner = state.learner
    copy_critics(impl._modules.q_funcs, learner.critics)
    copy_critics(impl._modules.targ_q_funcs, learner.target_critics)
    *weights, last = learner.policy.trunk.weights
    *biases, last_bias = learner.policy.trunk.biases
    copy_weights(
        impl._modules.policy, [*weights, *np.split(last, 2, axis=1)], [*biases, *np.split(last_bias, 2)]
    )
    with torch.no_grad():
        next(impl._modules.log_temp.parameters()).fill_(
            float(after.learner.log_temperature)
        )  # ours tunes it before it is used

    draw_key, sample_key = jax.random.split(key)
    action_key, next_key = jax.random.split(draw_key)
    uniform_key, policy_key, sampled_next_key = jax.random.split(sample_key, 3)
    many = (10, ROWS, ACTION)
    uniform = jax.random.uniform(uniform_key, many, minval=-1, maxval=1)
    given = Given(
        monkeypatch,
        jax.random.normal(next_key, (ROWS, ACTION)),
        jax.random.normal(policy_key, many),
        jax.random.normal(sampled_next_key, many),
        jnp.swapaxes(uniform, 0, 1),
        jax.random.normal(action_key, (ROWS, ACTION)),
    )
    mini = theirs_of(batch)
    loss = impl.compute_critic_loss(mini, impl.compute_target(mini))
    agree("CQL, critics", metrics["critic_loss"], loss.critic_loss)
    agree("CQL, its conservative part", 5.0 * 2 * metrics["gap"], loss.conservative_loss)
    policy = impl.compute_actor_loss(mini, impl._modules.policy(mini.observations))
    agree("CQL, policy", metrics["policy_loss"], policy.actor_loss)
    assert not given.queue


def test_iql() -> None:
    algorithm = IQL(**FIELDS, value_rate=0.0)
    prepared = algorithm.prepare(log())
    batch = jax.tree.map(jnp.asarray, prepared.rows)
    state = livelier(algorithm.init(jax.random.key(0), prepared.rows))
    _, metrics = algorithm.update(state, batch, jax.random.key(7))

    config = d3rlpy.algos.IQLConfig(
        actor_encoder_factory=ENCODER,
        critic_encoder_factory=ENCODER,
        value_encoder_factory=ENCODER,
        expectile=0.7,
        weight_temp=3.0,
    )
    theirs = config.create(device="cpu:0")
    theirs.create_impl((OBSERVATION,), ACTION)
    impl: Any = theirs.impl
    copy_critics(impl._modules.q_funcs, state.critics)
    copy_critics(impl._modules.targ_q_funcs, state.target_critics)
    copy_weights(impl._modules.value_func, state.value.weights, state.value.biases)
    policy = impl._modules.policy
    copy_weights(policy, state.policy.trunk.weights, state.policy.trunk.biases)
    low, high = policy._min_logstd, policy._max_logstd
    share = (np.array(state.policy.log_std) - low) / (
        high - low
    )  # d3rlpy keeps the deviations behind a sigmoid
    with torch.no_grad():
        policy._logstd.copy_(torch.tensor(np.log(share / (1 - share)))[None])

    mini = theirs_of(batch)
    loss = impl.compute_critic_loss(mini, impl.compute_target(mini))
    agree("IQL, critics", metrics["critic_loss"], loss.q_loss)
    agree("IQL, V", metrics["value_loss"], loss.v_loss)
    agree(
        "IQL, policy",
        metrics["policy_loss"],
        impl.compute_actor_loss(mini, policy(mini.observations)).actor_loss,
    )


def test_td3_bc(monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm = TD3BC(**FIELDS, normalise=False, policy_every=1)
    prepared = algorithm.prepare(log())
    batch = jax.tree.map(jnp.asarray, prepared.rows)
    fresh = algorithm.init(jax.random.key(0), prepared.rows)
    state = fresh._replace(learner=livelier(fresh.learner))
    key = jax.random.key(7)
    _, metrics = algorithm.update(state, batch, key)

    config = d3rlpy.algos.TD3PlusBCConfig(
        actor_encoder_factory=ENCODER, critic_encoder_factory=ENCODER, alpha=2.5
    )
    theirs = config.create(device="cpu:0")
    theirs.create_impl((OBSERVATION,), ACTION)
    impl: Any = theirs.impl
    learner = state.learner
    copy_critics(impl._modules.q_funcs, learner.critics)
    copy_critics(impl._modules.targ_q_funcs, learner.target_critics)
    copy_weights(impl._modules.policy, learner.policy.trunk.weights, learner.policy.trunk.biases)
    copy_weights(
        impl._modules.targ_policy, learner.target_policy.trunk.weights, learner.target_policy.trunk.biases
    )

    Given(monkeypatch, jax.random.normal(key, (ROWS, ACTION)))
    mini = theirs_of(batch)
    agree(
        "TD3+BC, critics",
        metrics["critic_loss"],
        impl.compute_critic_loss(mini, impl.compute_target(mini)).critic_loss,
    )
    agree(
        "TD3+BC, policy",
        metrics["policy_loss"],
        impl.compute_actor_loss(mini, impl._modules.policy(mini.observations)).actor_loss,
    )

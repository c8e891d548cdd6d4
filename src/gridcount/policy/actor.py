"""An actor: the arrays that map observations to actions.

Every algorithm gives its policy in this form (`actor` of the contract), so training, files and exports share
one definition. The same code runs on NumPy arrays and, compiled, on JAX's: this module imports neither JAX
nor a learner.
"""

from typing import Any, NamedTuple

EPSILON = 1e-5  # of LayerNorm


class Perceptron(NamedTuple):
    """Fully connected ReLU layers, optionally layer-normalised before or after each ReLU, and a linear
    output."""

    weights: list[Any]  # [in, out] each
    biases: list[Any]  # [out] each
    gains: list[Any]  # [hidden] each: LayerNorm's scale; empty without LayerNorm
    shifts: list[Any]  # [hidden] each: LayerNorm's offset
    norm_after: bool = False  # whether LayerNorm comes after the ReLU

    def __call__(self, x: Any) -> Any:
        """[rows, in] -> [rows, out]."""
        array_of = x.__array_namespace__()
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = x @ weight + bias
            if layer < len(self.weights) - 1:
                x = array_of.maximum(x, 0) if self.norm_after else x
                x = self._normalised(x, layer) if self.gains else x
                x = x if self.norm_after else array_of.maximum(x, 0)
        return x

    def _normalised(self, x: Any, layer: int) -> Any:
        array_of = x.__array_namespace__()
        centred = x - x.mean(axis=-1, keepdims=True)
        unit = centred / array_of.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
        return unit * self.gains[layer] + self.shifts[layer]


class Candidates(NamedTuple):
    """Actions of which the one with the largest value is taken (UWAC)."""

    # [candidates, action_dim] fixed draws in deviations of the policy's Gaussian, so that acting is a
    # function
    noise: Any
    log_std_low: float  # the Gaussian's log-deviation stays within these
    log_std_high: float
    critic: Perceptron  # of (observation, action)


class Actor(NamedTuple):
    """A policy: observations in the log's units -> actions in [-1, 1]."""

    network: (
        Perceptron  # its outputs are the actions before the tanh; with candidates also their log-deviations
    )
    # [seen] columns of the observation that the network sees, in its order; None: all, as they are
    columns: Any = None
    mean: Any = None  # [seen] subtracted from each column; None: nothing
    deviation: Any = None  # [seen] divisor of each column
    candidates: Candidates | None = None  # None: the network's output is the action

    def __call__(self, observation: Any) -> Any:
        """[rows, observation_dim] -> [rows, action_dim]."""
        array_of = observation.__array_namespace__()
        seen = observation if self.columns is None else observation[..., self.columns]
        seen = seen if self.mean is None else (seen - self.mean) / self.deviation
        output = self.network(seen)
        return array_of.tanh(output) if self.candidates is None else self._best(seen, output)

    def _best(self, seen: Any, output: Any) -> Any:
        """Of a Gaussian's candidates, squashed, the one that the critic values most."""
        array_of, chosen = seen.__array_namespace__(), self.candidates
        assert chosen is not None
        mean, log_std = array_of.split(output, 2, axis=-1)
        spread = array_of.exp(array_of.clip(log_std, chosen.log_std_low, chosen.log_std_high))
        actions = array_of.tanh(mean + spread * chosen.noise[:, None, :])  # [candidates, rows, action_dim]
        repeated = array_of.broadcast_to(seen, (*actions.shape[:2], seen.shape[-1]))
        pairs = array_of.concatenate([repeated, actions], axis=-1)
        values = chosen.critic(pairs.reshape(-1, pairs.shape[-1])).reshape(actions.shape[:2])
        best = values.argmax(axis=0)
        return array_of.take_along_axis(actions, best[None, :, None], axis=0)[0]

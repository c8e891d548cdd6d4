"""Tabular MDPs: u against the LCB bonus, and how often each covers the error of the empirical Bellman
operator."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.counts.counter import GridCounter
from gridcount.theory.bonus import Float, count_bonus, gram, hoeffding_promise, lcb_bonus
from gridcount.transitions import Transitions

EPOCHS = (1, 2, 3, 5, 10, 100)  # T where the Hoeffding bound is checked
TRAINING = (1, 3, 10, 30, 100, 300, 1000)  # epochs at which a training run's own counts are looked at
VISITS = 2 * 256 * 1000  # pairs (s, a~pi) and (s', a'~pi) that 1,000 updates of 256 rows count


class TabularMDP(NamedTuple):
    """A finite MDP whose every number is known."""

    reward: Float  # [states, actions]
    transition: Float  # [states, actions, next states]
    behaviour: Float  # [states, actions] how the log is drawn: sums to 1
    discount: float

    @property
    def pairs(self) -> int:
        """How many (s, a) there are."""
        return self.reward.size

    def backup(self, value: Float, transition: Float) -> Float:
        """(B V)(s, a) = r + discount * E V(s'), under a transition table."""
        return np.asarray(self.reward + self.discount * transition @ value)

    def optimal_value(self, transition: Float) -> Float:
        """V* by value iteration, under a transition table."""
        value = np.zeros(len(self.reward))
        for _ in range(300):
            value = self.backup(value, transition).max(axis=1)
        return value


def random_mdp(
    rng: np.random.Generator, states: int = 10, actions: int = 3, branches: int = 4, discount: float = 0.9
) -> TabularMDP:
    """A Garnet problem: each pair leads to a few random states; the log prefers some pairs much to others."""
    transition = np.zeros((states, actions, states))
    for s, a in np.ndindex(states, actions):
        transition[s, a, rng.choice(states, branches, replace=False)] = rng.dirichlet(np.ones(branches))
    behaviour = rng.dirichlet(np.full(states * actions, 2.0)).reshape(states, actions)
    return TabularMDP(rng.random((states, actions)) * (1 - discount), transition, behaviour, discount)


def draw_log(mdp: TabularMDP, rows: int, rng: np.random.Generator) -> tuple[Transitions, NDArray[np.int64]]:
    """A log in the project's own type, one grid cell per state and per action, and the index of each row's
    pair."""
    states, actions = mdp.reward.shape
    pair = rng.choice(mdp.pairs, rows, p=mdp.behaviour.ravel())
    s, a = np.divmod(pair, actions)
    edges = mdp.transition.cumsum(axis=2)[s, a]
    following = np.minimum((rng.random((rows, 1)) > edges).sum(axis=1), states - 1)
    ends = np.zeros(rows, np.bool_)
    log = Transitions(
        as_state(s),
        as_action(a, actions),
        mdp.reward[s, a].astype(np.float32),
        as_state(following),
        ends,
        ends,
        "tabular",
    )
    return log, pair


def as_state(s: NDArray[np.int64]) -> NDArray[np.float32]:
    """A state's number as an observation."""
    return s[:, None].astype(np.float32)


def as_action(a: NDArray[np.int64], actions: int) -> NDArray[np.float32]:
    """An action's number on [-1, 1]."""
    return (2 * a[:, None] / (actions - 1) - 1).astype(np.float32)


def equality(
    seed: int = 0, rows: int = 400, pessimism: float = 1.7, epochs: tuple[int, ...] = (1, 9, 999)
) -> dict[str, Any]:
    """The project's u beside Gamma_lcb with one-hot features, at every pair of a log: the largest relative
    differences."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng)
    states, actions = mdp.reward.shape
    log, pair = draw_log(mdp, rows, rng)
    counter = GridCounter.fit(log, bins=actions - 1, state_bins=states - 1, pessimism=pessimism)
    s, a = np.divmod(np.arange(mdp.pairs), actions)
    one_hot, everywhere = np.eye(mdp.pairs)[pair], np.eye(mdp.pairs)
    count = np.bincount(pair, minlength=mdp.pairs)
    seen = count > 0
    with_itself, without = 0.0, 0.0
    for epoch in epochs:
        log_epoch = np.log(epoch + 1.0)
        u = counter.uncertainty(as_state(s), as_action(a, actions), epoch)
        gamma = lcb_bonus(everywhere, gram(one_hot, 1.0), pessimism * np.sqrt(log_epoch))
        with_itself = max(with_itself, float(np.abs(u / gamma - 1).max()))
        bare = count_bonus(count[seen], log_epoch, pessimism)
        without = max(without, float((bare / gamma[seen]).max()))
    return {
        "pairs": mdp.pairs,
        "unseen_pairs": int((~seen).sum()),
        "largest_relative_difference": with_itself,  # u with n + 1 against ridge 1
        # u with n against ridge 1: sqrt((n + 1) / n), sqrt(2) at n = 1
        "largest_ratio_without_ridge": without,
    }


def printed_features(
    counts: tuple[int, ...] = (1, 10, 100), epochs: tuple[int, ...] = (2, 10, 1000), ridge: float = 1.0
) -> list[dict[str, float]]:
    """Lemma A.2's own construction, phi = (ln T)^(1/4) e_i: what it prints, and what the definition of
    Gamma_lcb gives."""
    rows = []
    for epoch in epochs:
        log_epoch = np.log(epoch)
        phi = np.array([[log_epoch**0.25]])
        for n in counts:
            lam = gram(np.repeat(phi, n, axis=0), ridge)
            rows.append(
                {
                    "epoch": epoch,
                    "count": n,
                    "statement": float(
                        log_epoch / np.sqrt(n + ridge)
                    ),  # the lemma's line: ln T / sqrt(n + ridge)
                    "last_line": float(
                        np.sqrt(log_epoch / (n + ridge))
                    ),  # its proof's last line: sqrt(ln T / (n + ridge))
                    "definition": float(
                        lcb_bonus(phi, lam)[0]
                    ),  # Eq. 12 with its features: sqrt(1 / (n + ridge / sqrt(ln T)))
                }
            )
    return rows


def coverage(seed: int = 0, rows: int = 600, logs: int = 2000) -> list[dict[str, float]]:
    """Over many logs, how often |B_hat V - B V| <= u at each pair the log holds, for V fixed beforehand
    and V learnt from the log."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng)
    fixed = mdp.optimal_value(mdp.transition)
    errors: dict[str, list[Float]] = {"fixed": [], "learnt": []}
    counts: list[NDArray[np.int64]] = []
    for _ in range(logs):
        count, frequency = draw_model(mdp, rows, rng)
        # value iteration is the slow part
        learnt = mdp.optimal_value(frequency) if len(counts) < logs // 10 else None
        for name, value in (("fixed", fixed), ("learnt", learnt)):
            if value is not None:
                error = mdp.backup(value, frequency) - mdp.backup(value, mdp.transition)
                errors[name].append(
                    np.abs(error).ravel() / (mdp.discount * np.ptp(value))
                )  # in units of the targets' range
        counts.append(count.ravel())
    result = []
    for epoch in EPOCHS:
        row: dict[str, float] = {"epoch": epoch, "promise": hoeffding_promise(epoch)}
        for name, per_log in errors.items():
            n = np.array(counts[: len(per_log)])
            seen = n > 0
            covered = (np.array(per_log) <= count_bonus(np.maximum(n, 1), np.log(epoch))) & seen
            row[f"{name}_mean"] = float(covered.sum() / seen.sum())
            row[f"{name}_worst_pair"] = float((covered.sum(axis=0) / seen.sum(axis=0)).min())
        result.append(row)
    return result


def draw_model(mdp: TabularMDP, rows: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], Float]:
    """A log's counts n(s, a), and its empirical transition frequencies (uniform where it holds nothing)."""
    count = rng.multinomial(rows, mdp.behaviour.ravel()).reshape(mdp.reward.shape)
    following = rng.multinomial(count, mdp.transition)
    frequency = np.where(
        count[..., None] > 0, following / np.maximum(count, 1)[..., None], 1 / len(mdp.reward)
    )
    return count, frequency


def training_counts(
    seed: int = 0, rows: int = 600, logs: int = 300, share: float = 0.9
) -> list[dict[str, float]]:
    """The same coverage while a run trains: n counted on the log, as the lemma needs, and on the policy's
    visits, as training does."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng)
    value = mdp.optimal_value(mdp.transition)
    policy = rng.dirichlet(np.ones(mdp.reward.shape[1]), len(mdp.reward))
    result = []
    for epoch in TRAINING:
        log_epoch = np.log(epoch + 1.0)
        ratio: dict[str, list[Float]] = {"data": [], "policy": []}
        bonus: dict[str, list[float]] = {"data": [], "policy": []}
        for _ in range(logs):
            count, frequency = draw_model(mdp, rows, rng)
            error = np.abs(mdp.backup(value, frequency) - mdp.backup(value, mdp.transition)) / (
                mdp.discount * np.ptp(value)
            )
            visits = rng.multinomial(
                VISITS * epoch, (count.sum(axis=1, keepdims=True) / rows * policy).ravel()
            ).reshape(count.shape)
            for name, n in (("data", count), ("policy", visits)):
                u = count_bonus(n + 1, log_epoch)
                ratio[name].append((error / u)[count > 0])
                bonus[name].append(float(u.mean()))
        row: dict[str, float] = {"epoch": epoch}
        for name in ratio:
            every = np.concatenate(ratio[name])
            row |= {
                f"{name}_coverage": float((every <= 1).mean()),
                f"{name}_smallest_c": float(np.quantile(every, share)),
                f"{name}_bonus": float(np.mean(bonus[name])),
            }
        result.append(row)
    return result

"""The policies of a run: from its folder `policy/`, or without one from its last checkpoint."""

from pathlib import Path

from gridcount.files.archive import numbered
from gridcount.policy.export.folder import is_export
from gridcount.policy.policy import Policy, has_policy, load_policy, policy_folder
from gridcount.policy.store import read_facts
from gridcount.training.experiment import load_again
from gridcount.training.logs import headline, read_rows
from gridcount.training.plan import read_plan
from gridcount.training.restoring import host_actor, restore_policies
from gridcount.training.run import policy_facts

LAST, ORACLE = "last", "oracle"


def policies_of(path: Path, *, seed: int | None = None, at: int | str = LAST) -> list[Policy]:
    """The policies of a run directory, or of a folder `policy/`: each seed's, or one seed's; the one of an
    export.

    `at` is a number of updates whose policies were kept, "last", or "oracle": the kept one with the best
    score in training, which needs an environment.
    """
    if is_export(path):
        return [load_policy(path, seed=seed, at=None if isinstance(at, str) else at)]
    if not has_policy(path):
        return _from_checkpoint(path, seed, at)
    facts = read_facts(policy_folder(path))
    seeds = facts.seeds if seed is None else (seed,)
    if at == ORACLE:
        return [load_policy(path, seed=each, at=_best(path, each)) for each in seeds]
    return [load_policy(path, seed=each, at=None if isinstance(at, str) else at) for each in seeds]


def _best(path: Path, seed: int) -> int:
    """The kept number of updates after which a seed scored best."""
    run = path if (path / "config.json").is_file() else path.parent
    kept = {int(file.stem) for file in numbered(policy_folder(path))}
    found = [row for row in read_rows(run) if row["seed"] == seed and row["updates"] in kept]
    scores = {row["updates"]: headline(row)[1] for row in found}
    scored: dict[int, float] = {updates: score for updates, score in scores.items() if score is not None}
    if not scored:
        raise ValueError(
            f"{run}: no kept policy of seed {seed} was scored in training, so there is no best one; use last"
            " instead"
        )
    return max(scored, key=lambda updates: scored[updates])


def _from_checkpoint(run: Path, seed: int | None, at: int | str) -> list[Policy]:
    """The policies in a run's last checkpoint; reading them needs the training data."""
    plan = read_plan(run)
    if seed is not None and seed not in plan.seeds:
        raise ValueError(f"{run}: there is no seed {seed}; it holds {', '.join(map(str, plan.seeds))}")
    prepared, data = load_again(run)
    states, _, done = restore_policies(run, prepared)
    if at not in (LAST, done):
        raise ValueError(
            f"{run}: only the policy of its last checkpoint is available, after {done:,} updates"
        )
    facts = policy_facts(plan, data)
    found = zip(plan.seeds, states, strict=True)
    return [
        Policy(host_actor(prepared, state), facts, seed=each, updates=done)
        for each, state in found
        if seed in (None, each)
    ]

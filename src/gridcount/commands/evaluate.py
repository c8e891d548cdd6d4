"""`gridcount evaluate`: roll out a trained policy and print its score."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from gridcount.evaluation.environments import ENVIRONMENTS, dimensions, find, trust, validate_dimensions
from gridcount.evaluation.rollouts import evaluate as roll_out
from gridcount.report.headline import scores_table
from gridcount.terminal import make_console, validate_flags
from gridcount.training.plan import read_plan
from gridcount.training.policies import ORACLE, policies_of


@dataclass(frozen=True)
class Evaluate:
    """Roll out the policies of a run, by default those of its last checkpoint."""

    run: tyro.conf.Positional[Path]  # a run directory, or a folder policy/ copied from one
    episodes: int = 100  # episodes per seed
    seed: int | None = None  # only the policy of this seed; by default each seed's
    # "last", a number of updates whose policy was kept, or "oracle": the kept one with the best score in
    # training
    at: str = "last"
    starts: int = 0  # seed of the start states
    env: str | None = None  # a dataset's name or a Gymnasium id; by default the run's own


def evaluate(words: list[str]) -> int:
    """Score trained policies."""
    validate_flags(words, Evaluate)
    options = tyro.cli(Evaluate, args=words, prog="gridcount evaluate")
    console = make_console()
    if options.starts < 0:
        raise ValueError(f"--starts is {options.starts}; it must be at least 0")
    if options.episodes < 1:
        raise ValueError(f"--episodes is {options.episodes}; it must be at least 1")
    environment = _environment(options)
    policies = policies_of(options.run, seed=options.seed, at=_at(options.at))
    first = policies[0]
    validate_dimensions(environment, len(first.observation_names), len(first.action_names))
    results = {
        policy.seed: roll_out(
            policy,
            environment,
            options.episodes,
            options.starts,
            observation_dim=len(first.observation_names),
        ).summary()
        for policy in policies
    }
    chosen = " (oracle: chosen by its score)" if options.at == ORACLE else ""
    updates = " or ".join(f"{each:,}" for each in sorted({policy.updates for policy in policies}))
    title = f"{first.algorithm} on {first.facts.dataset} after {updates} updates{chosen}, {options.episodes} episodes per seed"
    console.print(scores_table(title, results))
    return 0


def _environment(options: Evaluate) -> str:
    """The environment for the roll-outs; created once, before anything is read."""
    named = options.env
    if named is None and (options.run / "config.json").is_file():
        named = read_plan(options.run).environment
    if named is None:
        raise ValueError(
            f"{options.run}: the run was trained without an environment; name one with --env: a Gymnasium"
            f" id, or {', '.join(ENVIRONMENTS)}"
        )
    if options.env is not None:
        trust(options.env)
    try:
        find(named)
    except ValueError as error:
        raise ValueError(f"{options.run / 'config.json'}: 'environment': {error}") from error
    dimensions(named)
    return named


def _at(text: str) -> int | str:
    """The number of updates in --at, or its keyword."""
    if not text.isdecimal() and text not in ("last", ORACLE):
        raise ValueError(f"--at is '{text}'; it must be a number of updates, last or {ORACLE}")
    return int(text) if text.isdecimal() else text

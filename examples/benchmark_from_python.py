"""Compare two algorithms over seeds: train both on the same log, score their policies in a simulator.

Run it with: python examples/benchmark_from_python.py
It needs the extra `envs`. For larger comparisons use `gridcount benchmark`, which keeps results and resumes.
"""

from pathlib import Path

import numpy as np

import gridcount as gc
from gridcount.envs.plant_logs import write_log

FOLDER = Path("runs/compare")
ENVIRONMENT = "gridcount/fan-v0"
SEEDS = 3

FOLDER.mkdir(parents=True, exist_ok=True)
log = write_log("fan", FOLDER / "fan.csv", 5000, seed=0)  # what the fan's own controller did
data = gc.load(log, gc.Columns(observation="*", action="fan"), action_bounds=(0, 100))
print(f"the log: {len(data):,} transitions, mean return {data.episode_returns.mean():.1f}")

for name in ("bc", "gpc-anchor"):
    run = gc.train(
        data, name, seeds=SEEDS, updates=2000, evaluate_every=2000, hidden=(64, 64), progress=False
    )
    results = [
        gc.evaluate(run.policy(seed=seed), ENVIRONMENT, episodes=10, seed=100) for seed in range(SEEDS)
    ]
    returns = np.array(
        [result.returns.mean() for result in results]
    )  # one mean per seed, on the same start states
    print(f"{name:10} {returns.mean():.1f} ± {returns.std():.1f} over {SEEDS} seeds ({run.directory})")

"""What the logs of the paper's 21 tasks score: python benchmarks/tasks.py FOLDER, which holds NAME.hdf5 of each.

The mazes are generated. Their logs are cut where the controller gets a new goal, so their score is that of
the mean reward over the limit of an episode. Results go to results/tasks.json, for the table in the docs.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from gridcount.benchmark.suites import read_suite
from gridcount.catalogue import FAMILIES, MAZE_NAMES, family_of, normalised_score
from gridcount.data.load import load
from gridcount.training.plan import fingerprint

RESULTS = Path(__file__).parent.parent / "results" / "tasks.json"


def log_score(name: str, source: str) -> dict[str, Any]:
    """A log's size, the mean score of its episodes and its standard error."""
    data, family = load(source), family_of(name)
    assert family is not None
    if name in MAZE_NAMES:
        returns = np.array([data.reward.mean(dtype=np.float64) * FAMILIES[family].limit])
    else:
        returns = data.episode_returns
    scores = np.array([normalised_score(family, float(each)) for each in returns])
    facts = {"transitions": len(data), "fingerprint": fingerprint(data), "score": float(scores.mean())}
    if len(scores) > 1:
        facts["standard_error"] = float(scores.std(ddof=1) / len(scores) ** 0.5)
    return facts


if __name__ == "__main__":
    found = {}
    for name in read_suite("paper/table").datasets:
        file = Path(sys.argv[1]) / f"{name}.hdf5"
        if name in MAZE_NAMES or file.is_file():
            found[name] = log_score(name, name if name in MAZE_NAMES else str(file))
            print(name, found[name], flush=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")

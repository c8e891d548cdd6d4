"""The tutorial's log, policy, estimate and guard over several seeds, beside the truth.

    python benchmarks/tutorial_truth.py FOLDER
    python benchmarks/tutorial_truth.py --draw

Each seed makes its own log and trains its own policy, with the settings of docs/tutorial.md. The results go
to results/tutorial_truth.json after each seed; --draw draws docs/images/tutorial.png from them.
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples" / "tutorial"))

from compare import CONTROLLERS, WEATHERS, compare, guarded
from heating import OBSERVED, write_log

import gridcount as gc
from gridcount.cli import main as main_of_gridcount

KEPT, FIGURE = ROOT / "results" / "tutorial_truth.json", ROOT / "docs" / "images" / "tutorial.png"
SEEDS, UPDATES = 3, 20_000
CONTROLLERS["guard, clone of the log"] = lambda policy, held: guarded(
    policy, held, gc.Guard(fallback="clone")
)
ROLES = (
    "--action valve_pct --action-low 0 --action-high 100 --reward reward_eur --episode house_week --time time"
)


def measured(seed: int, folder: Path) -> dict[str, Any]:
    """The estimate and the truth of one seed, by the commands of the page."""
    log, run, estimates = folder / f"heating-{seed}.csv", folder / f"run-{seed}", folder / f"{seed}.json"
    write_log(str(log), seed=seed)
    training = f"--seed {seed} --updates {UPDATES} --hold-out 0.1 --no-plot"
    roles = ["--observation", ",".join(OBSERVED), *ROLES.split()]
    gridcount(["train", str(log), *roles, *training.split(), "--run", str(run)])
    gridcount(["estimate", str(run), "--json", str(estimates)])
    found = json.loads(estimates.read_text())["policies"][0]
    rows = [row._asdict() for row in compare(gc.load_policy(run), seed=1000 + seed)]
    kept = {name: found[name] for name in ("better", "unseen", "fitted_q", "gain")}
    return {"seed": seed, **kept, "truth": rows}


def gridcount(words: list[str]) -> None:
    """Run a command of gridcount."""
    if main_of_gridcount(words) != 0:
        raise RuntimeError(f"failed: gridcount {' '.join(words)}")


def draw(seeds: list[dict[str, Any]]) -> None:
    """Cost and cold hours of every controller in both weathers; a dot is a seed, a bar their mean."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    quantities = {
        "reward": "cost in euros per week",
        "cold": "hours below 20 °C (of 105 at home a week)",
    }
    figure, axes = pyplot.subplots(len(WEATHERS), 2, figsize=(10, 5), sharey=True, layout="constrained")
    for line, weather in zip(axes, WEATHERS, strict=True):
        for axis, (quantity, label) in zip(line, quantities.items(), strict=True):
            for place, controller in enumerate(CONTROLLERS):
                values = [value(each, weather, controller, quantity) for each in seeds]
                shown = [abs(number) for number in values]
                axis.barh(place, sum(shown) / len(shown), color=f"C{place}", alpha=0.5)
                axis.plot(shown, [place] * len(shown), ".", color="black")
            axis.set_yticks(range(len(CONTROLLERS)), CONTROLLERS)
            axis.set_title(weather, fontsize=10)
            axis.set_xlabel(label)
    axes[0][0].invert_yaxis()
    figure.savefig(FIGURE, dpi=110)


def value(seed: dict[str, Any], weather: str, controller: str, quantity: str) -> float:
    """One number of one seed."""
    row = next(row for row in seed["truth"] if (row["weather"], row["controller"]) == (weather, controller))
    return float(row[quantity])


def main(words: list[str]) -> None:
    """Measure, or draw what was measured."""
    if words == ["--draw"]:
        draw(json.loads(KEPT.read_text())["seeds"])
        return
    folder, seeds = Path(words[0]), []
    folder.mkdir(parents=True)
    for seed in range(SEEDS):
        seeds.append(measured(seed, folder))
        KEPT.write_text(json.dumps({"updates": UPDATES, "seeds": seeds}, indent=2) + "\n")
        print(f"seed {seed}: {seeds[-1]}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

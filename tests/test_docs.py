"""The docs hold what was measured: every table in them is rendered from the files in results/."""

import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from gridcount.benchmark.store import read_results
from gridcount.benchmark.suites import read_suite
from gridcount.training.logs import Row

ROOT = Path(__file__).parent.parent
NAMES = ("algorithm", "dataset", "variant")
# Runs made before the paper preset had the published floor, initialisation and 32-bit codes: docs/results.md
# says so beside them.
BEFORE = {
    "gpc-sac--maze2d-umaze-v1--bcb38e9f6b": {
        "q_floor": "auto",
        "state_resolution": "exact",
        "initialisation": "fan-in",
        "log_std_low": -20.0,
    }
}


def test_rendering_the_docs_again_changes_nothing(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copytree(ROOT / "results", tmp_path / "results")
    shutil.copy(ROOT / "README.md", tmp_path)
    subprocess.run([sys.executable, str(tmp_path / "docs" / "render.py")], check=True)
    for page in ("README.md", *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))):
        assert (tmp_path / page).read_text() == (ROOT / page).read_text(), f"{page}: run make figures"


def test_what_was_measured_is_what_its_suite_runs_today() -> None:
    """Or a finished cell would be run again. Of files that are not here only the digest is known, so only
    generated data is looked at."""
    experiments: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in read_results(*sorted((ROOT / "results").glob("*.parquet"))):
        if row["source"] == "generated":
            experiments[row["suite"], row["key"]].append(row)
    assert experiments
    for (suite, key), rows in experiments.items():
        ways = {
            "updates": rows[0]["planned_updates"],
            "episodes": rows[0]["episodes"],
            "preset": rows[0]["preset"],
        }
        every = min(row["updates"] for row in rows if row["updates"])
        cells = [
            cell.changed(fields=cell.plan.fields | BEFORE.get(key, {}))
            for cell in replace(read_suite(suite), evaluate_every=every, **ways).cells()
        ]
        own = [
            cell
            for cell in cells
            if (cell.algorithm, cell.dataset, cell.variant) == tuple(rows[0][name] for name in NAMES)
        ]
        assert [cell.key() for cell in own] == [key]

"""The docs hold what was measured: every table in them is rendered from the files in results/."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_rendering_the_docs_again_changes_nothing(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copytree(ROOT / "results", tmp_path / "results")
    shutil.copy(ROOT / "README.md", tmp_path)
    subprocess.run([sys.executable, str(tmp_path / "docs" / "render.py")], check=True)
    for page in ("README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))):
        assert (tmp_path / page).read_text() == (ROOT / page).read_text(), f"{page}: run make figures"

"""Help that is made without JAX says the same as help that is made with it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from test_plugins import MODULE, install

from gridcount.cli import COMMANDS, main
from gridcount.stand_ins import LARGE, NotThere, StandIn

DATA = [f"data {what}" for what in ("make", "import", "check", "info", "list", "remove")]
ASKED = [*(command for command in COMMANDS if command != "data"), *DATA, "train --algo cql --preset paper"]
END = "\n--- end ---\n"
SCRIPT = f"""
import sys
from gridcount.cli import main
from gridcount.stand_ins import LARGE, StandIn

for command in sys.argv[1:]:
    sys.argv = ["gridcount", *command.split(), "--help"]
    assert main() == 0
    print({END!r}, end="")
found = [sys.modules[name] for name in LARGE if name in sys.modules]
assert found
assert all(isinstance(module.anything, StandIn) for module in found)
"""
COMPUTED = MODULE.replace("= 0.5", "= float(jnp.exp2(-3))").replace(
    "\nfrom", "\nimport jax.numpy as jnp\nfrom", 1
)


def run(words: list[str], home: Path, *paths: Path) -> str:
    """What a process of its own prints, which has no help in its cache."""
    python = os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"GRIDCOUNT_HOME": str(home), "COLUMNS": "80", "PYTHONPATH": python}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def test_the_help_of_every_command_is_made_without_large_packages_and_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "full"))
    monkeypatch.setenv("COLUMNS", "80")
    light = run(["-c", SCRIPT, *ASKED], tmp_path / "light").removesuffix(END).split(END)
    for command, text in zip(ASKED, light, strict=True):
        assert main([*command.split(), "--help"]) == 0
        assert capsys.readouterr().out == text, command


@pytest.mark.parametrize(("module", "default"), [(MODULE, "0.5"), (COMPUTED, "0.125")])
def test_a_package_s_algorithm_has_its_help_even_if_that_needs_jax(
    module: str, default: str, tmp_path: Path
) -> None:
    site = install(tmp_path / "site", "beside", "mine = beside:Mine", module)
    text = run(["-m", "gridcount", "train", "--algo", "mine", "--help"], tmp_path / "home", site)
    assert f"a field of its own (default: {default})" in " ".join(text.split())


@pytest.mark.parametrize(
    "use", [str, repr, bool, len, list, float, lambda it: it == "cpu", lambda it: it + 1]
)
def test_a_stand_in_has_no_value(use: Callable[[StandIn], object]) -> None:
    assert "jax" in LARGE
    with pytest.raises((NotThere, TypeError)):
        use(StandIn("jax.numpy").pi)

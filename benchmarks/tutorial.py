"""Do what docs/tutorial.md says, block by block: python benchmarks/tutorial.py FOLDER [--quick] [--clean] [--keep].

Blocks of the language `sh` run in one shell, in the order of the page. Blocks of the language `python` are written to the file that their
first line names. With --clean gridcount is built as a wheel and installed in a new virtual environment; with --quick training is
short, for the tests; with --keep what the commands printed goes to results/tutorial.json, from which docs/render.py fills the page.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE, KEPT = ROOT / "docs" / "tutorial.md", ROOT / "results" / "tutorial.json"
EXTRAS = "export,serve"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```\n+(?:<!-- (tutorial-[\w-]+):)?", re.S | re.M)
QUICK = {
    "--updates 20000": "--updates 1000 --hidden 16",
    "gridcount estimate ": "gridcount estimate --updates 100 --hidden 16 --members 4 ",
}
END = "<<end of block>>"


class Block(NamedTuple):
    """A block of the page."""

    language: str
    text: str
    shown: str  # the marker under which the page shows its output; empty: nowhere


def blocks(page: str) -> list[Block]:
    """The blocks that are run."""
    return [Block(*(part or "" for part in match.groups())) for match in BLOCK.finditer(page)]


def play(found: list[Block], folder: Path, binaries: Path) -> tuple[list[str], list[float]]:
    """Run the blocks in a folder; returns what each command block printed, and how long it took."""
    shutil.copy(ROOT / "examples" / "tutorial" / "heating.py", folder)
    shutil.copy(ROOT / "examples" / "tutorial" / "compare.py", folder)
    lines = ["set -eo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT", f"echo '{END}' $EPOCHREALTIME"]
    for block in found:
        if block.language == "python":
            name = block.text.partition("\n")[0].removeprefix("# ").strip()
            (folder / name).write_text(block.text)
        else:
            lines += [block.text, f"echo '{END}' $EPOCHREALTIME"]
    environment = os.environ | {
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "GRIDCOUNT_HOME": str(folder / "home"),
        "COLUMNS": "110",
    }
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the tutorial failed with {done.returncode}:\n{done.stdout[-4000:]}")
    parts = re.split(rf"{END} ([\d.]+)\n", done.stdout)
    clock = [float(when) for when in parts[1::2]]
    return parts[2::2][:-1], [after - before for before, after in zip(clock, clock[1:], strict=False)]


def quick(block: Block) -> Block:
    """The same with little training, on a free port."""
    text = block.text
    for long, short in QUICK.items():
        text = text.replace(long, short)
    return block._replace(text=text)


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def clean_environment(folder: Path) -> Path:
    """The programs of a new virtual environment with gridcount's wheel."""
    run = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder / "wheel"), str(ROOT)]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    wheel = next((folder / "wheel").glob("*.whl"))
    binaries = folder / "venv" / "bin"
    subprocess.run([binaries / "pip", "install", "--quiet", f"{wheel}[{EXTRAS}]"], check=True)
    return binaries


def main(words: list[str]) -> None:
    """Play the page."""
    folder = Path(words[0]).resolve()
    folder.mkdir(parents=True)
    found = blocks(PAGE.read_text())
    if "--quick" in words:
        found = [quick(block) for block in found]
    if "--port" in words:
        port = str(free_port())
        found = [block._replace(text=block.text.replace("8080", port)) for block in found]
    began = time.time()
    binaries = clean_environment(folder) if "--clean" in words else Path(sys.executable).parent
    installed = time.time() - began
    commands = [block for block in found if block.language == "sh"]
    printed, seconds = play(found, folder, binaries)
    for block, text, spent in zip(commands, printed, seconds, strict=True):
        print(f"$ {block.text}{text}[{spent:.1f} s]\n")
    print(f"all commands took {sum(seconds):.0f} s, and the installation before {installed:.0f} s")
    if "--keep" in words:
        shown = {b.shown: text for b, text in zip(commands, printed, strict=True) if b.shown}
        times = {b.shown: round(s, 1) for b, s in zip(commands, seconds, strict=True) if b.shown}
        kept = {
            "seconds": round(sum(seconds)),
            "install_seconds": round(installed) if "--clean" in words else None,
            "others": os.getloadavg()[0],  # processes that wanted the machine's cores, in the last minute
            "cores": os.cpu_count(),
            "seconds_by_block": times,
            "printed": shown,
        }
        KEPT.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

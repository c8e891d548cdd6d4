"""Do what docs/tutorial.md says, block by block.

    python benchmarks/tutorial.py FOLDER [--quick] [--clean] [--keep]

Blocks of the language `sh` run in one shell, in the order of the page. Blocks of the language `python` are
written to the file that their first line names. With --clean gridcount is built as a wheel and installed in a
new virtual environment. With --quick training is short, for the tests. With --keep what the commands printed
goes to results/tutorial.json, from which docs/render.py fills the page.
"""

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE, KEPT = ROOT / "docs" / "tutorial.md", ROOT / "results" / "tutorial.json"
EXTRAS = "export,serve"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```\n+(?:<!-- (tutorial-[\w-]+):)?", re.S | re.M)
QUICK = {
    "--updates 20000": "--updates 200 --hidden 16",
    "gridcount estimate ": "gridcount estimate --updates 100 --hidden 16 --members 4 ",
}
END, PORT = "<<end of block>>", "8080"


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
    lines = [
        "set -eo pipefail",
        "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT",
        f"echo '{END}' $EPOCHREALTIME",
    ]
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
    return parts[2::2][:-1], [after - before for before, after in pairwise(clock)]


def quick(block: Block) -> Block:
    """The same with little training."""
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
    folder, port = Path(words[0]).resolve(), str(free_port())
    folder.mkdir(parents=True)
    found = [block._replace(text=block.text.replace(PORT, port)) for block in blocks(PAGE.read_text())]
    if "--quick" in words:
        found = [quick(block) for block in found]
    clock = [times()]
    binaries = clean_environment(folder) if "--clean" in words else Path(sys.executable).parent
    clock.append(times())
    printed, seconds = play(found, folder, binaries)
    clock.append(times())
    printed = [text.replace(port, PORT).replace(str(folder), "/home/me/heating") for text in printed]
    commands = [block for block in found if block.language == "sh"]
    for block, text, spent in zip(commands, printed, seconds, strict=True):
        print(f"$ {block.text}{text}[{spent:.1f} s]\n")
    installing, playing = ({name: round(b[name] - a[name]) for name in a} for a, b in pairwise(clock))
    print(f"seconds of all commands: {playing}, of the installation before: {installing}")
    if "--keep" in words:
        kept = {
            "commands": playing,
            "installation": installing if "--clean" in words else None,
            "others": os.getloadavg()[0],  # processes that wanted the machine's cores, in the last minute
            "cores": os.cpu_count(),
            "printed": {b.shown: text for b, text in zip(commands, printed, strict=True) if b.shown},
        }
        KEPT.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")


def times() -> dict[str, float]:
    """The time by the clock, and the CPU time of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"clock": time.time(), "cpu": used.ru_utime + used.ru_stime}


if __name__ == "__main__":
    main(sys.argv[1:])

"""`gridcount export`: a policy as files for programs without gridcount."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from gridcount.commands.guard_flags import GuardFlags
from gridcount.policy.policy import load_policy
from gridcount.terminal import make_console, validate_flags

Flags = Annotated[GuardFlags, tyro.conf.arg(name="")]


@dataclass(frozen=True)
class Export:
    """Write a policy as an ONNX graph, with counts, a contract and a reader without gridcount."""

    run: tyro.conf.Positional[Path]  # a run directory, or a folder policy/ copied from one
    to: Literal["onnx"] = "onnx"  # the format
    out: Path | None = None  # the folder to write; by default `export` in the run
    seed: int | None = None  # the policy of this seed; by default the first
    at: int | None = None  # the policy after this number of updates; by default the last
    guard: Flags = field(default_factory=GuardFlags)  # the reader's default guard
    replace: bool = False  # overwrite an older export


def export(words: list[str]) -> int:
    """Export a policy."""
    validate_flags(words, Export)
    options = tyro.cli(Export, args=words, prog="gridcount export")
    policy = load_policy(options.run, seed=options.seed, at=options.at)
    out = options.out or options.run / "export"
    policy.export(out, options.guard.guard(), replace=options.replace)
    console = make_console(soft_wrap=True)
    console.print(f"{policy!r}")
    console.print(f"wrote {out}: policy.onnx, counts.npz, contract.json and decide.py, which reads them")
    return 0

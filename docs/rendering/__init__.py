"""Tables of the docs, each made from files in results/ that a command wrote."""

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(
        [f"| {head} |", "|---" * len(head.split("|")) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    )

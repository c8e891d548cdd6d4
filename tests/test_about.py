"""What is told of the algorithms is told of all of them."""

import json

import pytest

from gridcount.algorithms import ALGORITHMS
from gridcount.algorithms.papers import PAPER_COST
from gridcount.cli import main


def test_costs_are_those_of_algorithms() -> None:
    assert set(PAPER_COST) <= set(ALGORITHMS)


def test_the_list_names_family_paper_cost_and_what_the_count_adds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["algorithms", "--json"]) == 0
    entries = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert set(entries) == set(ALGORITHMS)
    assert entries["sac"]["cost"] == 1
    assert all(entry["cost"] > 0 for entry in entries.values())  # measured, every one
    assert [entry["cost"] for entry in entries.values()] == sorted(
        entry["cost"] for entry in entries.values()
    )
    assert all(
        entry["family"] and entry["paper"] and entry["idea"] and entry["count_adds"]
        for entry in entries.values()
    )
    assert main(["algorithms"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ALGORITHMS)
    assert "arXiv:2006.04779" in printed

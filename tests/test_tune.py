"""Choosing without an environment: what is proposed, how it is ranked, and that a killed search goes on."""

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from log_files import smooth

from gridcount.benchmark.cells import Cell
from gridcount.benchmark.estimated import Found, Pair
from gridcount.benchmark.store import write_rows
from gridcount.children import module_command, module_environment
from gridcount.cli import main
from gridcount.data.formats.columns import Columns
from gridcount.data.formats.d4rl import write_hdf5
from gridcount.data.load import load
from gridcount.estimation.estimate import Settings
from gridcount.estimation.measured import Measured
from gridcount.terminal import make_console
from gridcount.training.plan import fingerprint
from gridcount.tuning.result import Tuning, rank
from gridcount.tuning.search import run_search
from gridcount.tuning.space import Between, OneOf, make_space
from gridcount.tuning.start import make_search, write_log
from gridcount.tuning.study import Outcome, Search, Study, Trial, bars, propose

NUMBERS: dict[str, Any] = {"preset": "fast", "updates": 300, "reading": {}, "settings": Settings()}
FLAGS = ["--space", "hidden=8x8", "--trials", "2", "--updates", "4", "--checks", "1", "--workers", "1"]
FLAGS += ["--estimate-updates", "2", "--members", "4", "--hold-out", "0.5", "--algorithms", "bc"]


def measured(value: float, cost: float = 0.0, unseen: float = 0.0, apart: float = 0.1) -> Measured:
    """Four networks on 20 episodes, whose values differ a little."""
    worth = tuple(tuple(value + apart * ((m + e) % 3 - 1) for e in range(20)) for m in range(4))
    return Measured(worth, cost, unseen)


def found(*values: Measured, stopped: bool = False, every: int = 100) -> Found:
    log = measured(0.0)
    return Found({every * n: Pair(value, log) for n, value in enumerate(values, 1)}, None, stopped)


def search_of(**changes: Any) -> Search:
    numbers: dict[str, Any] = (
        {"trials": 6, "checks": 2, "algorithms": ("gpc-anchor", "bc"), "space": {}} | NUMBERS | changes
    )
    return make_search("log.hdf5", **numbers)


class Pretended:
    """An executor whose cells end at once, with the estimates that a function gives."""

    def __init__(self, out: Path, worth: Any) -> None:
        self.out, self.worth, self.ran = out, worth, list[str]()

    def __call__(self, cells: Sequence[Cell]) -> dict[str, str]:
        for cell in cells:
            self.ran.append(f"{cell.suite} {cell.variant}")
            assert cell.estimated is not None
            pair = Pair(self.worth(cell), measured(0.0))
            result = Found({cell.updates: pair}, pair if cell.estimated.confirm else None)
            row: dict[str, Any] = {
                "suite": cell.suite,
                "key": cell.key(),
                "algorithm": cell.algorithm,
                "dataset": cell.dataset,
                "config": "{}",
                "fingerprint": "x",
                "seed": 0,
                "updates": cell.updates,
                "planned_updates": cell.updates,
                "estimate": json.dumps(asdict(result)),
            }
            (self.out / "results").mkdir(exist_ok=True)
            write_rows(cell.results(self.out / "results"), [row])
        return {}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    path = tmp_path / "log.hdf5"
    write_hdf5(path, smooth(400, dims=2, episode=10), {})
    return path


def searched(log: Path, executor: Pretended, **changes: Any) -> Tuning:
    search = replace(search_of(checks=0, **changes), dataset=str(log))
    return run_search(search, executor.out, make_console(quiet=True), executor, at_once=2)


def test_a_space_is_written_as_ranges_and_lists() -> None:
    space = make_space(
        ("gpc-anchor", "bc"), {"pessimism": "0.1:2:log", "gpc-anchor.bins": "5,10", "hidden": "16x16"}
    )
    assert space["gpc-anchor"]["pessimism"] == Between(0.1, 2.0, log=True)
    assert space["gpc-anchor"]["bins"] == OneOf((5, 10))
    assert space["bc"]["hidden"] == space["gpc-anchor"]["hidden"] == OneOf(((16, 16),))
    assert make_space(("gpc-anchor",), {"anchor": "1:4"})["gpc-anchor"]["anchor"] == Between(1, 4)
    assert make_space(("bc",), {"batch_size": "32:64"})["bc"]["batch_size"] == Between(32, 64, whole=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pessimissm": "1:2"}, "pessimissm"),
        ({"iql.expectile": "0.1:0.5"}, "searched algorithm"),
        ({"pessimism": "2:1"}, "LOW below HIGH"),
        ({"pessimism": "0:1:log"}, "above 0 with log"),
        ({"pessimism": "-1:1"}, "--pessimism is -1; it must be at least 0"),
        ({"bins": "many"}, "--bins is 'many'"),
    ],
)
def test_a_space_with_a_mistake_is_rejected_before_any_trial(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_space(("gpc-anchor",), changes)


def test_the_automatic_values_come_first_and_no_setting_comes_twice() -> None:
    search = search_of(
        algorithms=("bc",), space={"hidden": "8x8", "best_share": "0.5,1.0", "policy_rate": 1e-3}
    )
    trials: list[Trial] = []
    while (trial := propose(search, trials, [])) is not None:
        trials.append(trial)
    assert (trials[0].algorithm, trials[0].automatic, trials[0].changes) == (
        "gpc-anchor",
        True,
        {"hidden": (8, 8), "policy_rate": 1e-3},
    )
    assert trials[1].automatic
    tried = [json.dumps([trial.algorithm, trial.changes]) for trial in trials]
    assert len(tried) == len(set(tried)) == 4


def test_trials_are_stopped_below_the_median_of_enough_others() -> None:
    search = search_of()
    trials = [Outcome(Trial(n, "bc", {}), found(measured(n), measured(10 + n))) for n in range(5)]
    assert bars(search, trials[:3]) == ()
    assert bars(search, trials) == pytest.approx((2.0, 12.0), abs=0.1)


def test_leaving_the_log_is_not_rewarded() -> None:
    search = search_of()
    tame, greedy, wild = measured(5.0), measured(9.0, cost=6.0), measured(50.0, unseen=0.9)
    outcomes = [
        Outcome(Trial(n, "bc", {}), found(value, value, value))
        for n, value in enumerate((tame, greedy, wild))
    ]
    ranking = rank(search, outcomes)
    assert [each.trial.number for each in ranking] == [0, 1, 2]
    assert [each.ranked for each in ranking] == [True, True, False]
    naive = sorted(outcomes, key=lambda each: -each.found.after[300].policy.naive.value if each.found else 0)
    assert [each.trial.number for each in naive] == [2, 1, 0]


def test_networks_that_disagree_cost_a_policy_its_rank() -> None:
    sure, unsure = measured(5.0), measured(6.0, apart=60.0)
    outcomes = [Outcome(Trial(n, "bc", {}), found(*[each] * 3)) for n, each in enumerate((unsure, sure))]
    assert [each.trial.number for each in rank(search_of(), outcomes)] == [1, 0]


def test_a_trial_that_was_stopped_cannot_win() -> None:
    early = Outcome(Trial(0, "bc", {}), found(measured(9.0), stopped=True))
    whole = Outcome(Trial(1, "bc", {}), found(measured(1.0), measured(1.0), measured(1.0)))
    assert [each.trial.number for each in rank(search_of(), [early, whole])] == [1, 0]


def test_differences_are_paired_and_include_what_leaving_the_log_costs() -> None:
    better, worse = measured(5.0, apart=6.0), measured(4.0, apart=6.0)
    assert better.minus(worse).low > 0  # although each one's own interval contains the other's value
    assert worse.interval.high > better.interval.value
    assert replace(better, cost=2.0).minus(worse).low < 0


def test_the_winner_is_confirmed_on_other_episodes_and_compared(log: Path, tmp_path: Path) -> None:
    def worth(cell: Cell) -> Measured:
        assert cell.estimated is not None
        if not cell.estimated.confirm:  # in the search trial 2 looks much better
            return measured(9.0 if cell.variant == "trial 2" else 4.0)
        return measured(5.0 if cell.variant == "trial 2" else 4.0)

    executor = Pretended(tmp_path / "out", worth)
    tuning = searched(log, executor)
    assert tuning.winner.number == 2
    assert tuning.in_search.value == pytest.approx(9.0, abs=0.1)
    assert tuning.fresh is not None
    assert tuning.fresh.value == pytest.approx(5.0, abs=0.1)
    assert {each.other for each in tuning.differences} >= {"the automatic values"}
    assert all(each.differs for each in tuning.differences)
    assert any("4 lower than in the search" in line for line in tuning.lines())
    assert tuning.command.startswith(f"gridcount train {log} --algo {tuning.algorithm} --")


def test_finished_trials_are_not_run_again_and_more_can_be_added(log: Path, tmp_path: Path) -> None:
    first = Pretended(tmp_path / "out", lambda cell: measured(1.0))
    searched(log, first, trials=3)
    assert [name for name in first.ran if name.startswith("tune trial")] == [
        f"tune trial {n}" for n in range(3)
    ]
    again = Pretended(tmp_path / "out", lambda cell: measured(1.0))
    searched(log, again, trials=3)
    assert again.ran == []
    searched(log, again, trials=4)
    assert again.ran[0] == "tune trial 3"
    with pytest.raises(ValueError, match=r"another search: updates was 300, now 299"):
        searched(log, again, updates=299)


def test_a_proposed_trial_keeps_its_settings_after_a_kill(log: Path, tmp_path: Path) -> None:
    class Killed(Pretended):
        def __call__(self, cells: Sequence[Cell]) -> dict[str, str]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        searched(log, Killed(tmp_path / "out", None))
    search = replace(search_of(checks=0), dataset=str(log))
    before = Study.open(tmp_path / "out", search).trials
    assert len(before) == 2
    searched(log, Pretended(tmp_path / "out", lambda cell: measured(1.0)))
    assert Study.open(tmp_path / "out", search).trials[:2] == before


def test_transitions_reach_the_workers_unchanged(log: Path, tmp_path: Path) -> None:
    names = tuple(f"temp_{d}" for d in range(load(log).observation_dim))
    dims = load(log).action_dim
    low, high = np.zeros(dims), np.full(dims, 100.0)
    data = replace(load(log), action_low=low, action_high=high, observation_names=names)
    path = write_log(data, tmp_path / "out")
    again = load(path)
    assert again.equals(data)  # the units of actions, too, so the printed command trains a policy with them
    assert again.observation_names == data.observation_names
    assert fingerprint(again) == fingerprint(data)
    assert (again.episode_end == data.episode_end).all()
    assert write_log(data, tmp_path / "out") == path
    with pytest.raises(ValueError, match="holds other data"):
        write_log(replace(data, reward=data.reward + 1), tmp_path / "out")
    with pytest.raises(ValueError, match="holds other data"):
        write_log(replace(data, action_high=np.full(dims, 50.0)), tmp_path / "out")


def test_trials_read_a_table_as_its_flags_say() -> None:
    columns = Columns(observation="temp", missing="drop-rows", decimal=",", categorical="mode")
    plan = search_of(reading=columns.given() | {"scale_actions": True}).cell(Trial(0, "iql", {})).plan
    assert plan.columns == columns.given()
    assert plan.scale_actions


def test_a_log_with_too_few_episodes_is_rejected_before_any_trial(log: Path, tmp_path: Path) -> None:
    executor = Pretended(tmp_path / "out", lambda cell: measured(1.0))
    with pytest.raises(ValueError, match=r"2 episodes are held out.*larger share with --hold-out"):
        searched(log, executor, hold_out=0.05)
    assert executor.ran == []


def test_a_killed_search_resumes_with_real_workers(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, words = tmp_path / "out", ["tune", str(log), *FLAGS, "--out", str(tmp_path / "out")]
    command = module_command("gridcount", *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=module_environment()) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "best so far" in line:
                break
        os.kill(process.pid, signal.SIGKILL)
    (kept,) = (out / "results").glob("*.parquet")
    written = kept.stat().st_mtime_ns
    assert main([*words, "--json", str(tmp_path / "found.json")]) == 0
    assert kept.stat().st_mtime_ns == written
    result = json.loads((tmp_path / "found.json").read_text())
    assert {each["number"] for each in result["ranking"]} == {0, 1}
    assert all(
        each["updates"] == 4 and each["cautious"]["low"] < each["cautious"]["high"]
        for each in result["ranking"]
    )
    assert result["fresh"] is not None
    assert all(each["changes"] == {"hidden": [8, 8]} for each in result["ranking"])
    shown = capsys.readouterr().out
    assert "on episodes that ranked nothing" in shown.replace("\n", " ")
    assert "--hidden 8 8" in shown

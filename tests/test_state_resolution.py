"""Which columns tell states apart: by default all of them, in any order; or as the published code does it,
to the bit."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import MakeLog
from log_files import write_csv
from numpy.typing import NDArray

from gridcount import GridCounter
from gridcount.algorithms import make_algorithm
from gridcount.algorithms.contract import with_new_names, with_old_names
from gridcount.algorithms.gpc_sac import GPCSAC
from gridcount.benchmark.store import read_results
from gridcount.benchmark.suites import Suite
from gridcount.cli import main
from gridcount.counts.grid import CODES, StateCells, even_bins
from gridcount.training.plan import Plan, read_plan, settings, write_record
from gridcount.transitions import Transitions

RESULTS = Path(__file__).parent.parent / "results"


def shuffled(data: Transitions, order: NDArray[np.int64]) -> Transitions:
    return replace(
        data,
        observation=data.observation[:, order],
        next_observation=data.next_observation[:, order],
        observation_names=tuple(data.observation_names[d] for d in order),
    )


def wide_log(make_log: MakeLog, columns: int = 31) -> Transitions:
    """One column that matters, the last, among many: the others hardly move within an episode."""
    data = make_log(rows=400, observation_dim=columns, action_dim=1)
    data.observation[:], data.next_observation[:] = 0.0, 0.0
    data.observation[::2, :-1] = data.next_observation[::2, :-1] = 1.0
    data.observation[:, -1] = np.where(np.arange(400) // 2 % 2, 45.0, 550.0)
    data.next_observation[:, -1] = data.observation[:, -1]
    return data


def test_counts_do_not_depend_on_the_order_of_columns(make_log: MakeLog) -> None:
    data = make_log(rows=2000, observation_dim=12, action_dim=2)
    data.observation[:] = data.next_observation[:] = np.round(data.observation)  # so that cells are met again
    order = np.random.default_rng(0).permutation(12)
    for state_bins in (None, 3):
        here, there = (GridCounter.fit(each, state_bins=state_bins) for each in (data, shuffled(data, order)))
        counts = here.count(data.observation, data.action)
        assert (counts == there.count(data.observation[:, order], data.action)).all()
        assert here.cells.n_cells == there.cells.n_cells
    leading = [
        GridCounter.fit(each, state_resolution="leading").cells.n_cells
        for each in (data, shuffled(data, order))
    ]
    assert leading[0] != leading[1]  # what the default was before


def test_the_last_of_31_columns_counts_in_training_as_in_a_counter(make_log: MakeLog) -> None:
    data = wide_log(make_log)
    prepared = make_algorithm("gpc-sac", "a log of mine", "fast").prepare(data)
    low, high = data.observation[:, -1] == 45, data.observation[:, -1] == 550
    cells = prepared.rows.state_cell
    assert not set(cells[low].tolist()) & set(cells[high].tolist())
    counter = GridCounter.fit(data)
    assert (counter.cells.rank(data.observation) == cells).all()
    assert counter.cells.n_cells == 4
    note = prepared.notes["state cells"]
    assert "1 bin in each of: observation[0], " in note
    assert note.endswith("observation[30]")


@pytest.mark.parametrize("name", ["gpc-sac", "gpc-td3"])
def test_only_logs_without_a_published_name_are_counted_evenly(name: str) -> None:
    assert make_algorithm(name, "mine", "fast").state_resolution == "even"
    assert make_algorithm(name, "hopper-medium-v2", "fast").state_resolution == "leading"
    assert make_algorithm(name, "maze2d-umaze-v1", "fast").state_resolution == "exact"


def test_bins_are_as_many_as_keep_the_grid_within_its_codes() -> None:
    for dimensions in range(1, 40):
        bins = even_bins(30, dimensions)
        assert 1 <= bins <= 30
        assert bins == 1 or (bins + 1) ** dimensions <= CODES
        assert bins == 30 or (bins + 2) ** dimensions > CODES
    assert (even_bins(30, 4), even_bins(30, 5), even_bins(15, 11), even_bins(30, 24), even_bins(30, 31)) == (
        30,
        26,
        3,
        1,
        1,
    )
    assert even_bins(7, 0) == 7


def test_info_and_check_name_the_columns_that_count_and_their_bins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    rng = np.random.default_rng(0)
    table = {f"obs_{d}": np.cumsum(rng.normal(size=300)) for d in range(8)} | {"obs_8": np.full(300, 5.0)}
    ends = np.arange(300) % 100 == 99
    table |= {
        "action_0": rng.uniform(-1, 1, 300),
        "reward": rng.normal(size=300),
        "truncated": ends,
        "terminated": ends & False,
    }
    path = str(write_csv(tmp_path / "log.csv", table))
    names = ", ".join(f"obs_{d}" for d in range(8))
    message = f"7 bins in each of: {names}; not counted: obs_8 (never varies)"
    assert main(["data", "info", path]) == 0
    out = capsys.readouterr().out
    assert message in out
    assert [line for line in out.splitlines() if "obs_8" in line and "not counted" in line and "│" in line]
    assert main(["data", "info", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["bins"] for each in found["observation"]] == [7] * 8 + [0]
    assert main(["data", "check", path, "--json"]) == 1  # a column that never varies is a warning
    checked = capsys.readouterr().out
    notes = [each["problem"] for each in json.loads(checked)["findings"] if each["severity"] == "note"]
    assert any(message in note for note in notes)
    assert "--state-resolution exact uses all of --state-bins" in checked


def test_training_says_where_fewer_bins_of_states_are_used_than_were_asked_for(make_log: MakeLog) -> None:
    data = wide_log(make_log)  # 31 columns
    notes = make_algorithm("gpc-sac", "mine", "fast", state_bins=12).prepare(data).notes
    assert notes["state_bins"].startswith("1, not 12: --state-resolution even keeps")
    assert "--state-resolution exact uses all 12" in notes["state_bins"]
    for changes in ({"state_resolution": "exact", "state_bins": 12}, {"state_bins": 1}, {}):
        assert "state_bins" not in make_algorithm("gpc-sac", "mine", "fast", **changes).prepare(data).notes


def test_a_resolution_that_no_longer_exists_is_refused_with_those_that_do(make_log: MakeLog) -> None:
    with pytest.raises(ValueError, match="'published'; available: even, exact, leading, rounded"):
        GridCounter.fit(make_log(), state_resolution="published")  # type: ignore[arg-type]


def sums(observation: NDArray[np.float32], bins: int) -> list[float]:
    """The published arithmetic written out: each state's digits, added up in 32-bit floats one row at a
    time."""
    low, high = observation.min(axis=0), observation.max(axis=0)
    vary = np.flatnonzero(high - low)
    codes = []
    for row in observation:
        code = np.float32(0)
        for d in vary:
            digit = (
                np.float32(bins) * (row[d] - low[d]) / (high[d] - low[d]) + np.float32(0.5)
            ) // np.float32(1)
            code = np.float32(digit + np.float32(np.float32(bins + 1) * code))
        codes.append(float(code))
    return codes


@pytest.mark.parametrize(("dims", "bins"), [(4, 30), (11, 15), (17, 5), (45, 1)])
def test_rounded_states_are_one_exactly_where_the_published_sums_are_equal(dims: int, bins: int) -> None:
    rng = np.random.default_rng(dims)
    centres = rng.normal(size=(40, dims))
    observation = (centres[rng.integers(0, 40, 3000)] + rng.normal(size=(3000, dims)) * 0.2).astype(
        np.float32
    )
    observation[:, 0] = rng.choice(
        [0.0, 1.0], 3000
    )  # few cells in the leading places, so that the trailing ones decide
    observation[:, 1:3] = np.round(observation[:, 1:3])
    cells, (rank,) = StateCells.fit(observation, bins=bins, resolution="rounded")
    _, expected = np.unique(sums(observation, bins), return_inverse=True)
    assert (rank == expected).all()
    assert (cells.rank(observation) == rank).all()
    assert (cells.rank(observation + 100) == -1).all()
    exact, leading = (
        StateCells.fit(observation, bins=bins, resolution=each)[0].n_cells for each in ("exact", "leading")
    )
    if dims == 4:
        assert cells.n_cells == exact
    else:
        assert cells.n_cells != leading  # a blurred edge is not a cut
        assert cells.n_cells < exact


def test_sums_beyond_a_float_s_range_are_one_cell() -> None:
    observation = np.random.default_rng(0).uniform(0.5, 1, (50, 60)).astype(np.float32)
    observation[0] = 0
    cells, (rank,) = StateCells.fit(observation, bins=30, resolution="rounded")
    assert cells.n_cells == 2
    assert len(set(rank[1:].tolist())) == 1


def test_what_was_recorded_as_published_is_what_it_did_and_the_same_experiment() -> None:
    """The leading columns alone had that name once: it is read as theirs, and never written again."""
    assert with_new_names(GPCSAC, {"state_resolution": "published", "bins": 3}) == {
        "state_resolution": "leading",
        "bins": 3,
    }
    assert with_old_names(GPCSAC, {"state_resolution": "leading"}) == {"state_resolution": "published"}
    configs = [json.loads(row["config"]) for row in read_results(RESULTS / "recollected.parquet")]
    assert {config["state_resolution"] for config in configs} == {"leading"}
    cell = Suite("s", "t", ("hopper-medium-v2",), ("gpc-sac",), preset="fast").cells()[0]
    keys = {
        each: cell.changed(fields=cell.plan.fields | {"state_resolution": each}).key()
        for each in ("leading", "rounded", "even", "exact")
    }
    assert keys["leading"] == cell.key()
    assert len(set(keys.values())) == 4


def test_an_older_run_s_record_is_read_in_today_s_names(tmp_path: Path) -> None:
    fields = settings(make_algorithm("gpc-sac", "hopper-medium-v2", "fast")) | {
        "state_resolution": "published"
    }
    plan = Plan(
        "log", None, "gpc-sac", fields, seeds=(0,), updates=4, evaluate_every=2, episodes=1, fingerprint=""
    )
    write_record(tmp_path, plan)
    assert read_plan(tmp_path).make_algorithm().state_resolution == "leading"

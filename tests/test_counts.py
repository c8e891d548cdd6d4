"""Counts agree with a plain dictionary, whatever the table, and nothing borrows another cell's count."""

import itertools
import tracemalloc
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import MakeLog
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from log_files import EXCERPTS
from problems import OPTIMISED

from gridcount import GridCounter
from gridcount.counts import grid as grid_module
from gridcount.counts.auto import auto_pessimism
from gridcount.counts.grid import Grid, StateCells
from gridcount.counts.tables import DenseTable, SparseTable, Table, empty_table, visit_rows
from gridcount.data.formats.d4rl import read_hdf5
from gridcount.losses import count_uncertainty

STATES, SIZES = 7, (3, 4, 2)
pairs = st.lists(
    st.tuples(st.integers(0, STATES - 1), *(st.integers(0, size - 1) for size in SIZES)),
    min_size=48,
    max_size=48,
)
visit = jax.jit(lambda table, state, action: table.visit(state, action))


def both_tables() -> list[Table]:
    return [DenseTable.empty(STATES, SIZES), SparseTable.empty(megabytes=1)]


def split(batch: list[tuple[int, ...]]) -> tuple[jax.Array, jax.Array]:
    cells = jnp.asarray(batch, jnp.int32)
    return cells[:, 0], cells[:, 1:]


@pytest.mark.parametrize("table", both_tables(), ids=["dense", "sparse"])
@settings(max_examples=25, deadline=None)
@given(batches=st.lists(pairs, min_size=1, max_size=4))
def test_a_batch_is_counted_then_read_like_a_dictionary(
    table: Table, batches: list[list[tuple[int, ...]]]
) -> None:
    dictionary: Counter[tuple[int, ...]] = Counter()
    for batch in batches:
        dictionary.update(batch)
        table, counts = visit(table, *split(batch))
        assert counts.tolist() == [dictionary[pair] for pair in batch]
    everything = list(itertools.product(range(STATES), *map(range, SIZES)))
    assert table.read(*split(everything)).tolist() == [dictionary[pair] for pair in everything]


@settings(max_examples=100, deadline=None)
@given(
    values=arrays(np.float32, (20, 2), elements=st.floats(-100, 100, width=32)),
    query=arrays(np.float32, (5, 2), elements=st.floats(-1000, 1000, width=32)),
    bins=st.integers(1, 40),
    margin=st.floats(1, 5),
)
def test_cells_number_the_range_from_zero_to_bins_and_saturate_at_the_margin(
    values: np.ndarray, query: np.ndarray, bins: int, margin: float
) -> None:
    grid = Grid.fit(values, bins, margin)
    inside = np.asarray(grid.cell(jnp.asarray(values)))
    assert inside.min() >= 0
    assert inside.max() <= bins
    offset = np.asarray(grid.offset(jnp.asarray(query)))
    assert offset.min() >= 0
    assert all(offset.max(axis=0) < np.array(grid.sizes))


def paper_code(cell: tuple[int, int], partitions: int) -> int:
    """Eq. 3 for a two-dimensional space, in the form of the appendix's examples: the second digit weighs
    1, the first `partitions`."""
    return cell[0] * partitions + cell[1]


def test_the_appendix_example_collides_for_the_paper_and_not_for_us() -> None:
    """The appendix: with m = 2, v(0, 1) = v(1, -1) = 1, so an OOD cell borrows the count of a cell in the
    data."""
    assert paper_code((0, 1), 2) == paper_code((1, -1), 2) == 1
    data = np.array([[0, 0], [2, 2]], np.float32)
    grid = Grid.fit(data, bins=2, margin=3.0)
    for table in (DenseTable.empty(1, grid.sizes), SparseTable.empty(megabytes=1)):
        for _ in range(5):
            table, _ = table.visit(jnp.zeros(1, jnp.int32), grid.offset(jnp.array([[0.0, 1.0]])))
        assert table.read(
            jnp.zeros(2, jnp.int32), grid.offset(jnp.array([[0.0, 1.0], [1.0, -1.0]]))
        ).tolist() == [5, 0]


def test_the_appendix_remedy_only_moves_the_collisions_outwards_while_ours_has_none() -> None:
    """With alpha = 2 and m = 6, v(s, a) = v(s - k, a + 6k): cells {0, 1, 2} meet others from 4 below or 6
    above on."""
    near = [(s, a) for s in range(3) for a in range(-3, 6)]
    assert len({paper_code(cell, 6) for cell in near}) < len(near)
    assert paper_code((1, 2), 6) == paper_code((2, -4), 6)
    grid = Grid.fit(np.array([[0, 0], [2, 2]], np.float32), bins=2, margin=3.0)
    cells = {
        tuple(cell)
        for cell in np.asarray(
            grid.offset(jnp.array([[s, a] for s in range(-2, 5) for a in range(-2, 5)], jnp.float32))
        ).tolist()
    }
    strides = np.cumprod((1, grid.sizes[0]))
    assert len(cells) == 49
    assert len({int(np.dot(cell, strides)) for cell in cells}) == 49


@pytest.mark.parametrize(("dims", "bins", "visits"), [(6, 7, 2_500_000), (28, 1, 10_000_000)])
def test_millions_of_visits_in_512_megabytes_agree_with_exact_counts(
    dims: int, bins: int, visits: int
) -> None:
    rng, block = np.random.default_rng(dims), 250_000

    def draw() -> tuple[np.ndarray, np.ndarray]:
        """Half the stream returns to popular places, half is nearly always new: both ends of what a policy
        does."""
        state = np.where(
            rng.random(block) < 0.5, rng.integers(0, 20_000, block), rng.integers(0, 2_000_000, block)
        )
        moved = rng.random((block, dims), np.float32) < 3 / dims
        return state, moved * rng.integers(0, bins + 1, (block, dims), np.int8)

    batches = [draw() for _ in range(visits // block)]
    # injective up to 2^63: 2e6 * 8^6 and 2e6 * 2^28
    codes = [
        np.concatenate([state[:, None], action], axis=1) @ (bins + 1) ** np.arange(dims, -1, -1)
        for state, action in batches
    ]
    distinct, number = np.unique(np.concatenate(codes), return_inverse=True)
    exact = np.zeros(len(distinct), np.int64)
    table = empty_table(2_000_000, (bins + 1,) * dims, megabytes=512)
    assert isinstance(table, SparseTable)
    assert table.entries.nbytes <= 512 * 2**20
    step = jax.jit(
        lambda table, state, action: table.visit(state, action),
        donate_argnums=0,
        compiler_options=OPTIMISED,
    )
    agree = error = 0.0
    for (state, action), cells in zip(batches, np.split(number, len(batches)), strict=True):
        exact += np.bincount(cells, minlength=len(exact))
        truth = exact[cells]
        table, visited = step(table, jnp.asarray(state, jnp.int32), jnp.asarray(action, jnp.int32))
        counts = np.asarray(visited)
        agree += (counts == truth).sum()
        error += np.abs(
            np.sqrt(truth / counts) - 1
        ).sum()  # relative error of u, where ln T and pessimism cancel
    assert agree / visits >= 0.99
    assert error / visits <= 0.01


def test_a_full_table_forgets_the_rarest_and_never_overstates() -> None:
    rng = np.random.default_rng(0)
    table, exact = SparseTable.empty(megabytes=2**-4), Counter[int]()  # 8,192 entries
    for _ in range(40):
        state = np.concatenate([rng.integers(0, 100, 500), rng.integers(100, 1_000_000, 1500)])
        exact.update(state.tolist())
        table, counts = visit(table, jnp.asarray(state, jnp.int32), jnp.zeros((2000, 1), jnp.int32))
        assert (np.asarray(counts) <= [exact[s] for s in state.tolist()]).all()
    popular = np.arange(100)
    assert table.read(jnp.asarray(popular, jnp.int32), jnp.zeros((100, 1), jnp.int32)).tolist() == [
        exact[s] for s in range(100)
    ]


def test_a_newcomer_never_takes_the_entry_of_a_pair_in_the_same_batch() -> None:
    table = SparseTable.empty(megabytes=64 / 2**20)  # a single bucket of eight entries
    nowhere = jnp.zeros((8, 1), jnp.int32)
    for visits in range(6, 14):  # state 0 six times, state 7 thirteen times
        for _ in range(visits):
            table, _ = visit(table, jnp.full(1, visits - 6), nowhere[:1])
    after, counts = visit(
        table, jnp.array([0, 100]), nowhere[:2]
    )  # of the full bucket, state 0 is the least visited
    assert counts.tolist() == after.read(jnp.array([0, 100]), nowhere[:2]).tolist() == [7, 1]
    assert after.read(jnp.array([1, 2]), nowhere[:2]).tolist() == [0, 8]  # the next rarest made room

    everyone = jnp.arange(8)
    after, counts = visit(table, jnp.append(everyone, jnp.array([100, 100])), jnp.zeros((10, 1), jnp.int32))
    assert counts.tolist() == [*range(7, 15), 2, 2]
    assert after.read(everyone, nowhere).tolist() == [*range(7, 15)]  # no room was left


@settings(max_examples=25, deadline=None)
@given(batches=st.lists(st.lists(st.integers(0, 30), min_size=12, max_size=12), min_size=1, max_size=5))
def test_what_a_crowded_bucket_says_of_a_batch_is_what_it_keeps_or_forgets(batches: list[list[int]]) -> None:
    table, exact = SparseTable.empty(megabytes=64 / 2**20), Counter[int]()
    nowhere = jnp.zeros((12, 1), jnp.int32)
    for batch in batches:
        exact.update(batch)
        known = {
            state
            for state, count in zip(batch, table.read(jnp.asarray(batch), nowhere).tolist(), strict=True)
            if count
        }
        table, counts = visit(table, jnp.asarray(batch), nowhere)
        for state, read, kept in zip(
            batch, counts.tolist(), table.read(jnp.asarray(batch), nowhere).tolist(), strict=True
        ):
            assert read <= exact[state]
            assert kept == read or (kept == 0 and state not in known)
        assert int((np.asarray(table.entries)[..., 1] > 0).sum()) == min(8, len(exact))


def test_a_counter_needs_no_hyper_parameters(make_log: MakeLog) -> None:
    data = make_log(action_dim=3)
    counter = GridCounter.fit(data)
    assert counter.grid.bins == 22  # (14 / 3)^2
    low, high, mean = float(data.reward.min()), float(data.reward.max()), float(data.reward.mean())
    assert counter.pessimism == pytest.approx((mean + (low + high) / 2) / 2)


def test_rewards_around_zero_get_pessimism_too_and_a_note_that_says_why() -> None:
    pessimism, note = auto_pessimism(-2, 2, 0)
    assert pessimism == 0.5
    assert note.startswith("0.5: 0.25 of half the range of rewards, -2 to 2")
    assert auto_pessimism(-200, 200, 0)[0] == 50  # in whatever unit


@pytest.mark.parametrize(
    "file", ["hopper_medium-v2", "hopper_medium_replay-v1", "hopper_random-v1", "pen-expert-v1"]
)
def test_pessimism_follows_the_paper_s_rule_on_its_own_datasets(file: str) -> None:
    reward = read_hdf5(EXCERPTS / f"{file}.hdf5").reward.astype(np.float64)
    low, high, mean = float(reward.min()), float(reward.max()), float(reward.mean())
    assert auto_pessimism(low, high, mean)[0] == pytest.approx((abs(mean) + abs(low + high) / 2) / 2)


@given(low=st.floats(0, 100), width=st.floats(0, 100), share=st.floats(0, 1))
def test_rewards_that_are_never_negative_follow_the_paper_s_rule(
    low: float, width: float, share: float
) -> None:
    mean = low + share * width
    assert auto_pessimism(low, low + width, mean)[0] == pytest.approx((mean + low + width / 2) / 2)


def test_fingerprints_collide_as_often_as_the_documentation_states() -> None:
    """A read takes a stranger's entry for its own with probability about (entries in its bucket) / 2^bits."""
    bits, filled = 12, 4096
    empty = SparseTable.empty(megabytes=2**-5, fingerprint_bits=bits)
    everywhere = Grid.fit(np.array([[0.0], [1.0]], np.float32), bins=1)
    table = visit_rows(
        empty, everywhere, np.arange(filled, dtype=np.int32), np.zeros((filled, 1), np.float32)
    )
    assert isinstance(table, SparseTable)
    held = float((np.asarray(table.entries)[..., 1] > 0).sum()) / table.entries.shape[0]
    strangers = jnp.arange(10**6, 10**6 + 400_000)
    rate = float((table.read(strangers, everywhere.offset(jnp.zeros((400_000, 1)))) > 0).mean())
    assert rate == pytest.approx(held / 2**bits, rel=0.15)


def test_more_visits_mean_less_uncertainty_and_later_epochs_more() -> None:
    u = np.asarray(count_uncertainty(jnp.array([1.0, 4.0]), jnp.array(1), 3.0))
    assert u == pytest.approx([3 * np.sqrt(np.log(2)), 3 * np.sqrt(np.log(2) / 4)])
    assert float(count_uncertainty(jnp.array(1.0), jnp.array(99), 3.0)) == pytest.approx(
        3 * np.sqrt(np.log(100))
    )


@settings(max_examples=60, deadline=None)
@given(observation=arrays(np.float32, (30, 4), elements=st.floats(-5, 5, width=32)), bins=st.integers(1, 40))
def test_states_share_a_rank_exactly_when_they_share_a_cell(observation: np.ndarray, bins: int) -> None:
    cells, (rank,) = StateCells.fit(observation, bins=bins)
    low, high = observation.min(axis=0), observation.max(axis=0)
    vary = high > low
    digit = np.floor(bins * (observation - low) / (high - low + np.float32(1e-6)) + np.float32(0.5))[:, vary]
    same_cell = (digit[:, None] == digit[None]).all(axis=-1)
    assert ((rank[:, None] == rank[None]) == same_cell).all()
    assert sorted(set(rank.tolist())) == list(range(cells.n_cells))
    assert (cells.rank(observation) == rank).all()


def test_ranks_stay_exact_beyond_64_bits_of_cells() -> None:
    rng = np.random.default_rng(0)
    observation = rng.normal(size=(5000, 40)).astype(np.float32)  # 40 dimensions of 31 cells: 198 bits
    cells, (rank,) = StateCells.fit(np.concatenate([observation, observation]), bins=30)
    assert cells.n_cells == 5000
    assert (rank[:5000] == rank[5000:]).all()


def test_the_leading_resolution_tells_only_the_leading_dimensions_apart() -> None:
    rng = np.random.default_rng(0)
    observation = rng.uniform(size=(20_000, 11)).astype(np.float32)
    merged, (rank,) = StateCells.fit(observation, bins=15, resolution="leading")
    assert list(merged.kept) == [0, 1, 2, 3, 4, 5]  # 6 of Hopper's 11 at 15 bins
    changed = observation.copy()
    changed[:, 6:] = rng.uniform(size=(20_000, 5))
    assert (merged.rank(changed) == rank).all()
    assert (
        len(
            StateCells.fit(rng.uniform(size=(100, 17)).astype(np.float32), bins=5, resolution="leading")[
                0
            ].kept
        )
        == 9
    )


def test_a_dimension_that_never_varies_is_dropped_from_states_and_harmless_in_actions(
    make_log: MakeLog,
) -> None:
    data = make_log(rows=200, observation_dim=3, action_dim=2)
    data.observation[:, 1] = data.next_observation[:, 1] = 7.0
    data.action[:, 0] = 0.5
    counter = GridCounter.fit(data, bins=4)
    assert list(counter.cells.kept) == [0, 2]
    assert (counter.count(data.observation, data.action) >= 1).all()
    elsewhere = data.observation.copy()
    elsewhere[:, 1] = -3.0
    assert (counter.count(elsewhere, data.action) == counter.count(data.observation, data.action)).all()


@pytest.mark.parametrize("megabytes", [512, 2**-4], ids=["dense", "sparse"])
def test_a_counter_counts_a_log_and_doubts_what_is_not_in_it(make_log: MakeLog, megabytes: float) -> None:
    data = make_log(rows=300, action_dim=5)
    counter = GridCounter.fit(data, bins=3, pessimism=2.0, megabytes=megabytes)
    assert isinstance(counter.table, DenseTable if megabytes == 512 else SparseTable)
    rank = counter.cells.rank(data.observation)
    cell = np.asarray(counter.grid.cell(jnp.asarray(data.action)))
    exact = Counter(map(tuple, np.column_stack([rank, cell]).tolist()))
    assert counter.count(data.observation, data.action).tolist() == [
        exact[tuple(row)] for row in np.column_stack([rank, cell]).tolist()
    ]
    far = data.observation + 100
    assert counter.count(far, data.action).max() == 0
    assert (counter.uncertainty(far, data.action) == pytest.approx(2 * np.sqrt(np.log(2)))) is True
    assert counter.uncertainty(data.observation, data.action).max() < 2 * np.sqrt(np.log(2))
    with pytest.raises(ValueError, match="do not fit a counter of 3 observation and 5 action dimensions"):
        counter.count(data.action, data.observation)


def test_28_action_dimensions_never_allocate_their_product() -> None:
    table = empty_table(2_000_000, (4,) * 28, megabytes=512)
    assert isinstance(table, SparseTable)
    assert table.entries.nbytes <= 512 * 2**20


@pytest.mark.parametrize("dims", [2, 17])
def test_ranks_found_chunk_by_chunk_are_those_of_all_rows_at_once(
    monkeypatch: pytest.MonkeyPatch, dims: int
) -> None:
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=(3000, dims)).astype(np.float32) for _ in range(2)]
    monkeypatch.setattr(grid_module, "CHUNK", 10_000)
    whole, ranks = StateCells.fit(*columns, bins=15)
    monkeypatch.setattr(grid_module, "CHUNK", 100)
    chunked, found = StateCells.fit(*columns, bins=15)
    both = np.concatenate(columns)
    cells = np.clip(np.stack([whole._scaled(both, d) for d in range(dims)], axis=1), 0, 15)
    _, expected = np.unique(cells, axis=0, return_inverse=True)  # lexicographic, as mixed-radix codes are
    for result in (ranks, found):
        np.testing.assert_array_equal(np.concatenate(result), expected.ravel())
        assert [rank.dtype for rank in result] == [np.int32] * 2
    for some, others in zip(whole.codes, chunked.codes, strict=True):
        np.testing.assert_array_equal(some, others)


def test_ranking_holds_little_beside_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid_module, "CHUNK", 4096)
    column = np.random.default_rng(0).uniform(size=(400_000, 2)).astype(np.float32)
    tracemalloc.start()
    try:
        _, ranks = StateCells.fit(column, column, bins=30)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * sum(rank.nbytes for rank in ranks)

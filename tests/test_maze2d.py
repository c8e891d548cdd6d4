import dataclasses
import importlib
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from gridcount.catalogue import FAMILIES, MAZE_NAMES, MAZES
from gridcount.data.formats.d4rl import read_hdf5
from gridcount.data.store import mazes
from gridcount.envs.maze2d import (
    MAX_SPEED,
    PIXELS,
    WALL_OFFSET,
    BatchedMaze,
    Maze2D,
    Physics,
    model_xml,
    task,
)
from gridcount.envs.maze2d_data import Routes, generate
from gridcount.files.cache import cache_directory

UMAZE = "maze2d-umaze-v1"
MASS = 4 / 3 * np.pi * 0.1**3 * 1000  # sphere of radius 0.1 and density 1000


def one(physics: Physics, state: tuple[float, ...], action: tuple[float, float]) -> NDArray[np.float64]:
    return np.asarray(physics.step(np.array([state]), [action])[0])


@pytest.mark.parametrize("name", MAZE_NAMES)
def test_every_maze_is_made_by_gymnasium_and_passes_its_checker(name: str) -> None:
    importlib.import_module("gridcount.envs")
    env = gymnasium.make(f"gridcount/{name}", render_mode="rgb_array")
    assert env.spec is not None
    assert env.spec.max_episode_steps == FAMILIES[name.removesuffix("-v1")].limit
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=False)
    env.close()


def test_an_episode_ends_by_truncation_at_the_limit_and_never_by_termination() -> None:
    env = gymnasium.make(f"gridcount/{UMAZE}")
    env.reset(seed=0)
    ends = [env.step(np.zeros(2, dtype=np.float32))[2:4] for _ in range(300)]
    assert ends == [(False, False)] * 299 + [(False, True)]


def test_the_picture_is_rgb_and_shows_walls_goal_and_particle() -> None:
    env = Maze2D(UMAZE, render_mode="rgb_array")
    env.reset(options={"state": (3.0, 2.0, 0.0, 0.0)})
    image = env.render()
    assert image is not None
    assert image.shape == (5 * PIXELS, 5 * PIXELS, 3)
    assert image.dtype == np.uint8

    def colour(row: float, column: float) -> NDArray[np.int64]:  # at a position on the map
        return np.asarray(image[int((row + 0.5) * PIXELS), int((column + 0.5) * PIXELS)], dtype=np.int64)

    for row, column in np.argwhere(task(UMAZE).walls):
        assert colour(row, column).sum() < 250, "walls are dark"
    assert colour(1, 3).sum() > 600, "free cells are light"
    red, green, blue = colour(1 + WALL_OFFSET, 1 + WALL_OFFSET)
    assert green > max(red, blue) + 40, "the goal is green"
    red, green, blue = colour(3 + WALL_OFFSET, 2 + WALL_OFFSET)
    assert blue > max(red, green) + 40, "the particle is blue"
    assert Maze2D(UMAZE).render() is None


def test_free_motion_follows_euler_with_implicit_damping() -> None:
    # v' = v + h (100 a - v) / (mass + h), x' = x + h v': damping 1 enters the Euler step implicitly, as
    # MuJoCo does it
    physics = Physics(task(UMAZE).walls)
    x, v = 1.0, 0.3
    state = np.array([[3.0, x, 0.0, v]])
    for push in (1.0, 0.5, -1.0, 0.0, 0.25):
        state = physics.step(state, [[0.0, push]])
        v += 0.01 * (100 * push - v) / (MASS + 0.01)
        x += 0.01 * v
        np.testing.assert_allclose(state[0], [3.0, x, 0.0, v], rtol=0, atol=1e-12)


def test_speed_is_clipped_to_five_before_a_step_and_actions_to_one() -> None:
    physics = Physics(task(UMAZE).walls)
    np.testing.assert_array_equal(
        one(physics, (3, 1, 0, 9), (0, 0.5)), one(physics, (3, 1, 0, MAX_SPEED), (0, 0.5))
    )
    np.testing.assert_array_equal(one(physics, (3, 1, 0, 0), (0, 7)), one(physics, (3, 1, 0, 0), (0, 1)))


@pytest.mark.parametrize("action", [[np.nan, 0.0], [0.0], [[0.0, 0.0]]])
def test_an_impossible_action_is_refused(action: list[Any]) -> None:
    env = Maze2D(UMAZE)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"actions must be finite and of shape \(1, 2\)"):
        env.step(np.array(action))


@pytest.mark.parametrize("maze", MAZES)
def test_no_push_takes_the_particle_into_a_wall(maze: str) -> None:
    layout = task(f"maze2d-{maze}-v1")
    physics = Physics(layout.walls)
    rng = np.random.default_rng(0)
    corners = np.array([(a, b) for a in (-1.0, 0.0, 1.0) for b in (-1.0, 0.0, 1.0)])
    stubborn = np.repeat(corners, len(layout.cells), axis=0)  # from every cell, one direction for good
    cells = np.tile(layout.cells.astype(np.float64), (len(corners), 1))
    state = np.concatenate([np.concatenate([cells, 5 * stubborn], axis=1), layout.start(rng, 64)])
    random = rng.choice([-1.0, 0.0, 1.0], size=(64, 2))
    for _ in range(300):
        change = rng.random(64) < 0.05
        random[change] = rng.choice([-1.0, 0.0, 1.0], size=(change.sum(), 2))
        state = physics.step(state, np.concatenate([stubborn, random]))
        row, column = np.rint(state[:, :2] + WALL_OFFSET).astype(int).T
        assert not layout.walls[row, column].any()


def test_a_particle_pressed_against_a_wall_rests_at_its_surface() -> None:
    physics = Physics(task(UMAZE).walls)
    state = np.array([[1.0, 1.0, 0.0, 0.0]])
    for _ in range(300):
        state = physics.step(state, [[-0.1, 0.0]])
    # the wall's face is at world 1.5, the particle's centre 0.1 before it, observed position = world - 1.2
    assert state[0, 0] == pytest.approx(0.4, abs=0.01)
    assert abs(state[0, 2]) < 1e-3


def test_the_step_is_d4rls_sequence_of_mujoco_calls() -> None:
    layout = task("maze2d-medium-v1")
    model = mujoco.MjModel.from_xml_string(model_xml(layout.walls))
    data = mujoco.MjData(model)
    physics = Physics(layout.walls)
    rng = np.random.default_rng(3)
    state = layout.start(rng, 1)
    data.qpos[:], data.qvel[:] = state[0, :2], state[0, 2:]
    push = np.zeros(2)
    contacts = 0
    for step in range(600):
        if step % 20 == 0:
            push = rng.uniform(-1, 1, size=2)
        data.qvel[:] = np.clip(data.qvel, -5, 5)
        mujoco.mj_forward(model, data)
        data.ctrl[:] = push
        mujoco.mj_step(model, data)
        contacts += data.ncon > 1  # the ground always touches
        state = physics.step(state, push[None])
    assert contacts > 50
    np.testing.assert_allclose(state[0], np.concatenate([data.qpos, data.qvel]), rtol=0, atol=1e-6)


def test_sparse_reward_is_one_within_half_a_cell_of_the_goal() -> None:
    goal = np.array([6.0, 6.0])
    offsets = np.array([[0, 0], [0.5, 0], [0, -0.5], [0.25, 0.375], [0.51, 0], [0.4, 0.4]])
    np.testing.assert_array_equal(task("maze2d-medium-v1").reward(goal + offsets), [1, 1, 1, 1, 0, 0])


def test_dense_reward_falls_exponentially_with_distance() -> None:
    rewards = task("maze2d-large-dense-v1").reward(np.array([[7.0, 9.0], [7.0, 10.0], [4.0, 5.0]]))
    np.testing.assert_allclose(rewards, [1, np.exp(-1), np.exp(-5)])


def test_a_steps_reward_is_that_of_the_position_it_leads_to() -> None:
    env = Maze2D(UMAZE)
    env.reset(options={"state": (1.0, 1.51, 0.0, -5.0)})
    observation, reward, *_ = env.step(np.zeros(2))
    assert observation[1] < 1.5
    assert reward == 1.0


def test_starts_cover_every_free_cell_evenly_and_stay_near_their_centres() -> None:
    layout = task("maze2d-medium-v1")
    starts = layout.start(np.random.default_rng(0), 26_000)
    cells, visits = np.unique(np.rint(starts[:, :2]), axis=0, return_counts=True)
    np.testing.assert_array_equal(cells, layout.cells)
    assert len(cells) == 26
    assert visits.min() > 800
    assert visits.max() < 1200
    assert np.abs(starts[:, :2] - np.rint(starts[:, :2])).max() <= 0.1
    assert starts[:, 2:].std() == pytest.approx(0.1, rel=0.05)


def test_the_same_seed_gives_the_same_episode() -> None:
    def episode(seed: int) -> NDArray[np.float32]:
        env = Maze2D(UMAZE)
        first, _ = env.reset(seed=seed)
        env.action_space.seed(seed)
        return np.array([first] + [env.step(env.action_space.sample())[0] for _ in range(50)])

    np.testing.assert_array_equal(episode(1), episode(1))
    assert not np.array_equal(episode(1), episode(2))


@pytest.mark.parametrize("name", ["maze2d-umaze-v1", "maze2d-large-dense-v1"])
def test_many_episodes_at_once_equal_single_ones_bit_for_bit(name: str) -> None:
    together = BatchedMaze(name, episodes=7, seed=5)
    observation = together.reset()
    singles = [gymnasium.make(f"gridcount/{name}") for _ in range(7)]
    for i, single in enumerate(singles):
        first, _ = single.reset(options={"state": together.state[i]})
        np.testing.assert_array_equal(first, observation[i])
    rng = np.random.default_rng(0)
    limit = together.task.limit
    for step in range(limit):
        action = rng.uniform(-1, 1, size=(7, 2)).astype(np.float32)
        batch = together.step(action)
        for i, single in enumerate(singles):
            single_step = single.step(action[i])[:4]
            np.testing.assert_array_equal(single_step[0], batch[0][i])
            assert single_step[1:] == (batch[1][i], batch[2][i], batch[3][i])
        assert batch[3].all() == (step == limit - 1)
    with pytest.raises(RuntimeError, match="reset"):
        together.step(action)


def test_batched_starts_depend_on_the_seed_alone() -> None:
    np.testing.assert_array_equal(
        BatchedMaze(UMAZE, 5, seed=1).reset(), BatchedMaze(UMAZE, 5, seed=1).reset()
    )
    assert not np.array_equal(BatchedMaze(UMAZE, 5, seed=1).reset(), BatchedMaze(UMAZE, 5, seed=2).reset())


def test_an_unknown_maze_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="Did you mean 'maze2d-umaze-v1'"):
        Maze2D("maze2d-umaze-v9")
    with pytest.raises(ValueError, match="Did you mean 'maze2d-large-v1'"):
        mazes.make("maze2d-larg-v1")


def test_without_the_simulator_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['mujoco'] = None; import gridcount.data.store.mazes; import gridcount.envs.maze2d_data"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert run.returncode == 1
    assert run.stderr.strip().splitlines()[-1].endswith("pip install 'gridcount[envs]'")


def test_training_on_a_log_of_ones_own_imports_no_simulator_and_no_hdf5() -> None:
    code = "import sys; sys.modules |= dict.fromkeys(['gymnasium', 'mujoco', 'h5py']); import gridcount.commands.train"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert run.returncode == 0, run.stderr


@pytest.fixture(scope="module")
def umaze() -> dict[str, NDArray[Any]]:
    return generate(UMAZE, 50_000, seed=0)


@pytest.mark.parametrize(("maze", "expected"), [("umaze", 0.08), ("medium", 0.02), ("large", 0.01)])
def test_generated_rewards_are_as_rare_as_d4rls(maze: str, expected: float) -> None:
    # Over seeds, the mean of 50,000 rows has a standard deviation of 0.006, 0.005 and 0.002: too much to tell
    # a right recipe from a wrong one. That of 300,000 rows is two and a half times smaller.
    data = generate(f"maze2d-{maze}-v1", 300_000, seed=0)
    assert data["rewards"].mean() == pytest.approx(expected, abs=0.01)


def test_generated_columns_are_d4rls(umaze: dict[str, NDArray[Any]]) -> None:
    shapes = {key: (column.shape, str(column.dtype)) for key, column in umaze.items()}
    assert shapes == {
        "observations": ((50_000, 4), "float32"),
        "actions": ((50_000, 2), "float32"),
        "rewards": ((50_000,), "float32"),
        "terminals": ((50_000,), "bool"),
        "timeouts": ((50_000,), "bool"),
        "infos/goal": ((50_000, 2), "float32"),
        "infos/qpos": ((50_000, 2), "float32"),
        "infos/qvel": ((50_000, 2), "float32"),
    }
    assert not umaze["terminals"].any()
    assert np.abs(umaze["actions"]).max() <= 1
    np.testing.assert_array_equal(umaze["rewards"], task(UMAZE).reward(umaze["observations"][:, :2]))


def test_timeouts_are_exactly_the_goal_switches_and_the_stream_ends(umaze: dict[str, NDArray[Any]]) -> None:
    switches = np.append((np.diff(umaze["infos/goal"], axis=0) != 0).any(axis=1), True)
    np.testing.assert_array_equal(
        np.flatnonzero(umaze["timeouts"]), np.flatnonzero(switches)
    )  # a new stream has a new goal, too
    lengths = np.diff(np.flatnonzero(umaze["timeouts"]), prepend=-1)
    assert lengths.max() <= 301
    reached = umaze["observations"][umaze["timeouts"], :2] - np.rint(umaze["infos/goal"][umaze["timeouts"]])
    assert (np.linalg.norm(reached, axis=1) < 0.1).mean() > 0.9, "nearly every walk ends at its goal"


def test_a_walk_that_takes_too_long_gets_a_new_goal_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    hurried = dataclasses.replace(task(UMAZE), limit=20)
    monkeypatch.setattr("gridcount.envs.maze2d.task", lambda name: hurried)
    data = generate(UMAZE, 2_000, seed=0)
    assert (
        np.diff(np.flatnonzero(data["timeouts"]), prepend=-1).max() == 21
    )  # observations, hence 20 transitions


def test_within_a_walk_every_row_follows_from_the_one_before(umaze: dict[str, NDArray[Any]]) -> None:
    inside = np.flatnonzero(~umaze["timeouts"])
    physics = Physics(task(UMAZE).walls)
    predicted = physics.step(umaze["observations"][inside].astype(np.float64), umaze["actions"][inside])
    np.testing.assert_allclose(predicted, umaze["observations"][inside + 1], rtol=0, atol=1e-3)
    assert np.abs(np.diff(umaze["observations"][:, :2], axis=0)[inside]).max() < 0.07


def test_sparse_and_dense_differ_only_in_rewards() -> None:
    sparse, dense = (generate(f"maze2d-large{kind}-v1", 2_000, seed=3) for kind in ("", "-dense"))
    assert [key for key in sparse if not np.array_equal(sparse[key], dense[key])] == ["rewards"]


@pytest.mark.parametrize("rows", [2, 2_999, 7_001])
def test_any_number_of_rows_can_be_asked_for(rows: int) -> None:
    reports: list[tuple[int, int]] = []
    data = generate(UMAZE, rows, seed=0, progress=lambda done, total: reports.append((done, total)))
    assert {len(column) for column in data.values()} == {rows}
    assert data["timeouts"][-1]
    assert reports[-1] == (rows, rows)


def test_the_same_seed_makes_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    first, second = (mazes.make(UMAZE, 5_000, seed=7, directory=tmp_path / folder) for folder in "ab")
    assert first.read_bytes() == second.read_bytes()
    other = mazes.make(UMAZE, 5_000, seed=8, directory=tmp_path / "a")
    assert not read_hdf5(first).equals(read_hdf5(other))


def test_a_made_file_is_reused_and_a_damaged_one_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path))
    path = mazes.make(UMAZE, 3_000)
    assert path == tmp_path / "datasets" / "maze2d-umaze-v1-3000-seed0.hdf5"
    whole, stamp = path.read_bytes(), path.stat().st_mtime_ns
    assert mazes.make(UMAZE, 3_000).stat().st_mtime_ns == stamp
    path.write_bytes(whole[: len(whole) // 2])
    assert mazes.make(UMAZE, 3_000).read_bytes() == whole


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRIDCOUNT_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_directory() == Path("/caches/gridcount")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path.home() / ".cache" / "gridcount"


def test_routes_are_shortest_and_take_neighbouring_free_cells() -> None:
    walls = task(UMAZE).walls
    routes = Routes(walls)
    start, goal = np.array([3.0, 1.0]), int(np.flatnonzero((routes.cells == (1, 1)).all(axis=1))[0])
    np.testing.assert_array_equal(
        routes.between(start, goal), [(3, 2), (3, 3), (2, 3), (1, 3), (1, 2), (1, 1)]
    )
    np.testing.assert_array_equal(routes.between(np.array([1.0, 1.0]), goal), [(1, 1)])

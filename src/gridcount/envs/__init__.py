"""Maze2D for Gymnasium: importing this package registers `gridcount/maze2d-umaze-v1` and its five siblings."""

try:
    import gymnasium
    import mujoco  # noqa: F401  checked here, so that everything below can rely on it
except ImportError as error:
    raise ImportError(f"Maze2D needs Gymnasium and MuJoCo ({error}). Install them with: pip install 'gridcount[envs]'") from error

from gridcount.data.catalogue import FAMILIES, MAZE_NAMES, family_of

for _name in MAZE_NAMES:
    gymnasium.register(
        id=f"gridcount/{_name}",
        entry_point="gridcount.envs.maze2d:Maze2D",
        kwargs={"name": _name},
        max_episode_steps=FAMILIES[family_of(_name) or _name].limit,
    )

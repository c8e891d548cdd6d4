"""Importing this package registers environments with Gymnasium.

They are Maze2D (`gridcount/maze2d-umaze-v1`, ...), Adroit by D4RL's rules (`gridcount/pen-v1`, ...) and
simulated plants (`gridcount/tank-v0`, ...).
"""

try:
    import gymnasium
    import mujoco  # noqa: F401  checked here, so that everything below can rely on it
except ImportError as error:
    raise ImportError(
        f"simulation needs Gymnasium and MuJoCo ({error}). Install them with: pip install 'gridcount[envs]'"
    ) from error

from gridcount.catalogue import ADROIT, FAMILIES, MAZE_NAMES, family_of
from gridcount.envs.plants import PLANTS

for _name in MAZE_NAMES:
    gymnasium.register(
        id=f"gridcount/{_name}",
        entry_point="gridcount.envs.maze2d:Maze2D",
        kwargs={"name": _name},
        max_episode_steps=FAMILIES[family_of(_name) or _name].limit,
    )
for _name in ADROIT:
    gymnasium.register(
        id=f"gridcount/{_name}-v1",
        entry_point="gridcount.envs.adroit:make",
        kwargs={"task": _name},
        max_episode_steps=FAMILIES[_name].limit,
    )
for _name, _process in PLANTS.items():
    gymnasium.register(
        id=f"gridcount/{_name}-v0",
        entry_point=f"gridcount.envs.plants:{_process.plant.__name__}",
        max_episode_steps=_process.plant.limit,
    )

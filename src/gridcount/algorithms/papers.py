"""What each paper sets per domain or dataset, where it differs from the algorithm's defaults. `epochs` are 1,000 updates each.

A domain's fields come first ("gym", "maze2d", "adroit", "antmaze", "kitchen"), a dataset's own replace them.
"""

from typing import Any

Fields = dict[str, Any]

GPC_SAC: dict[str, Fields] = {  # the paper's second hyper-parameter table, its columns m, alpha and epoch
    "hopper-random-v2": {"bins": 15, "pessimism": 1.0, "epochs": 1000},
    "hopper-medium-replay-v2": {"bins": 15, "pessimism": 3.0, "epochs": 3000},
    "hopper-medium-v2": {"bins": 15, "pessimism": 4.0, "epochs": 3000},
    "hopper-medium-expert-v2": {"bins": 25, "pessimism": 5.0, "epochs": 3000},
    "hopper-expert-v2": {"bins": 25, "pessimism": 5.0, "epochs": 3000},
    "halfcheetah-random-v2": {"bins": 5, "pessimism": 0.0, "epochs": 1000},
    "halfcheetah-medium-replay-v2": {"bins": 5, "pessimism": 2.0, "epochs": 1000},
    "halfcheetah-medium-v2": {"bins": 5, "pessimism": 3.0, "epochs": 1000},
    "halfcheetah-medium-expert-v2": {"bins": 5, "pessimism": 6.0, "epochs": 1000},
    "halfcheetah-expert-v2": {"bins": 7, "pessimism": 6.0, "epochs": 3000},
    "walker2d-random-v2": {"bins": 6, "pessimism": 2.0, "epochs": 200},
    "walker2d-medium-replay-v2": {"bins": 6, "pessimism": 3.0, "epochs": 1000},
    "walker2d-medium-v2": {"bins": 6, "pessimism": 4.0, "epochs": 1000},
    "walker2d-medium-expert-v2": {"bins": 6, "pessimism": 5.0, "epochs": 1000},
    "walker2d-expert-v2": {"bins": 6, "pessimism": 5.0, "epochs": 1000},
    "maze2d-umaze-v1": {"bins": 30, "pessimism": 0.2, "epochs": 1000},  # "maze-d" in the table
    "maze2d-medium-v1": {"bins": 30, "pessimism": 0.2, "epochs": 1000},
    "maze2d-large-v1": {"bins": 30, "pessimism": 0.2, "epochs": 1000},
    "pen-expert-v1": {"bins": 1, "pessimism": 30.0, "epochs": 1000},
    "hammer-expert-v1": {"bins": 1, "pessimism": 70.0, "epochs": 1000},
    "door-expert-v1": {"bins": 1, "pessimism": 15.0, "epochs": 1000},
}

TD3_BC: dict[str, Fields] = {  # one setting for Gym; CORL uses the same on Maze2D and Adroit
    "antmaze": {"normalise": False},  # as the authors say of their own AntMaze results
}

PAPERS: dict[str, dict[str, Fields]] = {
    "gpc-sac": GPC_SAC,
    "gpc-td3": GPC_SAC,  # no paper's: the counts' own settings carry over
    "td3-bc": TD3_BC,
}

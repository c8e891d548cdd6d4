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

IQL: dict[str, Fields] = {  # the authors' configs; Maze2D is not in the paper, and CORL runs it with the defaults
    "gym": {"reward_scaling": "return-range"},
    "adroit": {"advantage_scale": 0.5, "dropout": 0.1},
    "kitchen": {"advantage_scale": 0.5, "dropout": 0.1},
    "antmaze": {"expectile": 0.9, "advantage_scale": 10.0, "reward_scaling": "minus-one"},
}

PAPERS: dict[str, dict[str, Fields]] = {
    "gpc-sac": GPC_SAC,
    "iql": IQL,
    "uwac": {domain: {"epochs": 3000} for domain in ("gym", "adroit", "maze2d")},  # the authors' code; otherwise one setting for all
}

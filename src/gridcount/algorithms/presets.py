"""Presets: what differs from an algorithm's defaults, per dataset. `paper` is the paper's; `fast` is for an ordinary machine."""

from typing import Any, Literal

from gridcount.data.catalogue import family_of, unknown

Preset = Literal["fast", "paper"]
PRESETS = ("fast", "paper")
DEFAULT_EPOCHS = 1000

PAPER: dict[tuple[str, str], dict[str, Any]] = {  # the paper's second hyper-parameter table, its columns m, alpha and epoch
    ("gpc-sac", "hopper-random-v2"): {"bins": 15, "pessimism": 1.0, "epochs": 1000},
    ("gpc-sac", "hopper-medium-replay-v2"): {"bins": 15, "pessimism": 3.0, "epochs": 3000},
    ("gpc-sac", "hopper-medium-v2"): {"bins": 15, "pessimism": 4.0, "epochs": 3000},
    ("gpc-sac", "hopper-medium-expert-v2"): {"bins": 25, "pessimism": 5.0, "epochs": 3000},
    ("gpc-sac", "hopper-expert-v2"): {"bins": 25, "pessimism": 5.0, "epochs": 3000},
    ("gpc-sac", "halfcheetah-random-v2"): {"bins": 5, "pessimism": 0.0, "epochs": 1000},
    ("gpc-sac", "halfcheetah-medium-replay-v2"): {"bins": 5, "pessimism": 2.0, "epochs": 1000},
    ("gpc-sac", "halfcheetah-medium-v2"): {"bins": 5, "pessimism": 3.0, "epochs": 1000},
    ("gpc-sac", "halfcheetah-medium-expert-v2"): {"bins": 5, "pessimism": 6.0, "epochs": 1000},
    ("gpc-sac", "halfcheetah-expert-v2"): {"bins": 7, "pessimism": 6.0, "epochs": 3000},
    ("gpc-sac", "walker2d-random-v2"): {"bins": 6, "pessimism": 2.0, "epochs": 200},
    ("gpc-sac", "walker2d-medium-replay-v2"): {"bins": 6, "pessimism": 3.0, "epochs": 1000},
    ("gpc-sac", "walker2d-medium-v2"): {"bins": 6, "pessimism": 4.0, "epochs": 1000},
    ("gpc-sac", "walker2d-medium-expert-v2"): {"bins": 6, "pessimism": 5.0, "epochs": 1000},
    ("gpc-sac", "walker2d-expert-v2"): {"bins": 6, "pessimism": 5.0, "epochs": 1000},
    ("gpc-sac", "maze2d-umaze-v1"): {"bins": 30, "pessimism": 0.2, "epochs": 1000},  # "maze-d" in the table
    ("gpc-sac", "maze2d-medium-v1"): {"bins": 30, "pessimism": 0.2, "epochs": 1000},
    ("gpc-sac", "maze2d-large-v1"): {"bins": 30, "pessimism": 0.2, "epochs": 1000},
    ("gpc-sac", "pen-expert-v1"): {"bins": 1, "pessimism": 30.0, "epochs": 1000},
    ("gpc-sac", "hammer-expert-v1"): {"bins": 1, "pessimism": 70.0, "epochs": 1000},
    ("gpc-sac", "door-expert-v1"): {"bins": 1, "pessimism": 15.0, "epochs": 1000},
}

# Small networks for a CPU. Only the (s, a~pi) half of the OOD loss carries gradients, as in the published results.
FAST: dict[str, dict[str, Any]] = {
    "maze2d": {  # coarser states, more pessimism: docs/gpc-sac.md says why
        "hidden": (64, 64),
        "layer_norm": True,
        "average_step": 0.001,
        "state_bins": 15,
        "pessimism": 0.4,
        "ood_next_weight": 0.0,
        "epochs": 120,
    },
    "other": {"hidden": (256, 256), "state_resolution": "published", "ood_next_weight": 0.0, "epochs": 300},
}


def preset_fields(algorithm: str, dataset: str, preset: str) -> dict[str, Any]:
    """The fields a preset sets, `epochs` (of 1,000 updates) among them."""
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    fields = {"epochs": DEFAULT_EPOCHS} | PAPER.get((algorithm, dataset), {})
    if preset == "fast":
        fields |= FAST["maze2d" if (family_of(dataset) or "").startswith("maze2d") else "other"]
    return fields

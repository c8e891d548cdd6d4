"""Presets: what differs from an algorithm's defaults, per dataset. `paper` is the papers'; `fast` is for
an ordinary machine."""

from typing import Any, Literal

from gridcount.algorithms.contract import EPOCH
from gridcount.algorithms.papers import PAPERS
from gridcount.catalogue import MAZE_NAMES, NAMES, domain_of, unknown

Preset = Literal["fast", "paper"]
PRESETS = ("fast", "paper")
DEFAULT_EPOCHS = 1000
OWN = "own"  # every dataset without a published name

# Small networks for a CPU, by domain or dataset: for every algorithm that has the field.
FAST: dict[str, dict[str, Any]] = {
    "maze2d": {"hidden": (64, 64), "layer_norm": True, "average_step": 0.001, "epochs": 120},
    "other": {"hidden": (256, 256), "epochs": 300},
} | {
    name: {"hidden": (128, 128)} for name in MAZE_NAMES if "umaze" not in name
}  # more corridors to distinguish
TD3_CVAE_WEIGHTS = {
    "target_penalty": 1.0,
    "policy_penalty": 1.0,
    "average_bonus": True,
}  # the first author's code
# And what a single algorithm needs besides, in a domain or on a dataset.
FAST_OWN: dict[tuple[str, str], dict[str, Any]] = {
    # CQL's default rate, CORL's 3e-5 being for a million updates; and 4 actions of each kind, since a CPU
    # takes time for every one
    ("cql", "maze2d"): {"policy_rate": 1e-4, "sampled_actions": 4, "scale_threshold": True},
    ("pbrl", "maze2d"): {"sampled_actions": 4},
    ("cql", "other"): {"imitation_updates": 0},  # a short run has no updates for it
    ("sac-n", "maze2d"): {"n_critics": 10},  # the papers' up to 500 critics take days on a CPU
    ("sac-n", "other"): {"n_critics": 10},
    ("edac", "other"): {"n_critics": 10},
    **{("gpc-anchor", size): {"hidden": (128, 128), "epochs": 200} for size in ("maze2d", "other")},
    ("gpc-sac", "maze2d"): {"state_bins": 15, "pessimism": 0.4},  # docs/gpc-sac.md says why
    # In larger mazes as many state cells as umaze has, so that counts grow and pessimism fades as fast as
    # there
    **{("gpc-sac", name): {"state_bins": 11} for name in ("maze2d-medium-v1", "maze2d-medium-dense-v1")},
    **{("gpc-sac", name): {"state_bins": 10} for name in ("maze2d-large-v1", "maze2d-large-dense-v1")},
    ("gpc-sac", "other"): {
        "hidden": (128, 128),
        "layer_norm": True,
        "normalise": True,
        "average_step": 0.001,
        "target_step": 0.01,  # values settle in half as many updates
        "state_resolution": "leading",
    },
    ("gpc-sac", OWN): {"state_resolution": "even"},  # whose columns come in any order
    ("gpc-sac", "pen-expert-v1"): {
        "average_step": 0.0001
    },  # policies differ more from one evaluation to the next
    ("gpc-td3", "maze2d"): {"state_bins": 15, "pessimism": 0.4},
    ("gpc-td3", "other"): {"state_resolution": "leading"},
    ("gpc-td3", OWN): {"state_resolution": "even"},
    ("td3-cvae", "maze2d"): {"cvae_hidden": (128, 128), "cvae_updates": 20_000} | TD3_CVAE_WEIGHTS,
    ("td3-cvae", "other"): {"cvae_hidden": (256, 256), "cvae_updates": 50_000} | TD3_CVAE_WEIGHTS,
    ("iql", "maze2d"): {"schedule_updates": 120_000},  # the policy's step falls to 0 within the shorter run
    ("iql", "other"): {"schedule_updates": 300_000},
    ("uwac", "maze2d"): {
        "behaviour_hidden": (64, 64),
        "passes": 10,
        "warmup_updates": 5_000,
    },  # a warm-up of 4% of the run
    ("uwac", "other"): {"behaviour_hidden": (256, 256), "passes": 10, "warmup_updates": 12_000},
}

# What the paper's own code does and the fast preset leaves out, whatever the dataset.
PAPER_OWN: dict[str, dict[str, Any]] = {
    "gpc-sac": {
        "q_floor": 0.0,
        "state_resolution": "rounded",
        "initialisation": "published",
        "log_std_low": -5.0,
    },
    "gpc-td3": {"q_floor": 0.0, "state_resolution": "rounded"},
    "pbrl": {"q_floor": 0.0},
    "td3-cvae": TD3_CVAE_WEIGHTS,
    "uwac": {"weighting": "exponential", "weight_limit": 1.0, "weight_errors": True},
}


def default_algorithm(dataset: str, preset: str) -> str:
    """The default algorithm: the paper's on its datasets and in its preset, else the one without settings."""
    return "gpc-sac" if preset == "paper" or dataset in NAMES else "gpc-anchor"


def planned_updates(algorithm: str, dataset: str, preset: str) -> int:
    """How long a preset trains."""
    epochs: int = preset_fields(algorithm, dataset, preset)["epochs"]
    return EPOCH * epochs


def preset_fields(algorithm: str, dataset: str, preset: str) -> dict[str, Any]:
    """The fields a preset sets, `epochs` (of 1,000 updates) among them."""
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    domain = domain_of(dataset)
    published = PAPERS.get(algorithm, {})
    fields = {"epochs": DEFAULT_EPOCHS} | published.get(domain, {}) | published.get(dataset, {})
    if preset == "fast":
        size = domain if domain in FAST else "other"
        fields |= FAST[size] | FAST.get(dataset, {})
        for place in (size, domain or OWN, dataset):
            fields |= FAST_OWN.get((algorithm, place), {})
    else:
        fields |= PAPER_OWN.get(algorithm, {})
    return fields

"""The named datasets: reference scores and episode limits."""

import difflib
from typing import NamedTuple

MAZES = ("umaze", "medium", "large")
ADROIT = ("pen", "hammer", "door", "relocate")
GYM_TIERS = ("random", "medium", "medium-replay", "medium-expert", "expert", "full-replay")


class Reference(NamedTuple):
    """Returns with normalised scores 0 and 100, and the episode limit (D4RL)."""

    low: float
    high: float
    limit: int


# Low and high: REF_MIN_SCORE and REF_MAX_SCORE of d4rl/infos.py (Farama-Foundation/D4RL at 0ace16d), which
# gives the tiers and versions of a family the same.
FAMILIES = {
    "hopper": Reference(-20.272305, 3234.3, 1000),
    "halfcheetah": Reference(-280.178953, 12135.0, 1000),
    "walker2d": Reference(1.629008, 4592.3, 1000),
    "ant": Reference(-325.6, 3879.7, 1000),
    "maze2d-umaze": Reference(23.85, 161.86, 300),
    "maze2d-medium": Reference(13.13, 277.39, 600),
    "maze2d-large": Reference(6.7, 273.99, 800),
    "maze2d-umaze-dense": Reference(68.537689, 193.66285642381482, 300),
    "maze2d-medium-dense": Reference(44.264742, 297.4552547777125, 600),
    "maze2d-large-dense": Reference(30.569041, 303.4857382709002, 800),
    "pen": Reference(96.262799, 3076.8331017826877, 100),
    "hammer": Reference(-274.856578, 12794.134825156867, 200),
    "door": Reference(-56.512833, 2880.5693087298737, 200),
    "relocate": Reference(-6.425911, 4233.877797728884, 200),
    "antmaze": Reference(0.0, 1.0, 1000),
    "antmaze-umaze": Reference(0.0, 1.0, 700),
    "kitchen": Reference(0.0, 4.0, 280),
}

MAZE_NAMES = tuple(f"maze2d-{maze}{kind}-v1" for kind in ("", "-dense") for maze in MAZES)
GYM_NAMES = tuple(
    f"{family}-{tier}-v2" for family in ("hopper", "halfcheetah", "walker2d", "ant") for tier in GYM_TIERS
)
ADROIT_NAMES = tuple(f"{family}-{tier}-v1" for family in ADROIT for tier in ("human", "cloned", "expert"))
ANTMAZE_NAMES = tuple(
    f"antmaze-{task}-v2"
    for task in ("umaze", "umaze-diverse", "medium-play", "medium-diverse", "large-play", "large-diverse")
)
KITCHEN_NAMES = tuple(f"kitchen-{task}-v0" for task in ("complete", "partial", "mixed"))
DOMAINS = {
    "maze2d": MAZE_NAMES,
    "gym": GYM_NAMES,
    "adroit": ADROIT_NAMES,
    "antmaze": ANTMAZE_NAMES,
    "kitchen": KITCHEN_NAMES,
}
NAMES = MAZE_NAMES + GYM_NAMES + ADROIT_NAMES + ANTMAZE_NAMES + KITCHEN_NAMES


def domain_of(name: str) -> str:
    """The group of datasets that papers tune together, or "" for the user's own dataset."""
    return next((domain for domain, names in DOMAINS.items() if name in names), "")


def family_of(name: str) -> str | None:
    """The family whose reference scores a published dataset is judged by; None for any other dataset."""
    if name not in NAMES:
        return None
    parts = name.rsplit("-v", 1)[0].split("-")
    stems = ("-".join(parts[:length]) for length in range(len(parts), 0, -1))  # the longest known stem wins
    return next((stem for stem in stems if stem in FAMILIES), None)


def normalised_score(family: str, episode_return: float) -> float:
    """D4RL's score, 100 * (return - low) / (high - low)."""
    low, high, _ = FAMILIES[family]
    return 100.0 * (episode_return - low) / (high - low)


def unknown(kind: str, name: str, known: tuple[str, ...] | list[str]) -> ValueError:
    """An error that lists what exists and suggests the nearest."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return ValueError(f"unknown {kind} '{name}'.{hint}\nAvailable: {', '.join(sorted(known))}")

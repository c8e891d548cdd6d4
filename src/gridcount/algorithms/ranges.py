"""The valid range of each hyper-parameter: one table for all algorithms, checked before training."""

import math
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

LARGEST = 2**62  # of whole numbers


class Range(NamedTuple):
    """The numbers from `low` to `high`, both included unless excluded."""

    low: float
    high: float = math.inf
    without_low: bool = False
    without_high: bool = False

    def holds(self, value: float) -> bool:
        """Whether a number lies within; never for NaN, infinity and too large integers."""
        above = value > self.low if self.without_low else value >= self.low
        below = value < self.high if self.without_high else value <= self.high
        return above and below and abs(value) < (LARGEST if isinstance(value, int) else math.inf)

    def __str__(self) -> str:
        low = "above" if self.without_low else "at least"
        high = "below" if self.without_high else "at most"
        return f"{low} {self.low:g}" + (f" and {high} {self.high:g}" if math.isfinite(self.high) else "")


WHOLE = Range(1)  # how many there are of something, or how often
POSITIVE = Range(0, without_low=True)  # steps, widths and the like
WEIGHT = Range(0)  # 0 leaves the term out
STEP = Range(0, 1, without_low=True)  # of a moving average: 1 replaces the old value
SHARE = Range(0, 1, without_high=True)
ANY = Range(-math.inf)

RANGES = {  # field -> its range, in every algorithm that has the field
    "hidden": WHOLE,  # each layer
    "batch_size": WHOLE,
    "discount": SHARE,
    "policy_rate": POSITIVE,
    "critic_rate": POSITIVE,
    "value_rate": POSITIVE,
    "target_step": STEP,
    "average_step": STEP,
    "log_std_low": Range(-100, 2, without_high=True),  # 2 is the upper end
    "critics": WHOLE,
    "n_critics": WHOLE,
    "policy_every": WHOLE,
    # counting
    "bins": WHOLE,
    "state_bins": WHOLE,
    "margin": WHOLE,
    "most_visits": WEIGHT,
    "pessimism": WEIGHT,
    "q_floor": ANY,
    "beta": WEIGHT,
    "beta_next": WEIGHT,
    "in_weight": WEIGHT,
    "ood_weight": WEIGHT,
    "ood_next_weight": WEIGHT,
    "table_megabytes": Range(1),
    "anchor": WEIGHT,
    "support_cost": WEIGHT,
    "ood_noise": WEIGHT,
    "reward_level": ANY,
    "value_level": ANY,
    "reward_unit": POSITIVE,
    "rows_per_cell": WHOLE,
    "value_spread": POSITIVE,
    # the others' own
    "advantage_scale": WEIGHT,
    "behaviour_hidden": WHOLE,
    "behaviour_rate": POSITIVE,
    "beta_in": WEIGHT,
    "candidates": WHOLE,
    "cvae_batch_size": WHOLE,
    "cvae_hidden": WHOLE,
    "cvae_kl_weight": WEIGHT,
    "cvae_latent": WHOLE,
    "cvae_rate": POSITIVE,
    "cvae_updates": WEIGHT,
    "discrepancy_limit": WEIGHT,
    "discrepancy_samples": WHOLE,
    "kernel_width": POSITIVE,
    "minimum_share": Range(0, 1),
    "multiplier_rate": POSITIVE,
    "next_actions": WHOLE,
    "ood_decay": Range(1),
    "ood_end": WEIGHT,
    "ood_floor": WEIGHT,
    "ood_start": WEIGHT,
    "ood_updates": WHOLE,
    "passes": Range(2),  # a variance needs two
    "prior_scale": WEIGHT,
    "target_penalty": WEIGHT,
    "warmup_updates": WEIGHT,
    "weight_scale": POSITIVE,
    "ambition": WEIGHT,
    "best_share": STEP,
    "conservatism": WEIGHT,
    "critic_penalty": WEIGHT,
    "policy_penalty": WEIGHT,
    "diversity": WEIGHT,
    "dropout": SHARE,
    "expectile": Range(0, 1, without_low=True, without_high=True),
    "imitation_updates": WEIGHT,
    "lagrange_threshold": ANY,
    "reward_scale": POSITIVE,
    "sampled_actions": WHOLE,
    "schedule_updates": WHOLE,
    "smoothing": WEIGHT,
    "smoothing_limit": WEIGHT,
    "weight_limit": POSITIVE,
}


def validate_ranges(algorithm: Any) -> None:
    """Raise ValueError with the flag of a field whose value has the wrong type or is out of range."""
    for name, kind in get_type_hints(type(algorithm)).items():
        value, allowed = getattr(algorithm, name), RANGES.get(name)
        flag = f"--{name.replace('_', '-')}"
        if not _fits(value, kind):
            raise ValueError(f"{flag} is {value!r}; it must be {' or '.join(_in_words(kind))}")
        numbers = [number for number in (value if isinstance(value, tuple) else (value,)) if isinstance(number, int | float)]
        if allowed is not None and not all(map(allowed.holds, numbers)):
            raise ValueError(f"{flag} is {' '.join(_shown(number) for number in numbers)}; it must be {allowed}")


def _shown(number: float) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)[:20]


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a field's kind, as TOML and flags give values: a whole number does where a number is wanted."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_fits(each, get_args(kind)[0]) for each in value)
    if parts := get_args(kind):
        return any(_fits(value, part) for part in parts)
    return isinstance(value, int | float if kind is float else kind) and (kind is bool or not isinstance(value, bool))


def _in_words(kind: Any) -> tuple[str, ...]:
    """What a field of this kind may be: words first."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    if get_origin(kind) is tuple:
        return ("a list of whole numbers",)
    if parts := get_args(kind):
        return tuple(sorted((word for part in parts for word in _in_words(part)), key=lambda word: " " in word))
    return {int: ("a whole number",), float: ("a number",), bool: ("true or false",)}.get(kind, ())

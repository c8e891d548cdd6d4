"""Estimates as a person reads them: a table, and a verdict in words."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from io import StringIO
from math import isfinite
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from gridcount.estimation.intervals import Interval
from gridcount.terminal import make_console

LEAST_EPISODES = 10  # below this many, an interval over episodes means nothing
LEAST_EFFECTIVE = 10.0  # below this effective number of episodes, importance weights say nothing
FEW_EFFECTIVE = (
    f"cannot say with fewer than {LEAST_EFFECTIVE:g} effective episodes: the log rarely acts like the policy for a"
    " whole episode, so a few episodes would decide the number"
)
OVERFLOW = "cannot say where the product of the weights overflows"
HEADINGS = ("policy", "fitted Q (95 %)", "cautious", "in a model", "gain over the log (95 %)", "never seen")
LEAVING = 0.25  # share of never seen actions from which leaving the log is named as the reason


@dataclass(frozen=True)
class Estimate:
    """What one policy is worth according to a log."""

    name: str
    fitted_q: Interval  # mean return from the first states of the evaluated episodes, by fitted Q evaluation
    cautious: float  # the smaller of this and the model's estimate, less what leaving the log may cost
    # the same by roll-outs in a model of the log, less what they give too much for the log's own policy; of
    # that one, as it came out for a clone
    rolled_out: Interval
    gain: Interval | None  # over the log's policy; None for the log itself
    uncertainty: (
        float  # mean over its steps of 1/sqrt(n + 1), where the log has its action n times: 1 if never
    )
    unseen: float  # share of its actions at the evaluated states that the log never has in the state's cell
    better: bool | None = None  # than the log's policy, with 95 % confidence; None: cannot say
    verdict: str = ""
    others: dict[str, "Weighted"] = field(default_factory=dict)  # estimates by importance weights, by name


@dataclass(frozen=True)
class Weighted:
    """An estimate by importance weights, if it can be said."""

    interval: Interval | None  # None: cannot be said
    effective: float  # the effective number of episodes
    why: str = ""  # it cannot be said
    meaningless: Interval | None = None  # the numbers that it would have had; not an estimate of anything

    @classmethod
    def of(cls, found: Interval, effective: float) -> "Weighted":
        """The estimate, unless too few episodes carry it or its weights overflowed."""
        if effective < LEAST_EFFECTIVE:
            why = FEW_EFFECTIVE
        elif not all(map(isfinite, (found.value, found.low, found.high))):
            why = OVERFLOW
        else:
            return cls(found, effective)
        return cls(None, effective, why, found)


@dataclass(frozen=True)
class Estimates(Sequence[Estimate]):
    """Policies beside each other, and the log's own policy."""

    policies: tuple[Estimate, ...]  # the log's own is the last
    returns: Interval  # the log's episodes as they were, within the steps that were logged
    undiscounted: Interval  # the same without a discount
    discount: float  # 1: returns are not discounted
    horizon: int  # steps of the longest episode
    episodes: int  # that were evaluated
    reproduces: (
        bool | None
    )  # fitted values of the log's policy agree with the log's returns; None: returns were cut off
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.policies)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            return next(each for each in self.policies if each.name == index)
        return self.policies[index]

    def __iter__(self) -> Iterator[Estimate]:
        return iter(self.policies)

    def ranked(self) -> list[Estimate]:
        """The best first, by the lower limit of the fitted values.

        It holds the disagreement of the networks and the cost of leaving the log, both of which grow where a
        policy does what the log does not have.
        """
        return sorted(self.policies, key=lambda each: -each.fitted_q.low)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON takes it: a number that overflowed is None."""
        found: dict[str, Any] = _known(asdict(self))
        return found

    def render(self, console: Console) -> None:
        """Print the table, the verdicts and the notes."""
        console.print(self._table())
        for each in self.policies:
            if each.verdict:
                console.print(f"{each.name}: {each.verdict}", soft_wrap=True)
        if any(each.others for each in self.policies):
            console.print(self._weighted_table())
        for why in dict.fromkeys(other.why for each in self.policies for other in each.others.values()):
            if why:
                console.print(f"importance weights: {why}", soft_wrap=True)
        for note in self.notes:
            console.print(f"note: {note}", soft_wrap=True)

    def __repr__(self) -> str:
        console = make_console(file=StringIO(), record=True, width=120)
        self.render(console)
        return console.export_text().rstrip()

    def _table(self) -> Table:
        how = (
            f"undiscounted returns within {self.horizon:,} steps"
            if self.discount == 1
            else f"returns discounted by {self.discount:g}"
        )
        table = Table(title=f"Estimated {how}, from the first states of {self.episodes:,} episodes")
        for heading in HEADINGS:
            table.add_column(heading, justify="left" if heading == "policy" else "right")
        for each in self.policies:
            table.add_row(
                each.name,
                in_words(each.fitted_q),
                f"{each.cautious:.4g}",
                "" if each.gain is None else f"{each.rolled_out.value:.4g}",
                "" if each.gain is None else in_words(each.gain),
                f"{each.unseen:.0%}",
            )
        return table

    def _weighted_table(self) -> Table:
        """The estimates by importance weights: a row for each, so that intervals fit into a terminal."""
        table = Table(title="The same by importance weights")
        for heading in ("policy", "estimate", "return (95 %)", "effective episodes"):
            table.add_column(heading, justify="right" if heading.endswith(("episodes", "%)")) else "left")
        for each in self.policies:
            for name, other in each.others.items():
                said = "cannot say" if other.interval is None else in_words(other.interval)
                table.add_row(each.name, name, said, f"{other.effective:.1f}")
        return table


def _known(value: Any) -> Any:
    """The same with None for numbers that are not finite, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _known(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_known(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def in_words(interval: Interval) -> str:
    """An interval as text."""
    return f"{interval.value:.4g} [{interval.low:.4g}, {interval.high:.4g}]"


class Gains(NamedTuple):
    """A policy's gain over the log's, with more and more of what may be wrong with it."""

    statistical: Interval  # networks and episodes alone
    widened: Interval  # and what leaving the log may cost
    whole: Interval  # and what roll-outs in a model say

    @classmethod
    def of(cls, statistical: Interval, cost: float, followed: float) -> "Gains":
        """Of the gain in fitted values, the cost of leaving the log, and the gain in roll-outs."""
        widened = statistical.widened(cost)
        return cls(statistical, widened, widened.reaching(followed))


def verdict(gains: Gains, unseen: float, episodes: int, reproduces: bool | None) -> tuple[bool | None, str]:
    """Whether a policy is better than the log's with 95 % confidence, and why; `unseen` is the share of its
    actions that the log never has."""
    gain = gains.whole
    limits = f"the gain is {gain.value:.4g}, between {gain.low:.4g} and {gain.high:.4g}"
    if episodes < LEAST_EPISODES:
        return (
            None,
            f"cannot say whether it is better than the log's policy: only {episodes} episodes were evaluated",
        )
    if reproduces is False:
        return None, (
            "cannot say whether it is better than the log's policy: fitted values do not even reproduce the"
            " log's own returns"
        )
    if gain.low > 0:
        return True, f"better than the log's policy with 95 % confidence (nominal): yes, {limits}"
    if gain.high < 0:
        return (
            False,
            f"better than the log's policy with 95 % confidence (nominal): no, it is worse; {limits}",
        )
    if gains.widened.decides():
        why = "roll-outs in a model of the log do not confirm it"
    elif unseen >= LEAVING or gains.statistical.decides():
        why = "its actions leave the log too far for their values to be known"
    else:
        why = "the log holds too few episodes to tell the difference"
    return None, f"cannot say whether it is better than the log's policy: {limits}; {why}"

"""What a search found: the ranking with intervals, the winner on fresh episodes, and its lead."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from gridcount.benchmark.estimated import Found, Pair
from gridcount.data.formats.columns import FIELDS
from gridcount.estimation.intervals import Interval
from gridcount.estimation.result import LEAST_EPISODES
from gridcount.estimation.result import in_words as interval_words
from gridcount.tuning.study import Outcome, Search, Trial, refused

RANKED, STOPPED, REFUSED, FAILED = "", "stopped early", "refused: leaves the log", "failed"


@dataclass(frozen=True)
class Ranked:
    """A trial in the ranking."""

    outcome: Outcome
    status: str
    updates: int = 0  # after which it was estimated
    pair: Pair | None = None  # that estimate; None if it failed

    @property
    def trial(self) -> Trial:
        """What was tried."""
        return self.outcome.trial

    @property
    def ranked(self) -> bool:
        """Whether it can win."""
        return self.status == RANKED


@dataclass(frozen=True)
class Difference:
    """The winner against another trial, on episodes that ranked nothing."""

    other: str  # what the other trial is
    number: int
    interval: Interval  # of the difference of the cautious estimates
    differs: bool | None  # with 95 % confidence; None: cannot say
    verdict: str


@dataclass(frozen=True)
class Tuning:
    """A search that ended."""

    search: Search
    ranking: tuple[Ranked, ...]  # the best first
    confirmed: dict[int, Found]  # of the finalists, by number

    @property
    def winner(self) -> Trial:
        """The trial whose estimate has the highest lower limit."""
        return self.ranking[0].trial

    @property
    def algorithm(self) -> str:
        """The winner's: `gridcount.train(data, tuning.algorithm, **tuning.changes)` trains it in full."""
        return self.winner.algorithm

    @property
    def changes(self) -> dict[str, Any]:
        """The fields in which the winner differs from its preset."""
        return self.winner.changes

    @property
    def in_search(self) -> Interval:
        """The winner's cautious estimate in the search: the largest of many, so it is probably too high."""
        pair = self.ranking[0].pair
        assert pair is not None
        return pair.policy.interval

    @property
    def fresh(self) -> Interval | None:
        """The winner's cautious estimate on episodes that ranked nothing."""
        pair = self._confirmed(self.winner)
        return None if pair is None else pair.policy.interval

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The winner against the runner-up and against the automatic values."""
        others = [each.trial for each in self.ranking[1:2] if each.ranked]
        others += [each.trial for each in self.ranking[1:] if each.ranked and each.trial.number == 0]
        return tuple(self._difference(trial) for trial in {trial.number: trial for trial in others}.values())

    def _confirmed(self, trial: Trial) -> Pair | None:
        found = self.confirmed.get(trial.number)
        return None if found is None else found.confirmed

    def _difference(self, trial: Trial) -> Difference:
        mine, theirs = self._confirmed(self.winner), self._confirmed(trial)
        assert mine is not None
        assert theirs is not None
        interval = mine.policy.minus(theirs.policy)
        other = "the automatic values" if trial.number == 0 else "the runner-up"
        limits = f"the difference is {interval.value:.4g}, between {interval.low:.4g} and {interval.high:.4g}"
        start = f"better than {other} (trial {trial.number}) with 95 % confidence"
        episodes = len(mine.policy.worth[0])
        if episodes < LEAST_EPISODES:
            words = f"{start}: cannot say, only {episodes} episodes were left to compare them"
            return Difference(other, trial.number, interval, None, words)
        if interval.low > 0:
            return Difference(other, trial.number, interval, True, f"{start}: yes, {limits}")
        if interval.high < 0:
            words = f"{start}: no, on fresh episodes it is worse; {limits}"
            return Difference(other, trial.number, interval, False, words)
        return Difference(other, trial.number, interval, None, f"{start}: cannot say, {limits}")

    @property
    def command(self) -> str:
        """The command that trains the winner in full, on all episodes."""
        search, trial = self.search, self.winner
        words = ["gridcount", "train", search.dataset, "--algo", trial.algorithm]
        words += [] if search.preset == "fast" else ["--preset", search.preset]
        for name, value in (search.reading | trial.changes).items():
            words += _flag(name, value)
        return shlex.join(words)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON takes it, without the values of single episodes."""
        return {
            "search": asdict(self.search),
            "winner": asdict(self.winner),
            "command": self.command,
            "in_search": asdict(self.in_search),
            "fresh": None if self.fresh is None else asdict(self.fresh),
            "differences": [asdict(each) for each in self.differences],
            "ranking": [_as_dict(each) for each in self.ranking],
        }

    def render(self, console: Console) -> None:
        """Print the ranking and what it means."""
        console.print(self._table())
        settings = [f"trial {each.trial.number}: {settings_words(each.trial)}" for each in self.ranking]
        for line in [*settings, *self.lines()]:
            console.print(line, soft_wrap=True)

    def lines(self) -> list[str]:
        """The findings in words."""
        found = [f"winner: {in_words(self.ranking[0])}"]
        if self.fresh is not None:
            apart = self.in_search.value - self.fresh.value
            found.append(
                f"on episodes that ranked nothing: {interval_words(self.fresh)}, {abs(apart):.4g} "
                f"{'lower' if apart > 0 else 'higher'} than in the search. "
                f"The best of {len(self.ranking)} estimates is too high on average: report the second figure"
            )
        if self.winner.number == 0:
            found.append("the automatic values won: nothing needs to be set")
        found += [each.verdict for each in self.differences]
        if not any(each.ranked and each.trial.number == 0 for each in self.ranking):
            found.append(
                "the automatic values (trial 0) could not be ranked, so nothing is compared with them"
            )
        found.append(f"train it in full, on all episodes: {self.command}")
        return found

    def _table(self) -> Table:
        how = "undiscounted returns" if self.search.settings.discount == 1 else "discounted returns"
        table = Table(title=f"Ranking by the lower limit of estimated {how}, without an environment")
        for heading in ("trial", "algorithm", "cautious (95 %)", "naive", "never seen", "updates", ""):
            table.add_column(heading, justify="left" if heading in ("algorithm", "") else "right")
        for each in self.ranking:
            figures = ["", "", ""]
            if each.pair is not None:
                policy = each.pair.policy
                figures = [
                    interval_words(policy.interval),
                    f"{policy.naive.value:.4g}",
                    f"{policy.unseen:.0%}",
                ]
            status = each.outcome.problem or each.status
            table.add_row(str(each.trial.number), each.trial.algorithm, *figures, f"{each.updates:,}", status)
        return table


def rank(search: Search, outcomes: Sequence[Outcome]) -> list[Ranked]:
    """The best first: trials that can win, then those stopped early, refused and failed."""
    found = []
    for outcome in outcomes:
        if outcome.found is None:
            found.append(Ranked(outcome, FAILED))
            continue
        updates = max(outcome.found.after)
        gone = refused(search, outcome.found)
        status = STOPPED if outcome.found.stopped else REFUSED if gone else RANKED
        found.append(Ranked(outcome, status, updates, outcome.found.after[updates]))
    order = {RANKED: 0, STOPPED: 1, REFUSED: 2, FAILED: 3}
    return sorted(found, key=lambda each: (order[each.status], -_lower(each)))


def in_words(each: Ranked) -> str:
    """A trial and its estimate as text."""
    assert each.pair is not None
    what = f"trial {each.trial.number}, {each.trial.algorithm}, {settings_words(each.trial)}"
    return f"{what}: {interval_words(each.pair.policy.interval)}"


def settings_words(trial: Trial) -> str:
    """A trial's settings as text."""
    fields = ", ".join(f"{name}={_plain(value)}" for name, value in trial.changes.items())
    return " and ".join(filter(None, ("automatic values" if trial.automatic else "", fields)))


def _lower(each: Ranked) -> float:
    return 0.0 if each.pair is None else each.pair.policy.lower


def _plain(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _flag(name: str, value: Any) -> list[str]:
    """A field as `gridcount train` takes it."""
    flag = name.replace("_", "-")
    if isinstance(value, bool) and name not in FIELDS:
        return [f"--{flag}" if value else f"--no-{flag}"]
    if isinstance(value, tuple | list):
        return [f"--{flag}", *map(str, value)] if value else []
    return [f"--{flag}", str(value)]


def _as_dict(each: Ranked) -> dict[str, Any]:
    found = asdict(each.trial) | {"status": each.status or "ranked", "updates": each.updates}
    found["problem"] = each.outcome.problem
    if each.pair is not None:
        policy = each.pair.policy
        found |= {
            "cautious": asdict(policy.interval),
            "naive": asdict(policy.naive),
            "unseen": policy.unseen,
            "gain": asdict(policy.minus(each.pair.log)),
        }
    return found

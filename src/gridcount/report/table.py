"""A table of the report as data, and the texts that all tables share."""

from dataclasses import dataclass, field

from gridcount.report.experiments import Section

OTHER_DATA = "†"  # marks a difference between scores on different data
Number = float | int | str | None


@dataclass(frozen=True)
class Entry:
    """The content of a table's cell."""

    text: str
    under: str = ""  # a second, smaller line
    difference: float | None = None  # to the paper
    marked: bool = False  # the difference is between scores on different data
    best: bool = False  # of its line
    muted: bool = False  # not ours

    def plain(self) -> str:
        """The cell as one line."""
        difference = (
            "" if self.difference is None else f"{self.difference:+.1f}{OTHER_DATA if self.marked else ''}"
        )
        under = ", ".join(filter(None, (self.under, difference)))
        return f"{self.text} ({under})" if under and self.text else under or self.text


@dataclass(frozen=True)
class Table:
    """A table, the protocol that made it, and the numbers behind it."""

    name: str  # its file's
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]  # the first entry is the line's heading
    records: tuple[tuple[str, ...], tuple[tuple[Number, ...], ...]]  # columns and lines of its CSV
    protocol: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = field(default=())


def spread(mean: float, deviation: float | None = None) -> str:
    """A mean, with its deviation over seeds if there is one."""
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:.1f}"


def divergences(section: Section) -> tuple[str, ...]:
    """A note of the seeds that diverged, if any did."""
    lost = [
        f"{each.method} on {each.dataset}, seed {seed}: {how}"
        for each in section.experiments
        for seed, how in each.diverged.items()
    ]
    return (
        (f"Diverged; the last evaluations before that are counted, if any: {'; '.join(lost)}.",)
        if lost
        else ()
    )

"""The decision log: every decision as a row of a Parquet file, which `gridcount data import` reads as the
next training log.

A row holds the observation and the action under the log's own column names. It waits in memory for its
reward. Complete rows go to `decisions-*.parquet`, those without a reward or an action to
`incomplete-*.parquet`. An import reads both, leaves the incomplete rows out, and cuts the episode there: the
rows before and after are not one step apart. A segment is an episode within one run of the service, because
rows may be lost between two. A thread writes the files, so no request waits for the disk, and a file appears
under its name only when it is complete.
"""

import queue
import secrets
import shlex
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from gridcount.files import whole_file
from gridcount.policy.store import Facts

COMPLETE, INCOMPLETE = "decisions", "incomplete"  # what file names begin with
MOST_WAITING = 100_000  # decisions that wait for a reward
MOST_QUEUED = 500_000  # rows that wait for the disk; more are dropped, and counted
PIECE = 512  # rows that are turned into Arrow's form together: small, so that requests do not wait for it
OWN = {  # the log's own columns, and their types
    "time": "timestamp",
    "episode": "text",
    "segment": "text",
    "decision": "text",
    "reward": "number",
    "terminated": "flag",
    "truncated": "flag",
    "count": "whole",
    "uncertainty": "number",
    "resolution": "whole",
    "held": "flag",
    "policy": "text",
}


class Outcome(NamedTuple):
    """What followed from a decision."""

    reward: float
    terminated: bool
    truncated: bool
    action: tuple[float, ...] | None = None  # what was really done; None: what was decided


class Names(NamedTuple):
    """The columns of the files: the user's, and ours under names that the user's columns do not have."""

    own: dict[str, str]  # our column -> its name
    observation: tuple[str, ...]
    action: tuple[str, ...]

    @classmethod
    def of(cls, facts: Facts) -> "Names":
        """The names for a policy's columns."""
        taken = {*facts.observation_names, *facts.action_names}
        own = {}
        for name in OWN:
            free = name
            while free in taken:
                free += "_"
            own[name] = free
            taken.add(free)
        return cls(own, facts.observation_names, facts.action_names)

    def import_command(self, folder: Path, facts: Facts) -> str:
        """The command that reads the files as a training log."""
        roles = {role: self.own[role] for role in ("reward", "terminated", "truncated", "time")}
        roles |= {"episode": self.own["segment"], "missing": "drop-rows"}
        words = ["gridcount", "data", "import", f"{folder}/*-*.parquet", "--name", "NAME"]
        words += ["--observation", ",".join(self.observation), "--action", ",".join(self.action)]
        for role, name in roles.items():
            words += [f"--{role}", name]
        if set(facts.action_low) != {-1.0} or set(facts.action_high) != {1.0}:
            words += [
                "--action-low",
                *map(str, facts.action_low),
                "--action-high",
                *map(str, facts.action_high),
            ]
        return shlex.join(words)


class DecisionLog:
    """Collects rows on the request path, and writes them from a thread. Only `close` waits."""

    def __init__(
        self, folder: Path, facts: Facts, *, rows: int, seconds: float, outcome_seconds: float
    ) -> None:
        import pyarrow as arrow
        import pyarrow.parquet

        kinds = {
            "timestamp": arrow.timestamp("us", tz="UTC"),
            "text": arrow.string(),
            "number": arrow.float64(),
            "flag": arrow.bool_(),
            "whole": arrow.int64(),
        }
        self.names = Names.of(facts)
        columns = [(name, kinds[OWN[own]]) for own, name in self.names.own.items()]
        self._schema = arrow.schema(
            [*columns, *((name, arrow.float64()) for name in (*self.names.observation, *self.names.action))]
        )
        self._folder, self._rows, self._seconds = folder, rows, seconds
        self._outcome_seconds = outcome_seconds
        self._session, self._made = secrets.token_hex(4), 0
        self._waiting: dict[str, tuple[float, list[Any]]] = {}  # decision -> when, row
        self._queue: queue.SimpleQueue[tuple[str, list[Any]] | None] = queue.SimpleQueue()
        self.dropped, self.error = 0, ""  # rows not kept, and why the last file could not be written
        folder.mkdir(parents=True, exist_ok=True)
        self._thread = threading.Thread(target=self._write_until_closed, name="decision log", daemon=True)
        self._thread.start()

    def add(self, row: dict[str, Any], observation: Sequence[float], action: Sequence[float | None]) -> str:
        """Log a decision; returns its id. `row` holds our columns from `count` on, and `episode`."""
        self._made += 1
        decision = f"{self._session}-{self._made}"
        segment = f"{row['episode']} {self._session}".lstrip()
        row = row | {"time": datetime.now(UTC), "decision": decision, "segment": segment}
        row |= {"terminated": False, "truncated": False}  # until an outcome says otherwise
        values = [row.get(own) for own in OWN]
        self._waiting[decision] = (time.monotonic(), [*values, *observation, *action])
        self.expire()
        return decision

    def outcome(self, decision: str, outcome: Outcome) -> bool:
        """Add what followed from a decision; False if no decision of this id waits for it."""
        waiting = self._waiting.pop(decision, None)
        if waiting is None:
            return False
        row, actions = waiting[1], len(self.names.action)
        for place, own in enumerate(OWN):
            if own in outcome._fields:
                row[place] = getattr(outcome, own)
        if outcome.action is not None:
            row[-actions:] = outcome.action
        self._put(INCOMPLETE if None in row[-actions:] else COMPLETE, row)
        return True

    def expire(self, keep: int = MOST_WAITING) -> None:
        """Stop waiting for the reward of the oldest decisions."""
        late = time.monotonic() - self._outcome_seconds
        while self._waiting:
            decision, (when, row) = next(iter(self._waiting.items()))
            if when > late and len(self._waiting) <= keep:
                break
            del self._waiting[decision]
            self._put(INCOMPLETE, row)

    def close(self) -> None:
        """Write everything that is not yet on disk."""
        self.expire(keep=0)
        self._queue.put(None)
        self._thread.join()

    def _put(self, kind: str, row: list[Any]) -> None:
        if self._queue.qsize() >= MOST_QUEUED:  # the disk is full or slow: memory stays bounded
            self.dropped += 1
        else:
            self._queue.put((kind, row))

    def _write_until_closed(self) -> None:
        files = {kind: _Part(self._schema) for kind in (COMPLETE, INCOMPLETE)}
        began, going = time.monotonic(), True
        while going:
            try:
                item = self._queue.get(timeout=max(0.0, began + self._seconds - time.monotonic()))
                going = item is not None
                if item is not None:
                    files[item[0]].add(item[1])
            except queue.Empty:
                pass
            due = not going or time.monotonic() >= began + self._seconds
            most = self._rows * (2 if self.error else 1)  # a full disk is not tried again with each row
            for kind, part in files.items():
                if part.rows and (due or part.rows >= most):
                    self._write(kind, part, last=not going)
            began = time.monotonic() if due else began

    def _write(self, kind: str, part: "_Part", last: bool) -> None:
        """Write a part; what cannot be written is kept for the next attempt, within limits."""
        import pyarrow.parquet as parquet

        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        try:
            table = part.table()
            order = [(self.names.own[name], "ascending") for name in ("episode", "time")]
            with whole_file(self._folder / f"{kind}-{stamp}-{self._session}.parquet") as file:
                parquet.write_table(table.sort_by(order), file)
            self.error = ""
            part.clear()
        except Exception as error:  # whatever it is, the thread must go on
            self.error = f"the decision log cannot be written ({error})"
            if last or part.rows >= 2 * self._rows:
                self.dropped += part.rows
                part.clear()


class _Part:
    """Rows that go into one file."""

    def __init__(self, schema: Any) -> None:
        self._schema, self.rows = schema, 0
        self._pieces: list[Any] = []
        self._loose: list[list[Any]] = []

    def add(self, row: list[Any]) -> None:
        self._loose.append(row)
        self.rows += 1
        if len(self._loose) >= PIECE:
            self._pack()

    def table(self) -> Any:
        import pyarrow as arrow

        self._pack()
        return arrow.Table.from_batches(self._pieces, self._schema)

    def clear(self) -> None:
        self._pieces, self._loose, self.rows = [], [], 0

    def _pack(self) -> None:
        import pyarrow as arrow

        if self._loose:
            columns = zip(zip(*self._loose, strict=True), self._schema, strict=True)
            arrays = [arrow.array(values, field.type) for values, field in columns]
            self._pieces.append(arrow.RecordBatch.from_arrays(arrays, schema=self._schema))
            self._loose = []

"""What a judge says of a log: a function that yields the problems of one kind."""

from collections.abc import Callable, Iterator
from typing import Literal

from gridcount.data.formats.log import Log
from gridcount.data.quality.scan import Facts

Severity = Literal["error", "warning", "note"]
Judgement = tuple[Severity, str | None, int | None, str, str]  # severity, column, row, problem, advice
Judge = Callable[[Log, Facts], Iterator[Judgement]]

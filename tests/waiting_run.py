"""A run that waits for ever at a certain moment: a signal finds it there, however busy or fast the machine
is.

Called with the moment and the words of `gridcount`; it prints the moment when it has come.
"""

import signal
import sys
from threading import Event
from typing import Any, NoReturn

from gridcount.cli import main
from gridcount.training import run
from gridcount.training.loop import SideBySide

MOMENT = sys.argv.pop(1)
signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # whoever started the tests may have it ignored, as a shell does with `&`


def wait(*words: Any) -> NoReturn:
    print(MOMENT, flush=True)
    Event().wait()
    raise AssertionError("nothing sets it")


MOMENTS: dict[str, tuple[Any, str]] = {
    "before training": (run, "write_record"),
    "in a block of updates": (SideBySide, "_run"),
}
setattr(*MOMENTS[MOMENT], wait)
sys.exit(main())

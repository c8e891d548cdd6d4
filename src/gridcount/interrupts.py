"""Ctrl-C: the first asks a command to stop, the second ends the process immediately, and neither prints a
traceback."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

STOPPED = 130  # exit code of a process that was stopped
SHOW_CURSOR = b"\x1b[?25h"  # a progress bar hides it

_owned = False  # whether this process is a gridcount command, not a program that calls us


def handle_interrupts() -> None:
    """Handle Ctrl-C for a process that is a gridcount command and nothing else."""
    global _owned
    _owned = True
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not if a shell set it to be ignored
        signal.signal(signal.SIGINT, _first)


def stop_at_once(message: str) -> NoReturn:
    """End this process, or in a program that calls us raise KeyboardInterrupt.

    An exception raised while compiled code runs would be printed with a traceback by the caller of that code.
    """
    if not _owned:
        raise KeyboardInterrupt(message)
    with suppress(Exception):  # the handler may have interrupted a write to the same stream
        sys.stdout.flush()
    os.write(2, (SHOW_CURSOR if os.isatty(2) else b"") + f"\n{message}\n".encode())
    os._exit(STOPPED)


class Stop:
    """Whether the user wants to stop."""

    requested = False


@contextmanager
def stopping(first: str, second: str) -> Iterator[Stop]:
    """Turn the first Ctrl-C into a request and print `first`; a second one stops immediately and prints
    `second`."""
    stop = Stop()

    def request(number: int, frame: FrameType | None) -> None:
        if stop.requested:
            stop_at_once(second)
        stop.requested = True
        with suppress(RuntimeError):  # it may interrupt a write to the same stream
            print(f"\n{first}", file=sys.stderr)

    # others get no signals
    handled = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    previous = {number: signal.signal(number, request) for number in handled}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _first(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, _second)
    raise KeyboardInterrupt


def _second(number: int, frame: FrameType | None) -> None:
    stop_at_once("stopped immediately")

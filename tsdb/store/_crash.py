"""Crash points: named places where a test can make the process die.

`crash_point("wal.append.before_sync")` does nothing by itself. With the environment variable `TSDB_CRASH_POINT=name` or
`name:n` the process exits there at once, as with `kill -9`, when the place is reached for the first or the n-th time;
with `TSDB_STOP_POINT` it stops there, as with SIGSTOP. A test in the same process can set its own function with
`on_crash_point`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENVIRONMENT_VARIABLE = "TSDB_CRASH_POINT"
STOP_VARIABLE = "TSDB_STOP_POINT"
EXIT_CODE = 137
"""The exit code of a process ended by SIGKILL."""

_hook: Callable[[str], None] | None = None


def crash_point(name: str) -> None:
    """Announce a place. Costs one comparison unless a test is listening."""
    if _hook is not None:
        _hook(name)


@contextmanager
def on_crash_point(hook: Callable[[str], None]) -> Iterator[None]:
    """Call `hook` with the name of every place that is passed inside the block."""
    global _hook
    previous, _hook = _hook, hook
    try:
        yield
    finally:
        _hook = previous


def arm_from_environment() -> None:
    """Exit the process at the point in `TSDB_CRASH_POINT`, if set, or stop it at that in `TSDB_STOP_POINT`."""
    global _hook
    for variable, end in ((ENVIRONMENT_VARIABLE, _exit), (STOP_VARIABLE, _stop)):
        setting = os.environ.get(variable)
        if setting:
            _hook = _at_point(setting, end)


def _at_point(setting: str, end: Callable[[], None]) -> Callable[[str], None]:
    name, _, count = setting.partition(":")
    remaining = int(count or 1)

    def end_when_passed(passed: str) -> None:
        nonlocal remaining
        if passed == name:
            remaining -= 1
            if remaining == 0:
                end()

    return end_when_passed


def _exit() -> None:
    os._exit(EXIT_CODE)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


arm_from_environment()

"""What tests of faults share: regions to begin with, places to be held at, and the look at what a restart shows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engine import lives
from tests.engine.lives import APPEND, DROPPED, PLAIN, Step
from tsdb.model import RegionOptions
from tsdb.store import on_crash_point

CREATED = [lives.create(PLAIN), lives.create(APPEND, options=RegionOptions(append_mode=True)), lives.create(DROPPED)]


@contextmanager
def held(place: str) -> Iterator[threading.Event]:
    """Let threads that reach a place wait there until the block ends or the event is set."""
    gate = threading.Event()

    def wait(name: str) -> None:
        if name == place:
            assert gate.wait(30)

    with on_crash_point(wait):
        try:
            yield gate
        finally:
            gate.set()


def check_after_restart(root: Path, *steps: Step) -> None:
    """What is seen after a crash is what should be seen, with no file too many or too few."""
    engine = lives.open_life(root)
    assert not engine.quarantined
    assert lives.see(engine) == lives.expected(*steps)
    lives.settle(engine)
    unknown = lives.unknown_files(engine)
    assert not unknown, unknown
    engine.close(flush=False)

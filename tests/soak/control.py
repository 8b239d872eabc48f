"""A control beside a test of stalls: it notices when the machine, or the process of the test, stands still.

A process of its own works for a moment and sleeps for a moment, again and again; so does a thread of the test, which
only sleeps. What a lap takes longer than it should, nobody else got done either, whatever the server did.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Span = tuple[float, float]
"""From when to when, by the monotonic clock, which all processes of a machine share."""

WORK_SECONDS = 0.01
"""What the process works in a lap, in seconds of CPU: so much that it needs its turn as others do."""
PAUSE_SECONDS = 0.02
LATE_SECONDS = 0.1
"""A lap that takes so much longer is noted."""


@dataclass
class Control:
    """When the machine stood still."""

    stills: list[Span] = field(default_factory=list)

    def still_within(self, span: Span) -> float:
        """Return how much of a time the machine stood still, in seconds."""
        return overlap(span, list(self.stills))


def overlap(span: Span, others: Iterable[Span]) -> float:
    """Return how much of a span others cover together."""
    covered, until = 0.0, span[0]
    for start, end in sorted(others):
        start, end = max(start, until), min(end, span[1])
        if start < end:
            covered, until = covered + end - start, end
    return covered


@contextmanager
def watching() -> Iterator[Control]:
    """Watch the machine while the block runs."""
    control, is_over = Control(), threading.Event()
    process = subprocess.Popen([sys.executable, "-m", "tests.soak.control"], stdout=subprocess.PIPE, text=True)
    threads = [
        threading.Thread(target=_collect, args=(process, control), daemon=True),
        threading.Thread(target=_sleep, args=(control, is_over), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield control
    finally:
        is_over.set()
        process.kill()
        process.wait()
        for thread in threads:
            thread.join(30)
        if process.stdout is not None:
            process.stdout.close()


def _collect(process: subprocess.Popen[str], control: Control) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        start, end = map(float, line.split())
        control.stills.append((start, end))


def _sleep(control: Control, is_over: threading.Event) -> None:
    before = time.monotonic()
    while not is_over.wait(PAUSE_SECONDS):
        now = time.monotonic()
        if now - before > PAUSE_SECONDS + LATE_SECONDS:
            control.stills.append((before + PAUSE_SECONDS, now))
        before = now


def main() -> None:
    """Print when laps took too long."""
    while True:
        before = time.monotonic()
        until = time.process_time() + WORK_SECONDS
        while time.process_time() < until:
            pass
        time.sleep(PAUSE_SECONDS)
        now = time.monotonic()
        if now - before > WORK_SECONDS + PAUSE_SECONDS + LATE_SECONDS:
            print(before + WORK_SECONDS + PAUSE_SECONDS, now, flush=True)


if __name__ == "__main__":
    main()

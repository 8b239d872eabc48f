"""What a reader pays to see the newest state: one attribute, or one under a lock, alone and beside a writer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks import Measurement, measure

COUNT = 200_000


class State:
    """A state that one thread replaces."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.version: tuple[int, ...] = ()

    def read(self) -> None:
        for _ in range(COUNT):
            self.version  # noqa: B018

    def read_locked(self) -> None:
        for _ in range(COUNT):
            with self.lock:
                self.version  # noqa: B018

    def replace(self) -> None:
        with self.lock:
            # As long as a batch of writes is put into its windows.
            self.version = tuple(range(2_000))


@contextmanager
def replacing(state: State) -> Iterator[None]:
    end = threading.Event()

    def run() -> None:
        while not end.is_set():
            state.replace()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def main() -> Iterator[Measurement]:
    state = State()
    ways: dict[str, Callable[[], None]] = {"attribute": state.read, "attribute under a lock": state.read_locked}
    for name, read in ways.items():
        yield measure(name, read, amount=COUNT, unit="reads")
    with replacing(state):
        for name, read in ways.items():
            yield measure(f"{name}, one thread writes", read, amount=COUNT, unit="reads", repeats=3)

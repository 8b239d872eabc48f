"""Entering DataFusion from a call that it made itself: a thread may not enter it twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> T:
    """Run something in another thread, and wait for it."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            failure.append(error)

    thread = threading.Thread(target=run, name="query-planner")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]

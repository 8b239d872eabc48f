"""Threads that wait for datanodes: those that wait for long give back the place that they occupy (`tsdb.waits`).

Most answers come at once, so nothing happens before the second look of the thread that keeps deadlines. Then the place
is left, or what runs the step says that it may not wait any longer: the request is cancelled, and the thread that
waited gets the reason.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from tsdb.waits import Place

LOOKS_MIN = 2
"""How many looks a wait must have lasted."""
_NO_WAIT: AbstractContextManager[None] = nullcontext()


class Waits:
    """All waits of a client. Any thread may wait; one looks."""

    def __init__(self) -> None:
        self._waits: set[_Wait] = set()

    def waiting(self, place: Place | None, cancel: Callable[[], None] | None = None) -> AbstractContextManager[None]:
        """What the block waits for can be ended by `cancel`, from another thread."""
        return _NO_WAIT if place is None else _Wait(self._waits, place, cancel)

    def look(self) -> None:
        for wait in list(self._waits):
            wait.look()


class _Wait(AbstractContextManager[None]):
    """One thread that waits."""

    def __init__(self, waits: set[_Wait], place: Place, cancel: Callable[[], None] | None) -> None:
        self._all = waits
        self._place = place
        self._cancel = cancel
        self._lock = threading.Lock()
        self._looks = 0
        self._is_over = False
        self._has_left = False
        self._refusal: BaseException | None = None

    def __enter__(self) -> None:
        self._all.add(self)

    def look(self) -> None:
        """By the thread that looks."""
        with self._lock:
            self._looks += 1
            if self._is_over or self._has_left or self._refusal is not None or self._looks < LOOKS_MIN:
                return
            try:
                self._place.leave()
            except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
                self._refusal = error
                # Under the lock: afterwards what is cancelled may belong to somebody else.
                if self._cancel is not None:
                    self._cancel()
            else:
                self._has_left = True

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._all.discard(self)
        with self._lock:
            self._is_over = True
        if self._has_left:
            self._place.come_back()
        if self._refusal is not None:
            raise self._refusal from error

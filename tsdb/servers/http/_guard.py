"""Interrupts requests: on timeout, when the client disconnects, and on shutdown.

Each interruption cancels the task of the request and leaves its reason in the request's guard, so that the application
can tell its own interruptions from a cancellation from outside, which it must pass on.

The usual request takes a few milliseconds and pays for an entry in a set. One timer serves all requests: every
`CHECK_SECONDS` it interrupts those that have timed out and starts, for each that it meets for the second time, a task
that waits for the client to disconnect. So a timeout may come late by that much, and never early; and that a client has
gone is noticed for requests that take longer than that.
"""

from __future__ import annotations

import asyncio
from enum import Enum

from tsdb.servers.http.wire import Request

CHECK_SECONDS = 0.05


class Interruption(Enum):
    """Why a request was interrupted."""

    TIMEOUT = "its time was up"
    DISCONNECT = "the client went away"
    SHUTDOWN = "the server is stopping"


class RequestGuard:
    """Stands by the task of one request."""

    __slots__ = (
        "_cancelling_before",
        "_deadline",
        "_is_claimed",
        "_is_met",
        "_request",
        "_task",
        "_watcher",
        "reason",
    )

    def __init__(self, task: asyncio.Task[object], request: Request) -> None:
        self.reason: Interruption | None = None
        self._is_claimed = False
        self._is_met = False
        """The timer was here: the request has taken a while."""
        self._task = task
        self._cancelling_before = task.cancelling()
        self._request = request
        self._deadline: float | None = None
        self._watcher: asyncio.Task[None] | None = None

    def start_clock(self, timeout_seconds: float) -> None:
        """Set the timeout of the request, from now; 0 is no limit."""
        if timeout_seconds:
            self._deadline = self._task.get_loop().time() + timeout_seconds

    def check(self, now: float) -> None:
        """Interrupt the request if its time is up; see to it that the client of one that takes a while is watched."""
        if self._deadline is not None and now >= self._deadline:
            self.interrupt(Interruption.TIMEOUT)
        elif self._is_met:
            self.watch()
        else:
            self._is_met = True

    def watch(self) -> None:
        """Begin to wait for a disconnect. While the body is read, reading it detects the same."""
        if self._watcher is None and self._request.is_body_complete:
            self._watcher = self._task.get_loop().create_task(self._watch())

    def interrupt(self, reason: Interruption) -> None:
        """Cancel the work, unless it already is."""
        if self.reason is None:
            self.reason = reason
            self._task.cancel()

    def claim(self) -> bool:
        """Say whether a caught `CancelledError` is this guard's own, and if so take the cancellation back."""
        if self.reason is None:
            return False
        self._is_claimed = True
        return self._task.uncancel() <= self._cancelling_before

    def close(self) -> None:
        """Stop watching: the work is over."""
        # A task that was cancelled holds on to the error, the error to its frames, and they to this guard and all that
        # the request has read: nothing here may lead back to the task, or that would wait for the garbage collector.
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
        if self.reason is not None and not self._is_claimed:
            # A handler caught the cancellation and answered all the same.
            self._task.uncancel()

    async def _watch(self) -> None:
        await self._request.wait_disconnected()
        self.interrupt(Interruption.DISCONNECT)


class Timeouts:
    """The guards of all requests in progress, and the timer that checks them."""

    def __init__(self) -> None:
        self._guards: set[RequestGuard] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._guards)

    def enter(self, task: asyncio.Task[object], request: Request) -> RequestGuard:
        """Guard a request, which `task` works on, from now on."""
        guard = RequestGuard(task, request)
        self._guards.add(guard)
        if self._timer is None:
            loop = task.get_loop()
            self._timer = loop.call_later(CHECK_SECONDS, self._check_all, loop)
        return guard

    def leave(self, guard: RequestGuard) -> None:
        guard.close()
        self._guards.discard(guard)

    def interrupt_all(self, reason: Interruption) -> None:
        for guard in tuple(self._guards):
            guard.interrupt(reason)

    def _check_all(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for guard in self._guards:
            guard.check(now)
        if self._guards:
            self._timer = loop.call_later(CHECK_SECONDS, self._check_all, loop)

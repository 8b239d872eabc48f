"""Batches on their way into regions: all are sent, then all are waited for.

A part that was sent is waited for in any case, so that what was written is known when the write ends, unless the log
does not answer for very long. Nothing is sent after the write was cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from tsdb.clock import Clock
from tsdb.database.writing.request import Again
from tsdb.engine import Regions
from tsdb.errors import Cancelled, DeadlineExceeded, TsdbError
from tsdb.model import Batch, RegionId
from tsdb.query import WriteToken
from tsdb.units import Duration

LOG_TIMEOUT = Duration.of_seconds(30)
"""How long a write waits for the log, on top of what it may wait for memory."""

PAUSE_SECONDS_MAX = 0.05
"""The longest pause before a write looks again at a table that is being changed."""


@dataclass(frozen=True, slots=True)
class RegionBatch:
    """The part of a write that goes to one region: a batch made for one version of its schema."""

    region: RegionId
    batch: Batch
    schema_version: int


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a part."""

    rows: int = 0
    """Rows that are durable and visible."""
    error: BaseException | None = None


class Sender:
    """Sends parts to their regions."""

    def __init__(
        self, regions: Regions, clock: Clock, timeout: Duration, *, log_timeout: Duration = LOG_TIMEOUT
    ) -> None:
        self._regions = regions
        self._clock = clock
        self._timeout = timeout
        self._answer_seconds = timeout.seconds + log_timeout.seconds

    def send(self, parts: Sequence[RegionBatch], token: WriteToken) -> list[Sent]:
        """Write parts, and count in the token what was written; the error of a part that was not sent is Cancelled."""
        futures: list[Future[int]] = []
        stopped: Cancelled | None = None
        try:
            for part in parts:
                token.enter()
                futures.append(self._begin(part))
        except Cancelled as error:
            stopped = error
        sent = [_wait(future, token, self._answer_seconds) for future in futures]
        return sent + [Sent(error=stopped)] * (len(parts) - len(sent))

    def begin(self, part: RegionBatch, token: WriteToken) -> Future[int]:
        """Write a part without waiting for the end; what it writes is counted in the token."""
        token.enter()
        done = self._begin(part)
        done.add_done_callback(lambda done: None if done.exception() else token.note(rows=done.result()))
        return done

    def _begin(self, part: RegionBatch) -> Future[int]:
        try:
            return self._regions.write(
                part.region, part.batch, timeout=self._timeout, schema_version=part.schema_version
            )
        except TsdbError as error:
            # Other regions have their parts already, which are waited for in any case.
            refused: Future[int] = Future()
            refused.set_exception(error)
            return refused

    def retry(self) -> Retry:
        return Retry(self._clock, self._timeout)


def _wait(future: Future[int], token: WriteToken, seconds_max: float) -> Sent:
    try:
        error = future.exception(seconds_max)
    except TimeoutError:
        return Sent(error=_unanswered(seconds_max))
    if error is not None:
        return Sent(error=error)
    rows = future.result()
    token.note(rows=rows)
    return Sent(rows)


def _unanswered(seconds: float) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"the log did not answer within {seconds:g} s, the write may still take effect",
        hint="check the disk or the object store of the log; writing the same rows again is safe unless the table "
        "keeps duplicates (append_mode)",
    )


class Retry:
    """How often a write is tried again that changes of tables overtake: until its time is over."""

    def __init__(self, clock: Clock, timeout: Duration) -> None:
        self._clock = clock
        self._deadline_ns = clock.monotonic_ns() + timeout
        self._pause_seconds = 0.0

    def wait(self, again: Again) -> None:
        """Pause before the next attempt; raise what stood in the way if there is no time for one."""
        if self._clock.monotonic_ns() > self._deadline_ns:
            raise again.reason
        time.sleep(self._pause_seconds)
        self._pause_seconds = min(PAUSE_SECONDS_MAX, 2 * self._pause_seconds + 0.001)

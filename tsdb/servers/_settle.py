"""Interrupted writes: the deadline passed, the client disconnected, or the server stops.

The write is cancelled, so that no further step begins. If none had begun, nothing was written. Otherwise the running
step is waited for, at most for `seconds_max`:

- The write ended after all: its answer is the answer.
- It was stopped: the interruption is the answer, and the token says what was written.
- It still runs: the interruption is the answer, and the token says that the outcome is unknown.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from tsdb.errors import Cancelled
from tsdb.query import WriteToken

SETTLE_SECONDS_MAX = 5.0
"""How long the answer to an interrupted write waits for the step under way."""

_T = TypeVar("_T")


async def settle(token: WriteToken, work: asyncio.Future[_T], seconds_max: float = SETTLE_SECONDS_MAX) -> _T:
    """Stop a write; return or raise what it ended with, or CancelledError if it was stopped."""
    if not token.cancel():
        work.cancel()
        work.add_done_callback(_ignore)
        raise asyncio.CancelledError
    done, _ = await asyncio.wait([work], timeout=seconds_max)
    work.add_done_callback(_ignore)
    if not done or work.cancelled():
        raise asyncio.CancelledError
    token.is_over = True
    try:
        return work.result()
    except Cancelled:
        raise asyncio.CancelledError from None


def _ignore(work: asyncio.Future[_T]) -> None:
    """Retrieve the error of work whose answer was given already."""
    if not work.cancelled():
        work.exception()

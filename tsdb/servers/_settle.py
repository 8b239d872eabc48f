"""What follows when a write is interrupted: its deadline passed, its client went away, or the server stops.

The write is cancelled, so that no further step begins. If none had begun, nothing was written and there is nothing to
wait for. Otherwise the step under way is waited for, at most `SETTLE_SECONDS_MAX`:

- The write ended after all: its answer is the answer.
- It was stopped: the interruption is the answer, and the token says what had been written.
- It still goes on: the interruption is the answer, and the token says that the outcome is unknown.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from tsdb.errors import Cancelled
from tsdb.query import WriteToken

SETTLE_SECONDS_MAX = 5.0
"""How long the answer to an interrupted write waits for the step under way."""

_T = TypeVar("_T")


async def settle(token: WriteToken, work: asyncio.Future[_T]) -> _T:
    """Stop a write; return or raise what it ended with, or CancelledError if it was stopped."""
    if not token.cancel():
        work.cancel()
        work.add_done_callback(_ignore)
        raise asyncio.CancelledError
    done, _ = await asyncio.wait([work], timeout=SETTLE_SECONDS_MAX)
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

"""How the C library hands out memory, fitted to a server of large requests.

By default glibc gives a block of a megabyte back to the system as soon as it is free, and takes the same pages again,
zeroed, for the next request. A server that writes a hundred such requests a second spends a tenth of its time on that.
Here blocks of that size come from memory that stays with the process while it is busy. When it is idle, what is free
goes back to the system.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of `mallopt`."""
_KEPT_BYTES = 64 << 20
"""With four times as much, a load by four clients caused no fewer page faults."""
_LARGE_BYTES = 32 << 20
"""The largest that glibc takes for it."""
_ARENAS_MIN = 2

INTERVAL_SECONDS = 10.0
IDLE_PART = 0.25
"""The process is idle when it uses less than this part of one core."""


def keep_memory() -> None:
    """Keep free memory for the next request; nothing happens where the C library is another one.

    Threads share as many pools of memory as there are cores: with one each, every pool would keep what its thread once
    needed.
    """
    mallopt = _function("mallopt")
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_ARENA_MAX, max(_ARENAS_MIN, os.cpu_count() or 1))


async def give_back_when_idle() -> None:
    """Return free memory to the system, again and again, unless the process is busy."""
    used = time.process_time()
    while True:
        await asyncio.sleep(INTERVAL_SECONDS)
        before, used = used, time.process_time()
        if used - before < IDLE_PART * INTERVAL_SECONDS:
            await asyncio.to_thread(give_back)


def give_back() -> None:
    """Return what is free in the pools of Arrow and of the C library."""
    pa.default_memory_pool().release_unused()
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


def _function(name: str) -> Callable[..., int] | None:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None

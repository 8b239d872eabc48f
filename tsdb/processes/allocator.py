"""How the C library hands out memory, fitted to a server of large requests.

By default glibc gives a block of a megabyte back to the system as soon as it is free, and takes the same pages again,
zeroed, for the next request. A server that writes a hundred such requests a second spends a tenth of its time on that.
Here blocks of that size come from memory that stays with the process while it is needed. What is free when the process
is idle, or for twenty seconds, goes back to the system.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, ClassVar

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of `mallopt`."""
KEPT_BYTES = 64 << 20
"""With four times as much, a load by four clients caused no fewer page faults."""
_LARGE_BYTES = 32 << 20
"""The largest that glibc takes for it."""
_ARENAS_MIN = 2

IDLE_PART = 0.25
"""The process is idle when it uses less than this part of one core."""
UNUSED_BYTES = 16 << 20
"""So much that is not needed at two looks is given back by a busy process as well, which takes it 10 ms."""


def keep_memory(kept_bytes: int = KEPT_BYTES) -> None:
    """Keep so much free memory for the next request; nothing happens where the C library is another one.

    Threads share as many pools of memory as there are cores: with one each, every pool would keep what its thread once
    needed.
    """
    mallopt = _function("mallopt")
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, kept_bytes)
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_ARENA_MAX, max(_ARENAS_MIN, os.cpu_count() or 1))


class Waste:
    """Whether much memory was free twice in a row: a load has ended, and queries do not need what it needed."""

    def __init__(self) -> None:
        self._free_before = 0
        self._given_back = 0
        """So much of what is free is not in memory: what was free when memory was given back, but for what has been
        needed since."""

    def is_large(self, free: int) -> bool:
        """Note what is free in the pools of the C library."""
        unused, self._free_before = min(free, self._free_before), free
        self._given_back = min(free, self._given_back)
        return unused - self._given_back >= UNUSED_BYTES

    def note_given_back(self, free: int) -> None:
        self._given_back = self._free_before = free


class _MallocInfo(ctypes.Structure):
    _fields_: ClassVar = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def free_bytes() -> int:
    """Return what is free in the pools of the C library; 0 if it does not tell."""
    info = _function("mallinfo2")
    if info is None:
        return 0
    info.restype = _MallocInfo
    return int(info().fordblks)


def give_back() -> None:
    """Return what is free in the pools of Arrow and of the C library."""
    pa.default_memory_pool().release_unused()
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


def _function(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None

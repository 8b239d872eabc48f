"""How the C library hands out memory, fitted to a server of large requests.

By default glibc gives a block of a megabyte back to the system as soon as it is free, and takes the same pages again,
zeroed, for the next request. A server that writes a hundred such requests a second spends a tenth of its time on that.
Here blocks of that size come from memory that stays with the process.
"""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of `mallopt`."""
_KEPT_BYTES = 256 << 20
_LARGE_BYTES = 32 << 20
"""The largest that glibc takes for it."""


def keep_memory() -> None:
    """Keep free memory for the next request; nothing happens where the C library is another one."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)

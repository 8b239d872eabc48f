"""Pages of libraries' code that a process has run once and does not need any more.

DataFusion alone has 90 MB of code. A query that it plans touches half of that, which then counts as memory of the
process for as long as it lives, although most queries take paths of their own. Code can be taken out of the process at
any time: the pages stay in the cache of the system, which drops them when it needs memory, and those that are needed
come back by page faults, 16 at a time. All of DataFusion's took 2 ms to come back.
"""

from __future__ import annotations

import ctypes
import re
import sys
from contextlib import suppress
from pathlib import Path

GROWN_BYTES = 16 << 20
"""By so much must the pages of files have grown since the last time."""

_UNCHANGED_CODE = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) r-xp .*\.so[.0-9]*\n(?:[A-Z].*\n)*?Anonymous:\s+0 kB$", re.MULTILINE
)
"""A mapping of code of a library, as `smaps` describes it. A page that was changed, as debuggers do, is anonymous."""
_PAGES_OF_FILES = re.compile(rb"^RssFile:\s+(\d+) kB", re.MULTILINE)
_MADV_DONTNEED = 4


class CodePages:
    """Takes code out of this process when much has come since the last time. For one thread."""

    def __init__(self) -> None:
        self._needed_bytes: int | None = 0
        """What pages of files take without what is not needed; None from a release to the next look."""

    def release_if_grown(self) -> bool:
        """Take out all code of libraries if much has come since the last look; whether that was so."""
        held = file_bytes()
        if self._needed_bytes is None:
            self._needed_bytes = held
        self._needed_bytes = min(self._needed_bytes, held)
        if held - self._needed_bytes < GROWN_BYTES:
            return False
        release_code()
        self._needed_bytes = None
        return True


def file_bytes() -> int:
    """Return what pages of files take of the memory of this process; 0 if that cannot be known."""
    with suppress(OSError):
        return sum(map(int, _PAGES_OF_FILES.findall(Path("/proc/self/status").read_bytes()))) << 10
    return 0


def release_code() -> None:
    """Take out the code of libraries where nothing of it was changed: what comes back is what the file has."""
    madvise = getattr(ctypes.CDLL(None), "madvise", None) if sys.platform == "linux" else None
    if madvise is None:
        return
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for start, stop in _UNCHANGED_CODE.findall(Path("/proc/self/smaps").read_bytes()):
        low, high = int(start, 16), int(stop, 16)
        madvise(low, high - low, _MADV_DONTNEED)

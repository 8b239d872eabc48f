"""How much memory processes have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_SHARED_ONCE = re.compile(rb"^Pss_(?:Anon|Shmem):\s+(\d+) kB", re.MULTILINE)
_HELD = re.compile(rb"^(?:RssAnon|RssShmem):\s+(\d+) kB", re.MULTILINE)


def resident_bytes(process: int | str = "self") -> int:
    """Return the memory that a process holds, what it shares with others included; 0 if that cannot be known.

    Pages of files are left out, of which libraries alone have 160 MiB: the system takes them back whenever it needs
    memory.
    """
    try:
        return sum(map(int, _HELD.findall(Path(f"/proc/{process}/status").read_bytes()))) << 10
    except OSError:
        return 0


def tree_bytes(process: int | str = "self") -> int:
    """Return what a process and all below it hold together, what they share counted once; 0 if that cannot be known.

    The system walks through all pages for that: some milliseconds for each process.
    """
    total = 0
    for each in _tree(process):
        with suppress(OSError):  # it has ended
            total += sum(map(int, _SHARED_ONCE.findall(Path(f"/proc/{each}/smaps_rollup").read_bytes()))) << 10
    return total


def _tree(process: int | str) -> Iterator[int | str]:
    yield process
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in path.read_text(encoding="ascii").split():
                yield from _tree(int(child))

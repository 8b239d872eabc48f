"""Which objects the file cache keeps, and how a whole one of them looks."""

from __future__ import annotations

import os
from pathlib import Path

from tsdb.store._files import Files

_INDEX_SUFFIX = ".idx"
_MARKS: dict[str, tuple[bytes, bytes]] = {".parquet": (b"PAR1", b"PAR1"), _INDEX_SUFFIX: (b"", b"TSDBIDX1")}
"""By the end of a path: how data and index files begin and end."""


def is_kept(path: str) -> bool:
    """Whether an object is one of those that are read often and never change: manifests and markers are not."""
    return path.endswith(tuple(_MARKS))


def is_index(key: str) -> bool:
    """Whether an object is an index file: small, and read by every query of its data file."""
    return key.endswith(_INDEX_SUFFIX)


def is_whole(files: Files, file: Path, size_bytes: int) -> bool:
    """Whether a file has its size, its beginning and its end."""
    head, tail = _MARKS.get(file.suffix, (b"", b""))
    fd = files.open(file, os.O_RDONLY)
    try:
        if files.size(fd) != size_bytes or size_bytes < len(head) + len(tail):
            return False
        begins = not head or files.pread(fd, len(head), 0) == head
        return begins and (not tail or files.pread(fd, len(tail), size_bytes - len(tail)) == tail)
    finally:
        files.close(fd)

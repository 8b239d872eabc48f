"""The clean-shutdown marker: a file that says where the log ended when it was closed in good order.

It is removed before the first append after a start, so while it exists, it is true: whatever the log should hold
according to it and does not, is lost.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tsdb.store import Files, read_all, write_all

_NAME = "CLEAN"
_TEMPORARY_NAME = "CLEAN.tmp-0"


class CleanMarker(NamedTuple):
    """The last segment and its length."""

    segment: int
    offset: int


def read_marker(files: Files, directory: Path) -> CleanMarker | None:
    """The marker, None if the log was not closed in good order."""
    try:
        content = json.loads(read_all(files, directory / _NAME))
        return CleanMarker(int(content["segment"]), int(content["offset"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def write_marker(files: Files, directory: Path, marker: CleanMarker) -> None:
    temporary = directory / _TEMPORARY_NAME
    fd = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(files, fd, json.dumps(marker._asdict()).encode())
        files.fsync(fd)
    finally:
        files.close(fd)
    files.rename(temporary, directory / _NAME)
    files.fsync_dir(directory)


def remove_marker(files: Files, directory: Path) -> None:
    for name in (_NAME, _TEMPORARY_NAME):
        with suppress(FileNotFoundError):
            files.unlink(directory / name)
    files.fsync_dir(directory)

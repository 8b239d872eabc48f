"""The clean-shutdown marker: a file with the end of the log when it was closed cleanly.

It is removed before the first append after a start, so while it exists, it is true: whatever the log should hold
according to it and does not, is lost.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tsdb.store import TEMPORARY_SUFFIX, Files, read_all, replace_file

_NAME = "CLEAN"


class CleanMarker(NamedTuple):
    """The last segment and its length."""

    segment: int
    offset: int


def read_marker(files: Files, directory: Path) -> CleanMarker | None:
    """The marker, None if the log was not closed cleanly."""
    try:
        content = json.loads(read_all(files, directory / _NAME))
        return CleanMarker(int(content["segment"]), int(content["offset"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def write_marker(files: Files, directory: Path, marker: CleanMarker) -> None:
    replace_file(files, directory / _NAME, json.dumps(marker._asdict()).encode())


def remove_marker(files: Files, directory: Path) -> None:
    for name in (_NAME, _NAME + TEMPORARY_SUFFIX):
        with suppress(FileNotFoundError):
            files.unlink(directory / name)
    files.fsync_dir(directory)

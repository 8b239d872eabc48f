"""The file that says that the log of a directory is shared.

It names the directory, so that a log on a disk that comes back after the shared log went on elsewhere is recognised.
And it says whether the shared log may hold rows that are in no data file: as long as it does, a server must not start
without it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from tsdb.errors import StartError
from tsdb.ids import Ids
from tsdb.store import Files, make_directories, read_all, replace_file

_NAME = "SHARED"
_ID_BYTES = 8


class SharedMarker(NamedTuple):
    """What the file says."""

    directory: str
    place: str
    """Of the object store, for messages."""
    is_drained: bool


def read_marker(files: Files, directory: Path) -> SharedMarker | None:
    try:
        content = json.loads(read_all(files, directory / _NAME))
        return SharedMarker(str(content["directory"]), str(content["place"]), bool(content["is_drained"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StartError(f"cannot read {directory / _NAME}: {error}", hint="restore the file from a backup") from error


def write_marker(files: Files, directory: Path, marker: SharedMarker) -> None:
    replace_file(files, directory / _NAME, json.dumps(marker._asdict()).encode())


def mark_shared(files: Files, directory: Path, *, place: str, ids: Ids) -> SharedMarker:
    """Note that the log of a directory is shared from now on."""
    make_directories(files, directory)
    known = read_marker(files, directory)
    marker = SharedMarker(ids.token(_ID_BYTES) if known is None else known.directory, place, is_drained=False)
    if marker != known:
        write_marker(files, directory, marker)
    return marker


def check_not_shared(directory: Path, files: Files | None = None) -> None:
    """Refuse to open only the local log of a directory whose shared log is still needed; StartError."""
    marker = read_marker(files or Files(), directory)
    if marker is not None and not marker.is_drained:
        raise StartError(
            f"the log of {directory} is shared, and {marker.place} may hold rows that are nowhere else",
            hint="set wal.shared.enable = true, start the server, shut it down with SIGTERM, then disable it",
        )

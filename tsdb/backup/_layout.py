"""Where the objects of a destination are.

    backups/{name}/backup.json      the summary; written last: without it the backup does not exist
    backups/{name}/content.jsonl    metadata, regions and their files
    files/{2 digits}/{id}.data      a data file, by its id; shared by all backups that have it
    files/{2 digits}/{id}.index     its index
    lock                            who changes the destination now

The names of files differ from those of regions, so that a file cache keeps no copies of them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from tsdb.engine import PinnedFile
from tsdb.errors import InvalidArguments

BACKUPS = "backups"
FILES = "files"
LOCK = "lock"
_SUMMARY = "backup.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SUMMARY_PATH = re.compile(rf"{BACKUPS}/([^/]+)/{re.escape(_SUMMARY)}")


def check_name(name: str) -> str:
    """Return a name if a backup may have it."""
    if _NAME.fullmatch(name) is None or name == "latest":
        raise InvalidArguments(
            f"{name!r} cannot be the name of a backup",
            hint="up to 100 letters, digits, '.', '_' and '-', beginning with a letter or digit; not 'latest'",
        )
    return name


def name_of_time(now_ms: int) -> str:
    """Return the name of a backup that was not given one."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{now_ms % 1000:03}Z"


def directory_of(name: str) -> str:
    return f"{BACKUPS}/{name}"


def summary_path(name: str) -> str:
    return f"{directory_of(name)}/{_SUMMARY}"


def content_path(name: str) -> str:
    return f"{directory_of(name)}/content.jsonl"


def file_path(file: PinnedFile) -> str:
    """Return where a file of a region is in a destination."""
    return f"{FILES}/{file.file_id[:2]}/{file.file_id}.{'index' if file.is_index else 'data'}"


def name_of_summary(path: str) -> str | None:
    """Return the backup whose summary an object is."""
    found = _SUMMARY_PATH.fullmatch(path)
    return None if found is None else found[1]

"""Where a region's objects lie below its directory.

    {directory}/manifest/{version:020}.json         a delta
    {directory}/manifest/{version:020}.checkpoint   everything up to a version
    {directory}/manifest/_last_checkpoint           which checkpoint to begin with
    {directory}/{file_id}.parquet                   a data file
    {directory}/index/{file_id}.idx                 its index, if it has one

Versions have a fixed width, so their names sort as they do; at the same version, a checkpoint sorts before the delta.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tsdb.engine.manifest._file_meta import is_file_id

_VERSIONED = re.compile(r"([0-9]{20})\.(json|checkpoint)")
_DATA_SUFFIX = ".parquet"
_INDEX_DIRECTORY = "index/"
_INDEX_SUFFIX = ".idx"


class ManifestName(NamedTuple):
    """What the name of a manifest's object says."""

    version: int
    is_checkpoint: bool


def manifest_directory(directory: str) -> str:
    return f"{directory}/manifest"


def delta_path(directory: str, version: int) -> str:
    return f"{manifest_directory(directory)}/{version:020}.json"


def checkpoint_path(directory: str, version: int) -> str:
    return f"{manifest_directory(directory)}/{version:020}.checkpoint"


def pointer_path(directory: str) -> str:
    return f"{manifest_directory(directory)}/_last_checkpoint"


def before_version(directory: str, version: int) -> str:
    """The place in a sorted listing in front of the objects of a version."""
    return f"{manifest_directory(directory)}/{version:020}"


def data_path(directory: str, file_id: str) -> str:
    return f"{directory}/{file_id}{_DATA_SUFFIX}"


def index_path(directory: str, file_id: str) -> str:
    return f"{directory}/{_INDEX_DIRECTORY}{file_id}{_INDEX_SUFFIX}"


def parse_manifest_path(directory: str, path: str) -> ManifestName | None:
    """Version and kind of a delta or a checkpoint; None for any other object."""
    name = path.removeprefix(f"{manifest_directory(directory)}/")
    match = _VERSIONED.fullmatch(name)
    return None if match is None else ManifestName(int(match[1]), match[2] == "checkpoint")


def parse_file_path(directory: str, path: str) -> str | None:
    """The id of the file that an object is the data or the index of; None for any other object."""
    name = path.removeprefix(f"{directory}/")
    if name.startswith(_INDEX_DIRECTORY) and name.endswith(_INDEX_SUFFIX):
        file_id = name.removeprefix(_INDEX_DIRECTORY).removesuffix(_INDEX_SUFFIX)
    elif name.endswith(_DATA_SUFFIX):
        file_id = name.removesuffix(_DATA_SUFFIX)
    else:
        return None
    return file_id if is_file_id(file_id) else None

"""Requests to a worker, and requests of a worker to the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tsdb.query.planning import Job


@dataclass(frozen=True, slots=True)
class HasDatabase:
    name: str


@dataclass(frozen=True, slots=True)
class OpenTable:
    database: str
    name: str


@dataclass(frozen=True, slots=True)
class Fragments:
    """Return how many partitions a scan has; each is read by its own thread."""

    table: int
    filter: Any


@dataclass(frozen=True, slots=True)
class ScanFragment:
    """Read a part of a table; its batches come over a socket that is sent along."""

    fragments: int
    part: int
    columns: tuple[str, ...] | None
    filter: Any


@dataclass(frozen=True, slots=True)
class CallFunction:
    """Call a function that needs what only the server has."""

    name: str
    arguments: tuple[pa.Array, ...]


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table whose rows the server reads."""

    table: int
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class InlineTable:
    """A table that is sent as it is: of the system, or of the query alone."""

    rows: pa.Table


@dataclass(frozen=True, slots=True)
class FileTable:
    """Files that the worker reads by itself."""

    dataset: Any


@dataclass(frozen=True, slots=True)
class ViewTable:
    """The query of a view, to be planned in its place."""

    job: Job
    tables: Mapping[str, pa.Table] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NumbersTable:
    """The table of numbers, which needs no server."""


FoundTable = StoredTable | InlineTable | FileTable | ViewTable | NumbersTable


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Plan a query and send its rows."""

    job: Job
    tables: Mapping[tuple[str, str], FoundTable]
    """Tables that the query names, so that the worker needs no request for each."""


@dataclass(frozen=True, slots=True)
class DescribeRequest:
    """Plan a query and say what its columns are."""

    job: Job
    tables: Mapping[tuple[str, str], FoundTable]

"""Rows as the protocols bring them: columns per table, tags once per distinct series. The treaty of ingestion.

A parser makes `TableRows` of a request's bytes and knows nothing of tables that exist. The database finds or makes the
tables, and refuses what does not fit; `places` tell the sender which of his lines that was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True, slots=True, eq=False)
class TableRows:
    """Rows for one table.

    - `series_index[i]` is the row of `tags` that holds row i's tags.
    - `fields` hold a value or null for every row; a null is a field the row did not have.
    """

    table: str
    tags: pa.RecordBatch
    """One row per distinct series of this request, one column of strings per tag; a null is a tag the series lacks."""
    series_index: npt.NDArray[np.uint32]
    times: npt.NDArray[np.int64]
    unit: str
    """Of the times: `s`, `ms`, `us` or `ns`."""
    fields: Mapping[str, pa.Array]
    columns: tuple[str, ...] = ()
    """Names of tags and fields in the order of a new table, "" where its time goes; none: tags, fields, time."""
    places: npt.NDArray[np.int64] | None = None
    """For each row where it stood in the request: the line (from 1), or the index of its point."""
    database: str | None = None
    """The database the rows themselves name; None is the request's."""

    @property
    def rows(self) -> int:
        return len(self.times)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a row, or a whole table's rows, was refused."""

    table: str
    reason: str
    """A sentence: what was expected, what came, what to do."""
    place: int | None = None
    column: str | None = None
    value: str | None = None
    rows: int = 1


@dataclass(frozen=True, slots=True)
class NewTable:
    """How tables that a protocol creates look."""

    time_column: str = "tsdb_timestamp"
    time_unit: str = "ns"
    value_column: str = "tsdb_value"
    options: Mapping[str, str] = field(default_factory=dict)
    """Table options, for instance merge_mode."""
    single_value: bool = False
    """The protocol knows one value per row (Prometheus, OpenTSDB): the only field of an existing table takes it."""
    is_metric: bool = False
    """Create logical tables of the metric engine on `physical_table`."""
    physical_table: str = "tsdb_physical_table"


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What a write did, or would do."""

    rows: int
    """Rows that are durable and visible; with a dry run, rows that would be."""
    created_tables: tuple[str, ...] = ()
    added_columns: tuple[tuple[str, str, str], ...] = ()
    """Table, column, type."""
    rejections: tuple[Rejection, ...] = ()

"""Rows on their way into tables: columns per table, tags once per distinct series. The one type that is written.

A parser makes `TableRows` from the bytes of a request and knows nothing of existing tables. The database finds or
creates the tables and rejects what does not fit; `places` tell the sender which of its lines that was. Statements know
their table already and name its columns (`made_for`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.errors import InvalidArguments
from tsdb.model import DataType, OpType, SeriesTable, TableInfo, TagKeeper


class ParsedTags(TagKeeper):
    """The tags of the series that a parser has numbered. What is read has one column for each tag that occurs in it."""

    @abstractmethod
    def pack_tags(self, numbers: npt.NDArray[np.uint32], names: list[str]) -> pa.Buffer:
        """Return some tags, in the order of `names`, in the form of a log entry."""


@dataclass(frozen=True, slots=True, eq=False)
class NumberedSeries:
    """Series that a parser has numbered, so that a writer that has seen a number need not look at its tags again.

    Within one `source` a number means the same tags for ever; sources are never used twice in a process.
    """

    source: tuple[int, int]
    numbers: npt.NDArray[np.uint32]
    """The numbers of the series of this request: `numbers[i]` has the tags of row i of `tags`."""
    bound: int
    """All numbers of the source are below this, so far."""
    tag_names: tuple[str, ...]
    """The tags that series of this request have."""
    keeper: ParsedTags

    def read_tags(self) -> pa.RecordBatch:
        """Return the tags of the series of this request."""
        tags = self.keeper.read_tags(self.numbers)
        return tags.select(list(self.tag_names)) if self.tag_names else tags


@dataclass(frozen=True, slots=True, eq=False)
class TableRows:
    """Rows for one table.

    - `series_index[i]` is the row of the tags that holds row i's tags.
    - `fields` hold a value or null for every row; a null is a field the row did not have.
    """

    table: str
    tags: pa.RecordBatch | None
    """One row per distinct series of this request, one column per tag; a null is a tag the series lacks.

    None if only `known` has them: use `read_tags`.
    """
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
    types: Mapping[str, DataType] = field(default_factory=dict)
    """Types of fields whose Arrow type does not tell them, JSON for one."""
    known: NumberedSeries | None = None
    """The numbers of the series, from a parser that keeps them; tags are not decoded until they are read."""
    physical_table: str | None = None
    """The physical table that a new metric asks for; None is the request's."""
    made_for: TableInfo | None = None
    """The description of the table whose columns the rows name, with its types and unit of time; None: any names."""
    op: OpType = OpType.PUT
    made_series: SeriesTable | None = None
    """The series under the description of `made_for`, so that their tags are not hashed again."""

    @property
    def rows(self) -> int:
        return len(self.times)

    @property
    def series(self) -> int:
        """How many distinct series there are."""
        return self.read_tags().num_rows if self.known is None else len(self.known.numbers)

    @property
    def tag_names(self) -> list[str]:
        return list(self.read_tags().schema.names if self.known is None else self.known.tag_names)

    def read_tags(self) -> pa.RecordBatch:
        """Return the tags of all series; with `known` they are decoded each time."""
        if self.tags is not None:
            return self.tags
        assert self.known is not None
        return self.known.read_tags()


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
    kind: str = "invalid"
    """One word for the counter: `syntax`, `type`, `null`, `time`, `name`, `table`, `invalid`."""


class IngestRejected(InvalidArguments):
    """Rows that do not fit; nothing of the request was written. The message is the first of the reasons."""

    def __init__(self, rejections: Sequence[Rejection]) -> None:
        self.rejections = tuple(rejections)
        first, more = self.rejections[0], len(self.rejections) - 1
        super().__init__(f"{first.reason} (and {more} more)" if more else first.reason)


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
    partition_columns: tuple[str, ...] = ()
    partition_rules: tuple[str, ...] = ()
    """How the rows are divided among regions: a rule for each region, none for one region."""
    comment: str | None = "Created on insertion"


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRows:
    """What a dry run found for the rows of one table."""

    rows: TableRows
    times: npt.NDArray[np.int64]
    """The times as they would be stored, in `unit`."""
    unit: str
    creates_table: bool
    added_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What a write did, or would do."""

    rows: int
    """Rows that are durable and visible; with a dry run, rows that would be."""
    created_tables: tuple[str, ...] = ()
    added_columns: tuple[tuple[str, str, str], ...] = ()
    """Table, column, type."""
    rejections: tuple[Rejection, ...] = ()
    planned: tuple[PlannedRows, ...] = ()
    """With a dry run, what was found for each table that could be planned."""

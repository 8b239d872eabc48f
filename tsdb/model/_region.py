"""Regions: their ids and options."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields, replace
from enum import StrEnum
from typing import Any, NewType

from tsdb.units import Duration, Size

RegionId = NewType("RegionId", int)
"""`table_id << 32 | region_number`: one horizontal part of a table."""


def region_id(table_id: int, number: int) -> RegionId:
    """Put a region's number together."""
    return RegionId(table_id << 32 | number)


def table_id_of(region: RegionId) -> int:
    return region >> 32


class MergeMode(StrEnum):
    """How rows with the same tags and time are combined."""

    LAST_ROW = "last_row"
    """The newest row wins as a whole."""
    LAST_NON_NULL = "last_non_null"
    """Each field takes its newest value that is not null."""


class MemtableKind(StrEnum):
    """How a region holds rows in memory."""

    TIME_SERIES = "time_series"
    PARTITION_TREE = "partition_tree"
    """Less memory for very many series, slower reads."""


@dataclass(frozen=True, slots=True)
class MemtableSettings:
    """How the rows of a region are held in memory; None leaves a setting to the engine."""

    type: MemtableKind | None = None
    shard_keys: int | None = None
    """Keys of one shard; like what follows for `partition_tree`."""
    freeze_rows: int | None = None
    """Raw rows of one shard that are compressed."""
    fork_bytes: Size | None = None
    """What keys may take that outlive a flush."""

    def to_json(self) -> dict[str, Any]:
        """Return the options that are set."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: str(value) if isinstance(value, Size) else value
            for name, value in values.items()
            if value is not None
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> MemtableSettings:
        given = dict(value)
        if "type" in given:
            given["type"] = MemtableKind(given["type"])
        if "fork_bytes" in given:
            given["fork_bytes"] = Size.parse(given["fork_bytes"])
        return cls(**given)


@dataclass(frozen=True, slots=True)
class SkippingIndex:
    """A declared skipping index: a filter of the values of a column for every so many rows."""

    column: int
    """The id of the column."""
    granularity: int
    """How many rows have one filter."""
    false_positive_rate: float
    """How often a filter may be wrong about a value that is not there."""


@dataclass(frozen=True, slots=True)
class FulltextIndex:
    """A declared full-text index: a filter of the words of a column for every so many rows."""

    column: int
    """The id of the column."""
    granularity: int
    """How many rows have one filter."""
    false_positive_rate: float
    """How often a filter may be wrong about a word that is not there."""
    analyzer: str
    """`English` or `Chinese`: how texts beyond ASCII are cut into pieces."""
    case_sensitive: bool
    """Words differ by capital letters of ASCII too."""


@dataclass(frozen=True, slots=True)
class RegionOptions:
    """The options of the regions of a table."""

    append_mode: bool = False
    """Keep every row, duplicates included; nothing can be deleted by key."""
    merge_mode: MergeMode = MergeMode.LAST_ROW
    ttl: Duration | None = None
    """Rows older than this are not read and go away in time."""
    storage: str | None = None
    """The storage provider of the data files; None is the default one."""
    skip_wal: bool = False
    """Do not log writes: what is not flushed is lost in a crash."""
    write_buffer_size: Size | None = None
    """Flush this region when its memtables are larger; None leaves that to the global buffer."""
    compaction_window: Duration | None = None
    """Files are merged within windows of time of this length; None leaves the choice to the engine."""
    compaction_trigger_files: int | None = None
    """How many files of a window are worth a merge."""
    compaction_output_bytes: Size | None = None
    """Files that would be larger together are not merged."""
    memtable: MemtableSettings = MemtableSettings()
    append_from: int = 0
    """In append mode, the sequence from which on every row is kept. Older ones were written before the region came into
    append mode: among themselves they stay merged by `merge_mode`."""
    skipping: tuple[SkippingIndex, ...] = ()
    """The skipping indexes of files that are written from now on."""
    fulltext: tuple[FulltextIndex, ...] = ()
    """Their full-text indexes."""

    def keeps_all(self, sequence_min: int) -> bool:
        """Whether rows of this sequence and later ones are kept as they are, duplicates included."""
        return self.append_mode and sequence_min >= self.append_from

    def at(self, sequence: int) -> RegionOptions:
        """Return the options as rows of a sequence know them: those from before append mode are merged."""
        if not self.append_mode or self.keeps_all(sequence):
            return self
        return replace(self, append_mode=False, append_from=0)

    def to_json(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: _plain(value) for name, (value, default) in values.items() if value != default}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RegionOptions:
        given = dict(value)
        if "merge_mode" in given:
            given["merge_mode"] = MergeMode(given["merge_mode"])
        for name in ("ttl", "compaction_window"):
            if given.get(name) is not None:
                given[name] = Duration.parse(given[name])
        for name in ("write_buffer_size", "compaction_output_bytes"):
            if given.get(name) is not None:
                given[name] = Size.parse(given[name])
        if "memtable" in given:
            given["memtable"] = MemtableSettings.from_json(given["memtable"])
        given["skipping"] = tuple(SkippingIndex(*each) for each in given.get("skipping", ()))
        given["fulltext"] = tuple(FulltextIndex(*each) for each in given.get("fulltext", ()))
        return cls(**given)


def _plain(value: Any) -> Any:
    """Return an option as JSON has it."""
    if isinstance(value, MemtableSettings):
        return value.to_json()
    if isinstance(value, tuple):
        return [list(astuple(each)) for each in value]
    return str(value) if isinstance(value, Duration | Size) else value

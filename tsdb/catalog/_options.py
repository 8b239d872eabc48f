"""Options of tables: what they inherit from their database, and what they mean to their regions.

    ttl, compaction.*     are looked up: the table's own value, else the database's, at each use
    everything else       is copied into a table when it is created

Values are in the form in which the database layer accepted them; whatever cannot be parsed is still refused here,
because the metadata may have been written by another version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from tsdb.errors import InvalidArguments
from tsdb.model import (
    ColumnInfo,
    DatabaseInfo,
    FulltextIndex,
    MemtableKind,
    MemtableSettings,
    MergeMode,
    RegionOptions,
    Semantic,
    SkippingIndex,
    TableInfo,
)
from tsdb.units import Duration, DurationTooLong, Size

T = TypeVar("T")

INSTANT = Duration(1)
"""The `ttl` of rows that are gone as soon as they are there: for the engine, 0 means forever."""

_TTL = "ttl"
_COMPACTION = "compaction."
_TWCS = "compaction.twcs."
_TREE = "memtable.partition_tree."
_LONGEST = Duration.parse("292y")
_FILTER_DEFAULTS = {"granularity": "10240", "false_positive_rate": "0.01"}
_FULLTEXT_DEFAULTS = {**_FILTER_DEFAULTS, "analyzer": "English", "case_sensitive": "false"}


def effective_options(table: TableInfo, database: DatabaseInfo) -> dict[str, str]:
    """Return the table's own options, and those it inherits from the database as it is now."""
    inherited = {key: value for key, value in database.options.items() if _is_live(key)}
    return {**inherited, **table.options}


def region_options(options: Mapping[str, str], columns: Sequence[ColumnInfo] = ()) -> RegionOptions:
    """Return what effective options and the indexes of columns mean to a region."""
    append_mode = _read(options, "append_mode", _parse_flag, default=False)
    merge_mode = _read(options, "merge_mode", _parse_merge_mode, default=MergeMode.LAST_ROW)
    if append_mode and merge_mode is MergeMode.LAST_NON_NULL:
        raise InvalidArguments("a table in append mode keeps every row, it cannot merge them by last_non_null")
    return RegionOptions(
        append_mode=append_mode,
        merge_mode=merge_mode,
        ttl=_read(options, _TTL, _parse_ttl, default=None),
        storage=options.get("storage"),
        skip_wal=_read(options, "skip_wal", _parse_flag, default=False),
        write_buffer_size=_read(options, "write_buffer_size", Size.parse, default=None),
        compaction_window=_read(options, f"{_TWCS}time_window", _parse_window, default=None),
        compaction_trigger_files=_read(options, f"{_TWCS}trigger_file_num", int, default=None),
        compaction_output_bytes=_read(options, f"{_TWCS}max_output_file_size", _parse_size, default=None),
        memtable=_memtable_options(options),
        skipping=tuple(_skipping_indexes(columns)),
        fulltext=tuple(_fulltext_indexes(columns)),
    )


def _memtable_options(options: Mapping[str, str]) -> MemtableSettings:
    return MemtableSettings(
        type=_read(options, "memtable.type", _parse_memtable_type, default=None),
        shard_keys=_read(options, f"{_TREE}index_max_keys_per_shard", int, default=None),
        freeze_rows=_read(options, f"{_TREE}data_freeze_threshold", int, default=None),
        fork_bytes=_read(options, f"{_TREE}fork_dictionary_bytes", Size.parse, default=None),
    )


def _skipping_indexes(columns: Sequence[ColumnInfo]) -> Iterator[SkippingIndex]:
    """Yield the filters of fields that indexes ask for; those of keys would add nothing to what series tell.

    An inverted index of a field comes to the same: rows are sorted by series, so values of fields are scattered.
    """
    for column in columns:
        index = column.index("skipping") or column.index("inverted")
        if index is not None and column.semantic is Semantic.FIELD:
            said = {**_FILTER_DEFAULTS, **dict(index.options)}
            yield SkippingIndex(column.id, int(said["granularity"]), float(said["false_positive_rate"]))


def _fulltext_indexes(columns: Sequence[ColumnInfo]) -> Iterator[FulltextIndex]:
    """Yield the full-text indexes of fields; both backends come to the same filters."""
    for column in columns:
        index = column.index("fulltext")
        if index is not None and column.semantic is Semantic.FIELD:
            said = {**_FULLTEXT_DEFAULTS, **dict(index.options)}
            granularity, rate = int(said["granularity"]), float(said["false_positive_rate"])
            is_case_sensitive = said["case_sensitive"] == "true"
            yield FulltextIndex(column.id, granularity, rate, said["analyzer"], is_case_sensitive)


def _is_live(key: str) -> bool:
    return key == _TTL or key.startswith(_COMPACTION)


def _read(options: Mapping[str, str], key: str, parse: Callable[[str], T], *, default: T) -> T:
    if key not in options:
        return default
    try:
        return parse(options[key])
    except ValueError as error:
        raise InvalidArguments(f"Invalid option: {error}", key=key, value=options[key]) from error


def _parse_merge_mode(text: str) -> MergeMode:
    return MergeMode(text) if text else MergeMode.LAST_ROW


def _parse_memtable_type(text: str) -> MemtableKind:
    # `bulk` holds batches of rows and merges them in the background, as `time_series` does here.
    return MemtableKind.TIME_SERIES if text == "bulk" else MemtableKind(text)


def _parse_flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is not true or false")
    return text.lower() == "true"


def _parse_ttl(text: str) -> Duration | None:
    match text.strip().lower():
        case "" | "forever":
            return None
        case "instant":
            return INSTANT
    # None rather than nothing: rows that live for no time at all are called `instant`.
    return Duration.parse(text) or None


def _parse_window(text: str) -> Duration | None:
    try:
        return Duration.parse(text) or None
    except DurationTooLong:
        # All time there is becomes one window.
        return _LONGEST


def _parse_size(text: str) -> Size | None:
    return Size.parse(text) or None

"""The table that rows are imported into: what it is, or how it is to be made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tsdb.cli.server import ResultRows, ServerAddress, ServerError, run_statement
from tsdb.cli.transfer._columns import TimeReading, time_type
from tsdb.cli.transfer._literals import create_table_text, quoted_path
from tsdb.errors import InvalidArguments, Status
from tsdb.model import DataType, Kind, type_of_field
from tsdb.nearest import nearest
from tsdb.sql import type_of_name

TIME_NAMES = ("ts", "time", "timestamp", "tsdb_timestamp", "greptime_timestamp", "datetime", "date")
_TYPE = re.compile(r"\s*(\w+(?:\s+\w+)?)\s*(?:\(([\d\s,]*)\))?\s*(unsigned)?\s*", re.IGNORECASE)


class UnusableTable(InvalidArguments):
    """The table and the source do not go together."""


@dataclass(frozen=True)
class TableTarget:
    """A table, as far as an import needs to know it."""

    name: str
    database: str
    columns: Mapping[str, DataType]
    time: str
    tags: Sequence[str]
    is_new: bool

    def create_text(self) -> str:
        """Without tags nothing tells rows of the same time apart, so all of them are kept."""
        columns = [(name, kind.sql) for name, kind in self.columns.items()]
        return create_table_text(self.name, columns, time=self.time, tags=self.tags, is_append=not self.tags)


@dataclass(frozen=True)
class TargetOptions:
    """What the user says about the table."""

    table: str
    database: str
    time_column: str | None
    tags: Sequence[str]
    types: Mapping[str, DataType]


def find_table(address: ServerAddress, options: TargetOptions) -> TableTarget | None:
    """Return the table if it exists."""
    try:
        with run_statement(
            address, f"SELECT * FROM {quoted_path(options.table)} LIMIT 0", database=options.database
        ) as result:
            assert isinstance(result, ResultRows)
            columns = {each.name: _type_of(each) for each in result.schema}
        with run_statement(address, f"DESC TABLE {quoted_path(options.table)}", database=options.database) as described:
            assert isinstance(described, ResultRows)
            rows = described.read_all().to_pylist()
    except ServerError as error:
        if error.code == Status.TABLE_NOT_FOUND.value:
            return None
        raise
    semantics = {row["Column"]: row["Semantic Type"] for row in rows}
    times = [name for name, semantic in semantics.items() if semantic == "TIMESTAMP"]
    tags = [name for name, semantic in semantics.items() if semantic == "TAG"]
    if not times:
        raise UnusableTable(f"{options.table} has no time index and cannot be written")
    return TableTarget(options.table, options.database, columns, times[0], tags, is_new=False)


def _type_of(field: pa.Field) -> DataType:
    return type_of_field(field) or DataType(Kind.STRING)


def plan_table(options: TargetOptions, inferred: Mapping[str, DataType], times: TimeReading) -> TableTarget:
    """Decide how a new table looks: types given by the user, else those of the sample."""
    _check_names(options.types, inferred, "--types")
    _check_names(options.tags, inferred, "--tags")
    time = options.time_column or _find_time(inferred)
    _check_names([time], inferred, "--time-column")
    columns = {**inferred, **{name: DataType(Kind.STRING) for name in options.tags}, **options.types}
    if time not in options.types:
        if (inferred[time].is_integer or inferred[time].is_float) and times.unit is None:
            raise UnusableTable(
                f"the time column {time} holds numbers", hint="pass the unit: --time-format s, ms, us or ns"
            )
        if not columns[time].is_timestamp:
            columns[time] = time_type(times, has_fractions=inferred[time].is_float)
    if not columns[time].is_timestamp:
        raise UnusableTable(f"the time column {time} must be a timestamp, not {columns[time].name}")
    ordered = {name: columns[name] for name in inferred}
    return TableTarget(options.table, options.database, ordered, time, tuple(options.tags), is_new=True)


def _find_time(inferred: Mapping[str, DataType]) -> str:
    for name in inferred:
        if name.lower() in TIME_NAMES:
            return name
    for name, kind in inferred.items():
        if kind.is_timestamp:
            return name
    raise UnusableTable(f"no column of {', '.join(inferred)} looks like the time", hint="name it with --time-column")


def check_columns(target: TableTarget, names: Sequence[str]) -> None:
    """Refuse columns that the table does not have, before anything is written."""
    unknown = [name for name in names if name not in target.columns]
    if unknown:
        near = nearest(unknown[0], target.columns)
        hint = f"did you mean {near}?" if near else "add them with ALTER TABLE, or leave them out with --columns"
        raise UnusableTable(f"the table {target.name} has no column {', '.join(unknown)}", hint=hint)
    if target.time not in names:
        raise UnusableTable(f"the source has no column {target.time}, the time index of {target.name}")


def _check_names(wanted: Sequence[str] | Mapping[str, DataType], known: Mapping[str, DataType], option: str) -> None:
    for name in wanted:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
            raise UnusableTable(f"{option} names {name}, which is not a column of the source", hint=hint)


def parse_types(text: str) -> dict[str, DataType]:
    """Read `name:type,name:type`; types are those of SQL, such as `double` or `timestamp(3)`."""
    found = {}
    for part in re.split(r",(?![^()]*\))", text):
        name, colon, kind = part.rpartition(":")
        if not colon or not name.strip():
            raise InvalidArguments(f"--types expects name:type,…; received {part.strip()!r}")
        found[name.strip()] = parse_type(kind)
    return found


def parse_type(text: str) -> DataType:
    match = _TYPE.fullmatch(text)
    known = None
    if match is not None:
        words = match[1].split()
        is_unsigned = bool(match[3]) or (len(words) == 2 and words[1].lower() == "unsigned")
        numbers = [int(each) for each in (match[2] or "").split(",") if each.strip()]
        known = type_of_name(words[0], numbers, is_unsigned=is_unsigned)
    if known is None:
        raise InvalidArguments(f"{text.strip()!r} is not a column type", hint="such as double, bigint, timestamp(3)")
    return known

"""Fitted rows as batches of regions: series are made once for each distinct set of tags, never for each row.

A table of one region takes its rows as they are. Rows of a partitioned table are divided by the region of their series.
Rows of all logical tables on one physical table become one batch of its region, however many metrics a request has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.database.writing.known_series import KnownHashes
from tsdb.database.writing.send import RegionBatch
from tsdb.database.writing.values import Fitted, is_known
from tsdb.metric import encode_labels, make_series
from tsdb.model import (
    Batch,
    Column,
    OpType,
    PartitionRule,
    RegionId,
    RegionSchema,
    SeriesTable,
    TableInfo,
    group_series,
    region_id,
)

ROWS_PER_BATCH = 1_000_000
"""Rows of one region in one request are one log entry, written whole or not at all, up to this many."""

Index = npt.NDArray[np.uint32]
Positions = npt.NDArray[np.int64]
BatchOf = Callable[[RegionId], tuple[Batch, int]]
"""Returns all rows as a batch of a region, and the version of the schema it was made for."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the rows of one description of a table go; made once and kept, because every request needs it."""

    table: TableInfo
    schema: RegionSchema
    """Of the regions, when this was made."""
    rule: PartitionRule | None
    """None for a table of one region."""
    known: KnownHashes
    """The series that parsers know."""


def make_target(table: TableInfo, schema: RegionSchema) -> Target:
    """Gather what writing to a table needs."""
    return Target(table, schema, table.partition_rule, KnownHashes(schema))


def make_batch(fitted: Fitted, schema: RegionSchema, hashes: KnownHashes | None = None) -> Batch:
    """Return rows as a batch of a region; `hashes` are of the series that parsers know."""
    rows = fitted.rows
    return Batch(_make_series(fitted, schema, hashes), rows.series_index, fitted.times, fitted.fields, rows.op)


def _make_series(fitted: Fitted, schema: RegionSchema, hashes: KnownHashes | None) -> SeriesTable:
    known = fitted.rows.known
    if known is not None and hashes is not None and is_known(fitted.rows, fitted.table):
        return hashes.series(known)
    made_for = fitted.rows.made_for
    if fitted.rows.made_series is not None and made_for is not None and made_for.schema_version == schema.version:
        return fitted.rows.made_series
    count = fitted.series
    columns = [fitted.tags[tag.name] if tag.name in fitted.tags else pa.nulls(count, tag.type) for tag in schema.tags]
    return SeriesTable.of_tags(schema, columns, count)


def make_parts(fitted: Fitted, rule: PartitionRule | None, batch_of: BatchOf) -> list[RegionBatch]:
    """Divide rows among the regions of their table."""
    table = fitted.table
    if rule is None:
        return _limited(table.region_ids[0], *batch_of(table.region_ids[0]))
    parts = []
    for number, rows in _by_region(_route(rule, fitted)):
        region = region_id(table.id, table.region_numbers[number])
        batch, version = batch_of(region)
        parts += _limited(region, _take(batch, rows), version)
    return parts


def _route(rule: PartitionRule, fitted: Fitted) -> npt.NDArray[np.integer[Any]]:
    """Return for each row which region it belongs to."""
    rows, table = fitted.rows, fitted.table
    tags = fitted.tags
    if rows.known is not None and is_known(rows, table):
        read = rows.read_tags()
        tags = dict(zip(read.schema.names, read.columns, strict=True))
    keys = {tag.name for tag in table.tags}
    named = {name: _column(fitted, tags, name) for name in rule.columns}
    if keys.issuperset(rule.columns):
        return rule.route(pa.table(named))[rows.series_index]
    index = pa.array(rows.series_index)
    return rule.route(
        pa.table({name: column.take(index) if name in keys else column for name, column in named.items()})
    )


def _column(fitted: Fitted, tags: dict[str, pa.Array], name: str) -> pa.Array:
    """Return a column: a tag by series, others by row."""
    column = fitted.table.by_name[name]
    if name == fitted.table.time_index.name:
        return pa.array(fitted.times).cast(column.type.arrow)
    if name in tags:
        return tags[name]
    is_tag = any(tag.name == name for tag in fitted.table.tags)
    return fitted.fields.get(name, pa.nulls(fitted.series if is_tag else fitted.rows.rows, column.type.arrow))


def _by_region(numbers: npt.NDArray[np.integer[Any]]) -> Iterator[tuple[int, Positions]]:
    """Yield the regions that get rows, each with the positions of its rows."""
    for number in np.flatnonzero(np.bincount(numbers)):
        yield int(number), np.flatnonzero(numbers == number)


def _take(batch: Batch, rows: Positions) -> Batch:
    """Return some rows of a batch, with the series that they have."""
    if len(rows) == batch.rows:
        return batch
    used, index = np.unique(batch.series_index[rows], return_inverse=True)
    chosen = pa.array(rows)
    return Batch(
        batch.series.take(used.astype(np.int64)),
        index.astype(np.uint32),
        batch.times[rows],
        {name: values.take(chosen) for name, values in batch.fields.items()},
        batch.op,
    )


def _limited(region: RegionId, batch: Batch, version: int) -> list[RegionBatch]:
    if batch.rows <= ROWS_PER_BATCH:
        return [RegionBatch(region, batch, version)]
    starts = range(0, batch.rows, ROWS_PER_BATCH)
    pieces = [np.arange(start, min(start + ROWS_PER_BATCH, batch.rows)) for start in starts]
    return [RegionBatch(region, _take(batch, piece), version) for piece in pieces]


def make_metric_parts(target: Target, many: Sequence[Fitted]) -> list[RegionBatch]:
    """Return the rows of logical tables as batches of their physical table, which `target` is."""
    index: list[Index] = []
    owners: list[npt.NDArray[np.uint32]] = []
    labels: list[pa.Array] = []
    series = 0
    for fitted in many:
        index.append(fitted.rows.series_index + np.uint32(series))
        owners.append(np.full(fitted.series, fitted.table.id, dtype=np.uint32))
        labels.append(encode_labels(fitted.tags, fitted.series))
        series += fitted.series
    batch = Batch(
        make_series(target.schema, pa.array(np.concatenate(owners)), pa.concat_arrays(labels)),
        np.concatenate(index),
        np.concatenate([fitted.times for fitted in many]),
        _metric_fields(target.schema, many),
        many[0].rows.op,
    )
    table, version = target.table, target.schema.version
    if target.rule is None:
        return _limited(table.region_ids[0], _joined(batch, many), version)
    parts = []
    for number, rows in _by_region(_route_metrics(target.rule, table, many)[batch.series_index]):
        region = region_id(table.id, table.region_numbers[number])
        parts += _limited(region, _joined(_take(batch, rows), many), version)
    return parts


def _route_metrics(rule: PartitionRule, physical: TableInfo, many: Sequence[Fitted]) -> npt.NDArray[np.integer[Any]]:
    """Return for each series of logical tables which region it belongs to, by its labels."""
    labels = {
        name: pa.concat_arrays(
            [each.tags[name].cast(kind) if name in each.tags else pa.nulls(each.series, kind) for each in many]
        )
        for name, kind in ((name, physical.by_name[name].type.arrow) for name in rule.columns)
    }
    return rule.route(pa.table(labels))


def _metric_fields(schema: RegionSchema, many: Sequence[Fitted]) -> dict[str, pa.Array]:
    """Return the fields of a physical table that rows have: the value, and the histogram if one of them has it."""
    if many[0].rows.op is OpType.DELETE:
        return {}
    value, *others = schema.fields
    given = [value, *(column for column in others if any(column.name in fitted.fields for fitted in many))]
    return {column.name: pa.concat_arrays([_field(fitted, column) for fitted in many]) for column in given}


def _field(fitted: Fitted, column: Column) -> pa.Array:
    found = fitted.fields.get(column.name)
    return pa.nulls(fitted.rows.rows, column.type) if found is None else found


def _joined(batch: Batch, many: Sequence[Fitted]) -> Batch:
    """Return a batch in which each series occurs once: pieces of one table may have the same."""
    is_split = len({fitted.table.id for fitted in many}) != len(many)
    return join_series(batch) if is_split else batch


def join_series(batch: Batch) -> Batch:
    """Return a batch in which each series occurs once."""
    first, group = group_series(batch.series.tsid, batch.series.check)
    return Batch(batch.series.take(first), group[batch.series_index], batch.times, batch.fields, batch.op)

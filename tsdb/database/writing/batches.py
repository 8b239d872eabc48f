"""Fitted rows as batches of regions: series are made once for each distinct set of tags, never for each row.

A table of one region takes its rows as they are. Rows of a partitioned table are divided by the region of their series.
Rows of all logical tables on one physical table become one batch of its region, however many metrics a request has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.database.writing.known_series import KnownHashes
from tsdb.database.writing.values import Fitted, is_known
from tsdb.engine import Regions, SchemaOutdated
from tsdb.metric import encode_labels, make_series
from tsdb.model import (
    Batch,
    Column,
    PartitionRule,
    RegionId,
    RegionSchema,
    Semantic,
    SeriesTable,
    TableInfo,
    group_series,
    region_id,
)

ROWS_PER_BATCH = 1_000_000
"""Rows of one region in one request are one log entry, written whole or not at all, up to this many."""

Index = npt.NDArray[np.uint32]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Target:
    """Where the rows of one version of a table go; made once and kept, because every request asks."""

    table: TableInfo
    schema: RegionSchema
    rule: PartitionRule | None
    """None for a table of one region."""
    known: KnownHashes
    """The series that parsers know."""

    @property
    def is_routed_by_series(self) -> bool:
        tags = {tag.name for tag in self.schema.tags}
        return self.rule is not None and tags.issuperset(self.rule.columns)


@dataclass(frozen=True, slots=True)
class Part:
    """A batch for one region, made for one version of its schema."""

    region: RegionId
    batch: Batch
    schema_version: int


def make_target(regions: Regions, table: TableInfo) -> Target:
    """Look up what writing to a table needs; SchemaOutdated while its regions are being changed."""
    first = table.region_ids[0]
    schema = regions.schema(first)
    if schema.version != table.schema_version:
        raise SchemaOutdated(region_id=first, expected=table.schema_version, current=schema.version)
    known = KnownHashes(schema)
    if len(table.region_numbers) == 1:
        return Target(table, schema, None, known)
    types = {name: table.by_name[name].type for name in table.partition_columns}
    rule = PartitionRule.parse(table.partition_columns, table.partition_rules, types)
    return Target(table, schema, rule, known)


def make_parts(target: Target, fitted: Fitted) -> list[Part]:
    """Return the batches of rows."""
    series = _make_series(target, fitted)
    whole = Batch(series, fitted.rows.series_index, fitted.times, fitted.fields)
    if target.rule is None:
        return _limited(target.table.region_ids[0], whole, target.schema.version)
    table = target.table
    return [
        part
        for number, batch in _divide(target, target.rule, whole)
        for part in _limited(region_id(table.id, table.region_numbers[number]), batch, target.schema.version)
    ]


def _make_series(target: Target, fitted: Fitted) -> SeriesTable:
    known = fitted.rows.known
    if known is not None and is_known(fitted.rows, fitted.table):
        return target.known.series(known)
    count, schema = fitted.series, target.schema
    columns = [fitted.tags[tag.name] if tag.name in fitted.tags else pa.nulls(count, tag.type) for tag in schema.tags]
    return SeriesTable.of_tags(schema, columns, count)


def _divide(target: Target, rule: PartitionRule, batch: Batch) -> list[tuple[int, Batch]]:
    """Divide a batch among the regions of its table."""
    if target.is_routed_by_series:
        numbers = rule.route(batch.series.tags)[batch.series_index]
    else:
        numbers = rule.route(_columns_of_rows(target, rule, batch))
    counts = np.bincount(numbers)
    taken = np.flatnonzero(counts)
    if len(taken) == 1:
        return [(int(taken[0]), batch)]
    return [(int(number), _take(batch, np.flatnonzero(numbers == number))) for number in taken]


def _columns_of_rows(target: Target, rule: PartitionRule, batch: Batch) -> pa.Table:
    index = pa.array(batch.series_index)
    columns: dict[str, pa.Array] = {}
    for name in rule.columns:
        column = target.schema.by_name[name]
        if column.semantic is Semantic.TAG:
            columns[name] = batch.series.tags.column(name).take(index)
        elif column.semantic is Semantic.TIMESTAMP:
            columns[name] = pa.array(batch.times).cast(column.type)
        else:
            columns[name] = batch.fields.get(name, pa.nulls(batch.rows, column.type))
    return pa.table(columns)


def _take(batch: Batch, rows: Positions) -> Batch:
    """Return some rows of a batch, with the series that they have."""
    used, index = np.unique(batch.series_index[rows], return_inverse=True)
    chosen = pa.array(rows)
    return Batch(
        batch.series.take(used.astype(np.int64)),
        index.astype(np.uint32),
        batch.times[rows],
        {name: values.take(chosen) for name, values in batch.fields.items()},
    )


def _limited(region: RegionId, batch: Batch, version: int) -> list[Part]:
    if batch.rows <= ROWS_PER_BATCH:
        return [Part(region, batch, version)]
    starts = range(0, batch.rows, ROWS_PER_BATCH)
    pieces = [np.arange(start, min(start + ROWS_PER_BATCH, batch.rows)) for start in starts]
    return [Part(region, _take(batch, piece), version) for piece in pieces]


def make_metric_parts(target: Target, many: Sequence[Fitted]) -> list[Part]:
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
    )
    if target.rule is not None:
        return _divide_metrics(target, target.rule, many, batch)
    if len({fitted.table.id for fitted in many}) != len(many):
        batch = _join_series(batch)
    return _limited(target.table.region_ids[0], batch, target.schema.version)


def _divide_metrics(target: Target, rule: PartitionRule, many: Sequence[Fitted], batch: Batch) -> list[Part]:
    """Divide rows of logical tables among the regions of their physical table, by the labels of their series."""
    table = target.table
    labels = {
        name: pa.concat_arrays(
            [each.tags[name].cast(kind) if name in each.tags else pa.nulls(each.series, kind) for each in many]
        )
        for name, kind in ((name, table.by_name[name].type.arrow) for name in rule.columns)
    }
    numbers = rule.route(pa.table(labels))[batch.series_index]
    parts: list[Part] = []
    for number in np.unique(numbers):
        some = _take(batch, np.flatnonzero(numbers == number))
        if len({fitted.table.id for fitted in many}) != len(many):
            some = _join_series(some)
        parts += _limited(region_id(table.id, table.region_numbers[int(number)]), some, target.schema.version)
    return parts


def _metric_fields(schema: RegionSchema, many: Sequence[Fitted]) -> dict[str, pa.Array]:
    """Return the fields of a physical table that rows have: the value, and the histogram if one of them has it."""
    value, *others = schema.fields
    given = [value, *(column for column in others if any(column.name in fitted.fields for fitted in many))]
    return {column.name: pa.concat_arrays([_field(fitted, column) for fitted in many]) for column in given}


def _field(fitted: Fitted, column: Column) -> pa.Array:
    found = fitted.fields.get(column.name)
    return pa.nulls(fitted.rows.rows, column.type) if found is None else found


def _join_series(batch: Batch) -> Batch:
    """Rows of one table that came in several pieces may have the same series twice: make it one."""
    first, group = group_series(batch.series.tsid, batch.series.check)
    return Batch(batch.series.take(first), group[batch.series_index], batch.times, batch.fields)

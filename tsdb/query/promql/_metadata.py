"""What series there are: names of metrics, labels and their values, without reading a row.

Whether a series has samples in a range of time is told by the spans of time that each source keeps for its series, so
an answer may name a series that has none there, but never misses one that has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tsdb.engine.scan import Snapshot
from tsdb.model import TableInfo, take_tags
from tsdb.promql import Matcher, match_values
from tsdb.promql.evaluation import LabelTable, concat_labels
from tsdb.query.promql._label_table import label_table, plain
from tsdb.query.promql._source import TableSeries, time_range
from tsdb.query.promql._tables import Selection, chosen_columns, find_tables, is_metric, split_matchers


@dataclass(frozen=True, slots=True)
class Period:
    """A range of time, both ends included."""

    start_ms: int
    end_ms: int


def find_series(source: TableSeries, selectors: Sequence[Sequence[Matcher]], period: Period) -> LabelTable:
    """Return the labels of the series that satisfy one of several selectors."""
    parts = [LabelTable.empty(0)]
    for matchers in selectors:
        chosen = split_matchers(matchers, source.database)
        for table in find_tables(source.catalog, chosen):
            source.check()
            if chosen_columns(table, chosen.fields):
                parts.extend(_series_of(source, table, chosen, period))
    labels = concat_labels(parts)
    _, first = labels.group()
    return labels.take(first)


def _series_of(source: TableSeries, table: TableInfo, chosen: Selection, period: Period) -> list[LabelTable]:
    parts = []
    for region in source.regions_of(table):
        with source.snapshot(table, region) as snapshot:
            parts.extend(_matching(snapshot, table, chosen.labels, period))
    return parts


def _matching(snapshot: Snapshot, table: TableInfo, matchers: Sequence[Matcher], period: Period) -> list[LabelTable]:
    span = time_range(period.start_ms, period.end_ms, table.time_index.type.arrow.unit)
    parts = []
    for each in snapshot.sources:
        block = each.block
        mask = (block.time_max >= span.start) & (block.time_min < span.end)
        tags = block.table.tags
        for matcher in matchers:
            if matcher.name in tags.schema.names and table.by_name.get(matcher.name) is not None:
                values = plain(tags.column(matcher.name)).cast(pa.string())
            else:
                values = pa.nulls(len(mask), pa.string())
            mask = mask & match_values(matcher, values)
        if mask.any():
            parts.append(label_table(take_tags(tags, np.flatnonzero(mask)), table))
    return parts


def metric_names(source: TableSeries, names: Sequence[Matcher] = ()) -> list[str]:
    """Return the names of the metrics of a database."""
    if source.catalog.find_database(source.database) is None:
        return []
    found = [table.name for table in source.catalog.tables(source.database) if is_metric(table)]
    if not names or not found:
        return sorted(found)
    mask = np.ones(len(found), np.bool_)
    for matcher in names:
        mask &= match_values(matcher, pa.array(found, pa.string()))
    return sorted(name for name, hit in zip(found, mask, strict=True) if hit)


def label_names(source: TableSeries) -> list[str]:
    """Return the labels that tables of a database have."""
    if source.catalog.find_database(source.database) is None:
        return []
    tables = [table for table in source.catalog.tables(source.database) if not table.is_physical]
    return sorted({tag.name for table in tables for tag in table.tags})

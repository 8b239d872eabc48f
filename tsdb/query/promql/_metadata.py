"""What series there are: names of metrics, labels and their values, without reading a row.

Each source keeps the time span of its series, which decides whether a series has samples in a time range, so
an answer may name a series that has none there, but never misses one that has. All of it is about the same tables:
those in which `find_tables` sees a metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tsdb.model import Matcher, TableInfo
from tsdb.promql.evaluation import LabelTable, concat_labels
from tsdb.query.promql._label_table import label_table
from tsdb.query.promql._source import TableSeries, series_filter, time_range
from tsdb.query.promql._tables import (
    DATABASE_LABELS,
    FIELD_LABEL,
    NAME_LABEL,
    SortedMatchers,
    chosen_columns,
    find_tables,
    may_match,
    split_matchers,
)


@dataclass(frozen=True, slots=True)
class Period:
    """A range of time, both ends included."""

    start_ms: int
    end_ms: int


ALL_TIME = Period(-(1 << 53), 1 << 53)


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


def _series_of(source: TableSeries, table: TableInfo, chosen: SortedMatchers, period: Period) -> list[LabelTable]:
    parts: list[LabelTable] = []
    if not may_match(table, chosen.labels):
        return parts
    wanted = series_filter(table, chosen.labels)
    span = time_range(period.start_ms, period.end_ms, table.time_index.type.arrow.unit)
    for region in source.regions_of(table, chosen.labels):
        with source.open(table, region) as reader:
            parts.extend(label_table(tags, table) for tags in reader.list_series(wanted, span))
    return parts


def metric_names(
    source: TableSeries, selectors: Sequence[Sequence[Matcher]] = (), period: Period | None = None
) -> list[str]:
    """Return the names of metrics: those of all tables, or of those that have a series one of the selectors means."""
    found: set[str] = set()
    for matchers in selectors or [()]:
        chosen = split_matchers(matchers, source.database)
        for table in find_tables(source.catalog, chosen):
            source.check()
            if table.name not in found and _has_series(source, table, chosen, period):
                found.add(table.name)
    return sorted(found)


def _has_series(source: TableSeries, table: TableInfo, chosen: SortedMatchers, period: Period | None) -> bool:
    if not chosen_columns(table, chosen.fields):
        return False
    if not chosen.labels:
        return True
    return any(part.rows for part in _series_of(source, table, chosen, period or ALL_TIME))


def label_names(
    source: TableSeries, selectors: Sequence[Sequence[Matcher]] = (), period: Period | None = None
) -> list[str]:
    """Return the names of labels: those of all tables, or of the series that one of the selectors means."""
    if selectors:
        table = find_series(source, selectors, period or ALL_TIME)
        return sorted(name for name, column in table.columns.items() if column.codes.any())
    tables = find_tables(source.catalog, split_matchers((), source.database))
    return sorted({tag.name for table in tables for tag in table.tags})


def label_values(
    source: TableSeries, name: str, selectors: Sequence[Sequence[Matcher]] = (), period: Period | None = None
) -> list[str]:
    """Return the values of a label, of all series or of those that one of the selectors means."""
    if name == NAME_LABEL:
        return metric_names(source, selectors, period)
    if name in DATABASE_LABELS:
        return _databases_with(source, selectors)
    if name == FIELD_LABEL:
        return _fields(source, selectors)
    column = find_series(source, selectors or [()], period or ALL_TIME).column(name)
    used = {column.values[code] for code in set(column.codes.tolist()) if code}
    return sorted(used)


def _databases_with(source: TableSeries, selectors: Sequence[Sequence[Matcher]]) -> list[str]:
    """Return the databases that hold a metric of these names."""
    found = []
    for database in source.catalog.databases():
        for matchers in selectors or [()]:
            wanted = [each for each in matchers if each.name not in DATABASE_LABELS]
            if find_tables(source.catalog, split_matchers(wanted, database.name)):
                found.append(database.name)
                break
    return sorted(found)


def _fields(source: TableSeries, selectors: Sequence[Sequence[Matcher]]) -> list[str]:
    """Return the fields of the tables that selectors name, of all without one."""
    found: set[str] = set()
    for matchers in selectors or [()]:
        chosen = split_matchers(matchers, source.database)
        for table in find_tables(source.catalog, chosen):
            found.update(column.name for column in chosen_columns(table, chosen.fields))
    return sorted(found)

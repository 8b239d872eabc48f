"""Which tables a selector means, and which of their columns.

A metric is a table: a logical one of the metric engine, or any other with a time index and a field that is a number.
A matcher `__name__="x"` names one. Other conditions on the name choose among all of them, but for the physical tables
of the metric engine, which repeat what their logical tables hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tsdb.errors import InvalidArguments
from tsdb.model import ColumnInfo, DatabaseInfo, Matcher, TableInfo, matches, matches_empty

FIELD_LABEL = "__field__"
NAME_LABEL = "__name__"
DATABASE_LABELS = frozenset({"__schema__", "__database__", "x_greptime_database", "x_tsdb_database"})


class MetricCatalog(Protocol):
    """The part of the catalog that PromQL reads."""

    def databases(self) -> list[DatabaseInfo]: ...

    def find_database(self, name: str) -> DatabaseInfo | None: ...

    def tables(self, database: str) -> list[TableInfo]: ...

    def find_table(self, database: str, name: str) -> TableInfo | None: ...

    def table_by_id(self, table_id: int) -> TableInfo | None: ...


@dataclass(frozen=True, slots=True)
class SortedMatchers:
    """The conditions of a selector, by what they are about."""

    database: str
    names: tuple[Matcher, ...]
    fields: tuple[Matcher, ...]
    labels: tuple[Matcher, ...]


def split_matchers(matchers: Sequence[Matcher], database: str) -> SortedMatchers:
    """Sort conditions by what they are about; that on the database must name one."""
    names, fields, labels = [], [], []
    for matcher in matchers:
        if matcher.name == NAME_LABEL:
            names.append(matcher)
        elif matcher.name == FIELD_LABEL:
            fields.append(matcher)
        elif matcher.name in DATABASE_LABELS:
            if matcher.op != "=":
                raise InvalidArguments(f"the label {matcher.name} can only be matched with =")
            database = matcher.value
        else:
            labels.append(matcher)
    return SortedMatchers(database, tuple(names), tuple(fields), tuple(labels))


def value_columns(table: TableInfo) -> list[ColumnInfo]:
    """Return the fields that are numbers."""
    return [field for field in table.fields if _is_number(field.type.arrow)]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def has_histograms(table: TableInfo, value: ColumnInfo) -> bool:
    """Return whether samples may be native histograms, when their values are those of a column."""
    return table.histogram is not None and value in table.value_fields and len(value_columns(table)) == 1


def is_metric(table: TableInfo) -> bool:
    """Return whether a table is a metric that conditions on the name find."""
    if table.is_logical:
        return True
    return not table.is_physical and bool(table.region_numbers) and bool(value_columns(table))


def may_match(table: TableInfo, labels: Sequence[Matcher]) -> bool:
    """Return whether a table can have matching series, as far as the labels that it lacks decide."""
    tags = {tag.name for tag in table.tags}
    return all(matcher.name in tags or matches_empty(matcher) for matcher in labels)


def find_tables(catalog: MetricCatalog, chosen: SortedMatchers) -> list[TableInfo]:
    """Return the tables that a selector means; one that there is not has no series."""
    exact = [matcher.value for matcher in chosen.names if matcher.op == "="]
    if exact:
        table = catalog.find_table(chosen.database, exact[0])
        found = [] if table is None or not value_columns(table) or not _has_rows(table) else [table]
    else:
        if catalog.find_database(chosen.database) is None:
            return []
        found = [table for table in catalog.tables(chosen.database) if is_metric(table)]
    return [table for table in found if all(matches(matcher, table.name) for matcher in chosen.names)]


def _has_rows(table: TableInfo) -> bool:
    return table.is_logical or bool(table.region_numbers)


def chosen_columns(table: TableInfo, fields: Sequence[Matcher]) -> list[ColumnInfo]:
    """Return the fields of a table that the matchers of `__field__` leave."""
    return [field for field in value_columns(table) if all(matches(matcher, field.name) for matcher in fields)]

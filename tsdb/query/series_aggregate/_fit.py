"""Aggregates as they fit a table: which cells, which states of which columns, and what the answer makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tsdb.engine.scan import Conditions, Node, RunQuery
from tsdb.model import ColumnInfo, Semantic, TableInfo
from tsdb.query._conditions import conjuncts, fit_condition
from tsdb.query.series_aggregate._bucket import PlacedBucket, place_bucket
from tsdb.sql.clauses import Condition, Junction, OtherClause
from tsdb.sql.tag_expression import TagExpression, tags_of
from tsdb.sql.terms import Aggregate, AmbiguousKey, Bucket, ColumnItem, Key, Order, SeriesQuery, Wanted

ENGINE = "mito"

_STATES = {
    "count": (),
    "sum": ("sum",),
    "avg": ("total",),
    "total": ("total",),
    "min": ("min",),
    "max": ("max",),
    "stddev": ("spread",),
    "stddev_samp": ("spread",),
    "stddev_pop": ("spread",),
    "var": ("spread",),
    "var_samp": ("spread",),
    "var_pop": ("spread",),
    "median": (),
}
UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of the answer that is a tag: the number of its key."""

    key: int


@dataclass(frozen=True, slots=True)
class BucketColumn:
    """The column of the answer that is the bucket."""


AnswerColumn = KeyColumn | BucketColumn | Aggregate
RunFilter = Node | Conditions | None


@dataclass(frozen=True, slots=True, eq=False)
class FittedQuery:
    """A query that runs can answer."""

    table: TableInfo
    where: Condition | None
    """The conditions, those that only a planner understands as expressions over tags."""
    filter: RunFilter
    over_tags: tuple[TagExpression, ...]
    """Conditions over tags beside the filter."""
    computed: Mapping[str, TagExpression]
    """The keys that are expressions over tags, by their names among those of the runs."""
    runs: RunQuery
    has_bucket: bool
    columns: tuple[AnswerColumn, ...]
    is_grouped: bool
    order: tuple[Order, ...]
    limit: int | None
    offset: int
    is_of_range: bool = False
    """The buckets are right for the times in its conditions only: between them clocks are not changed."""

    @property
    def is_by_bucket_alone(self) -> bool:
        """Rows come by time, a few of them: only so many buckets at one end need to be computed."""
        return (
            self.limit is not None
            and self.has_bucket
            and not self.runs.keys
            and len(self.order) == 1
            and isinstance(self.columns[self.order[0].item], BucketColumn)
        )


def fit_query(query: SeriesQuery, table: TableInfo, zone: str) -> FittedQuery:
    """Return a query as one of a table; OtherClause if runs cannot answer it."""
    if table.engine != ENGINE and not table.is_logical:
        raise OtherClause("its table is none whose rows lie by series")
    where = _fit_where(query.where, table, zone)
    over_tags = tuple(part for part in conjuncts(where) if isinstance(part, TagExpression))
    for term in (*over_tags, *(item.term for item in query.items)):
        _check_expression(term, table)
    keys = [_resolve(key, table) for key in query.keys]
    _check_names(query, keys)
    tags = tuple(_name_of(key) for key in keys if not isinstance(key, Bucket))
    buckets = [key for key in keys if isinstance(key, Bucket)]
    if len(buckets) > 1:
        raise OtherClause("it is grouped by several buckets of time")
    for key in keys:
        _check_expression(key, table)
        if isinstance(key, ColumnItem) and _column(table, key.name).semantic is not Semantic.TAG:
            raise OtherClause(f"it is grouped by {key.name}, which is no tag")
    columns = tuple(_answer(item.term, tags, buckets, table) for item in query.items)
    placed = place_bucket(buckets[0], table, zone, where) if buckets else None
    return FittedQuery(
        table=table,
        where=where,
        filter=_fit_filter(where, table, zone),
        over_tags=over_tags,
        computed={_name_of(key): key for key in keys if isinstance(key, TagExpression)},
        runs=_run_query(tags, placed, columns, table),
        has_bucket=bool(buckets),
        columns=columns,
        is_grouped=query.is_grouped,
        order=query.order,
        limit=query.limit,
        offset=query.offset,
        is_of_range=placed is not None and placed.is_of_range,
    )


def _fit_where(where: tuple[Wanted, ...], table: TableInfo, zone: str) -> Condition | None:
    parts = []
    for wanted in where:
        if fit_condition(wanted.condition, table, zone) is not None:
            parts.append(wanted.condition)
        elif wanted.expression is None:
            raise OtherClause("a condition compares a column with a literal of another type")
        else:
            parts.append(wanted.expression)
    return Junction(tuple(parts), is_and=True) if len(parts) > 1 else (parts[0] if parts else None)


def _fit_filter(where: Condition | None, table: TableInfo, zone: str) -> Node | None:
    plain = tuple(part for part in conjuncts(where) if not isinstance(part, TagExpression))
    if not plain:
        return None
    return fit_condition(plain[0] if len(plain) == 1 else Junction(plain, is_and=True), table, zone)


def tags_in(expression: TagExpression, table: TableInfo) -> tuple[str, ...]:
    """Return the tags that an expression is of."""
    found = tags_of(expression, table.by_name, table.primary_key)
    if found is None or not all(_is_plain(_column(table, name).type.arrow) for name in found):
        raise OtherClause(expression.reason)
    return found


def _is_plain(kind: pa.DataType) -> bool:
    """Tell whether comparing a tag of a type with a literal means the same in every table."""
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _check_expression(term: object, table: TableInfo) -> None:
    if isinstance(term, TagExpression):
        tags_in(term, table)


def _check_names(query: SeriesQuery, keys: list[Key]) -> None:
    """Refuse names of the answer that could be mistaken for a tag in an expression."""
    names = frozenset().union(*(key.names for key in keys if isinstance(key, TagExpression)))
    for item in query.items:
        if item.alias in names and item.term != ColumnItem(item.alias or ""):
            raise OtherClause(f"the answer calls something else {item.alias}")


def _name_of(key: ColumnItem | TagExpression) -> str:
    return key.name if isinstance(key, ColumnItem) else f"({key.text})"


def _resolve(key: Key, table: TableInfo) -> Key:
    if not isinstance(key, AmbiguousKey):
        return key
    if key.name in table.by_name:
        return ColumnItem(key.name)
    if isinstance(key.other, Aggregate):
        raise OtherClause("it is grouped by an aggregate")
    return key.other


def _column(table: TableInfo, name: str) -> ColumnInfo:
    column = table.by_name.get(name)
    if column is None:
        raise OtherClause(f"there is no column {name}")
    return column


def _answer(term: object, tags: tuple[str, ...], buckets: list[Bucket], table: TableInfo) -> AnswerColumn:
    if isinstance(term, ColumnItem):
        if term.name not in tags:
            raise OtherClause(f"{term.name} is in the answer but no key")
        return KeyColumn(tags.index(term.name))
    if isinstance(term, TagExpression):
        if _name_of(term) not in tags:
            raise OtherClause(term.reason)
        return KeyColumn(tags.index(_name_of(term)))
    if isinstance(term, Bucket):
        if term not in buckets:
            raise OtherClause("a bucket of time is in the answer but no key")
        return BucketColumn()
    assert isinstance(term, Aggregate)
    _check_aggregate(term, table)
    return term


def _check_aggregate(term: Aggregate, table: TableInfo) -> None:
    if term.column is None:
        return
    column = _column(table, term.column)
    kind = column.type.arrow
    if column.semantic is Semantic.TAG:
        raise OtherClause(f"{term.function} is of the tag {term.column}")
    if term.order is not None and term.order != table.time_index.name:
        raise OtherClause(f"{term.function} is ordered by something else than time")
    if term.function in ("count", "first_value", "last_value"):
        return
    if term.function == "median" and not (pa.types.is_float64(kind) or pa.types.is_integer(kind)):
        raise OtherClause(f"median is of a column of type {column.type.name}")
    is_number = pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)
    if not (is_number or (term.function in ("min", "max") and pa.types.is_timestamp(kind))):
        raise OtherClause(f"{term.function} is of a column of type {column.type.name}")


def _run_query(
    tags: tuple[str, ...], placed: PlacedBucket | None, columns: tuple[AnswerColumn, ...], table: TableInfo
) -> RunQuery:
    states: dict[str, dict[str, None]] = {}
    ends: dict[bool, dict[str, None]] = {}
    for term in columns:
        if not isinstance(term, Aggregate) or term.column is None:
            continue
        if term.order is not None:
            ends.setdefault(term.is_newest, {})[term.column] = None
        elif term.function == "count" and term.column == table.time_index.name:
            continue  # every row has a time
        elif term.function == "count" and not _is_foldable(_column(table, term.column).type.arrow):
            raise OtherClause(f"count is of a column of type {_column(table, term.column).type.name}")
        else:
            states.setdefault(term.column, {}).update(dict.fromkeys(_STATES[term.function]))
            if term.function == "sum" and _column(table, term.column).type.arrow in (pa.int64(), pa.uint64()):
                # The total of doubles tells whether the sum may have wrapped around.
                states[term.column]["total"] = None
    return RunQuery(
        keys=tags,
        width=placed.width if placed is not None else 0,
        origin=placed.origin if placed is not None else 0,
        states={column: tuple(names) for column, names in states.items()},
        newest=tuple(ends[True]) if True in ends else None,
        oldest=tuple(ends[False]) if False in ends else None,
        gathered=tuple(dict.fromkeys(_medians(columns))),
        is_counted=any(_counts_rows(term, table) for term in columns),
    )


def _counts_rows(term: AnswerColumn, table: TableInfo) -> bool:
    return (
        isinstance(term, Aggregate)
        and term.function == "count"
        and (term.column is None or term.column == table.time_index.name)
    )


def _medians(columns: tuple[AnswerColumn, ...]) -> Iterator[str]:
    for term in columns:
        if isinstance(term, Aggregate) and term.function == "median" and term.column is not None:
            yield term.column


def _is_foldable(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_timestamp(kind)
    )

"""Aggregates as they fit a table: which cells, which states of which columns, and what the answer makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tsdb.engine.reading import Conditions, Node, RunQuery
from tsdb.model import Semantic, TableInfo
from tsdb.query.selection import conjuncts, fit_condition
from tsdb.query.series_aggregate._bucket import PlacedBucket, place_bucket
from tsdb.sql.clauses import Condition, Declined, joined_by_and
from tsdb.sql.select import OrderKey, Select, find_key, number_of
from tsdb.sql.tag_expression import TagExpression, tags_of
from tsdb.sql.terms import Aggregate, Bucket, ColumnItem, Key, Term

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


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of the answer that is a tag: the number of its key."""

    key: int


@dataclass(frozen=True, slots=True)
class BucketColumn:
    """The column of the answer that is the bucket."""


@dataclass(frozen=True, slots=True)
class Order:
    """One thing that rows are ordered by: the number of an item."""

    item: int
    is_descending: bool
    nulls_first: bool


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


def fit_query(select: Select, table: TableInfo, zone: str) -> FittedQuery | Declined:
    """Return a query as one of a table that runs can answer."""
    if reason := _why_not(select, table):
        return Declined(reason)
    where = _fit_where(select, table, zone)
    if isinstance(where, Declined):
        return where
    keys = _fit_keys(select, table)
    if isinstance(keys, Declined):
        return keys
    order = _fit_order(select)
    if isinstance(order, Declined):
        return order
    if reason := _why_not_keys(select, keys, table):
        return Declined(reason)
    tags = tuple(_name_of(key) for key in keys if not isinstance(key, Bucket))
    buckets = [key for key in keys if isinstance(key, Bucket)]
    columns: list[AnswerColumn] = []
    for item in select.items:
        column = _answer(item.term, tags, buckets, table)
        if isinstance(column, Declined):
            return column
        columns.append(column)
    placed = place_bucket(buckets[0], table, zone, where) if buckets else None
    if isinstance(placed, Declined):
        return placed
    return FittedQuery(
        table=table,
        where=where,
        filter=_fit_filter(where, table, zone),
        over_tags=tuple(part for part in conjuncts(where) if isinstance(part, TagExpression)),
        computed={_name_of(key): key for key in keys if isinstance(key, TagExpression)},
        runs=_run_query(tags, placed, columns, table),
        has_bucket=bool(buckets),
        columns=tuple(columns),
        is_grouped=select.group is not None,
        order=order,
        limit=None if select.limit is None else number_of(select.limit),
        offset=0 if select.offset is None else number_of(select.offset) or 0,
        is_of_range=placed is not None and placed.is_of_range,
    )


def _why_not(select: Select, table: TableInfo) -> str:
    """Return why a query is no aggregate that runs can answer, whatever its keys and conditions are."""
    if table.engine != ENGINE and not table.is_logical:
        return "its table is none whose rows lie by series"
    if not select.has_aggregates:
        reasons = [item.term.reason for item in select.items if isinstance(item.term, TagExpression | Declined)]
        return reasons[0] if reasons else "it has no aggregate"
    if not select.items:
        return "it selects all columns"
    if select.having is not None:
        return "it has HAVING"
    if any(tokens is not None and number_of(tokens) is None for tokens in (select.limit, select.offset)):
        return "a limit is no plain number"
    return ""


def _fit_keys(select: Select, table: TableInfo) -> tuple[Key, ...] | Declined:
    found: dict[Key, None] = {}
    for each in select.group or ():
        key = find_key(select, each, table.by_name)
        if isinstance(key, Declined):
            return key
        if isinstance(key.term, Declined):
            return key.term
        if isinstance(key.term, Aggregate):
            return Declined("it is grouped by an aggregate")
        found[key.term] = None
    return tuple(found)


def _why_not_keys(select: Select, keys: tuple[Key, ...], table: TableInfo) -> str:
    if sum(isinstance(key, Bucket) for key in keys) > 1:
        return "it is grouped by several buckets of time"
    names: set[str] = set()
    for key in keys:
        if isinstance(key, TagExpression):
            if tags_in(key, table) is None:
                return key.reason
            names |= key.names
        elif isinstance(key, ColumnItem):
            column = table.by_name.get(key.name)
            if column is None or column.semantic is not Semantic.TAG:
                return f"it is grouped by {key.name}, which is no tag"
    for item in select.items:
        # A name of the answer could be mistaken for a tag in an expression.
        if item.alias in names and item.term != ColumnItem(item.alias or ""):
            return f"the answer calls something else {item.alias}"
    return ""


def _fit_order(select: Select) -> tuple[Order, ...] | Declined:
    found = []
    for key in select.order:
        item = _find_item(select, key)
        if item is None:
            return Declined("it is ordered by something that is not in its result")
        found.append(Order(item, key.is_descending, key.nulls_first))
    return tuple(found)


def _find_item(select: Select, key: OrderKey) -> int | None:
    if (number := number_of(key.tokens)) is not None:
        return number - 1 if 1 <= number <= len(select.items) else None
    if isinstance(key.term, Declined):
        return None
    if isinstance(key.term, ColumnItem):
        for at, item in enumerate(select.items):
            if item.alias == key.term.name:
                return at
    return next((at for at, item in enumerate(select.items) if item.term == key.term), None)


def _fit_where(select: Select, table: TableInfo, zone: str) -> Condition | Declined | None:
    parts: list[Condition] = []
    for wanted in select.where:
        part = wanted.plain
        if part is None or fit_condition(part, table, zone) is None:
            part = select.expression(wanted)
            if part is None or tags_in(part, table) is None:
                return Declined(wanted.reason)
        parts.append(part)
    return joined_by_and(parts)


def _fit_filter(where: Condition | None, table: TableInfo, zone: str) -> Node | None:
    plain = joined_by_and([part for part in conjuncts(where) if not isinstance(part, TagExpression)])
    return None if plain is None else fit_condition(plain, table, zone)


def tags_in(expression: TagExpression, table: TableInfo) -> tuple[str, ...] | None:
    """Return the tags that an expression is of; None if it is of anything else."""
    found = tags_of(expression, table.by_name, table.primary_key)
    return found if found and all(_is_plain(table.by_name[name].type.arrow) for name in found) else None


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether comparing a tag of a type with a literal means the same in every table."""
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _name_of(key: ColumnItem | TagExpression) -> str:
    return key.name if isinstance(key, ColumnItem) else f"({key.text})"


def _answer(term: Term, tags: tuple[str, ...], buckets: list[Bucket], table: TableInfo) -> AnswerColumn | Declined:
    if isinstance(term, Declined):
        return term
    if isinstance(term, ColumnItem):
        is_key = term.name in tags
        return (
            KeyColumn(tags.index(term.name)) if is_key else Declined(f"{term.name} is in the result but is not a key")
        )
    if isinstance(term, TagExpression):
        name = _name_of(term)
        return KeyColumn(tags.index(name)) if name in tags else Declined(term.reason)
    if isinstance(term, Bucket):
        return BucketColumn() if term in buckets else Declined("a bucket of time is in the result but is not a key")
    reason = _why_not_aggregate(term, table)
    return Declined(reason) if reason else term


def _why_not_aggregate(term: Aggregate, table: TableInfo) -> str:
    if term.column is None:
        return ""
    column = table.by_name.get(term.column)
    if column is None:
        return f"there is no column {term.column}"
    if column.semantic is Semantic.TAG:
        return f"{term.function} is of the tag {term.column}"
    if term.order is not None and term.order != table.time_index.name:
        return f"{term.function} is ordered by something else than time"
    if term.function in ("first_value", "last_value"):
        return ""
    kind = column.type.arrow
    is_number = pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)
    if term.function == "median":
        is_known = pa.types.is_integer(kind) or pa.types.is_float64(kind)
    else:
        is_known = is_number or (term.function in ("count", "min", "max") and pa.types.is_timestamp(kind))
    return "" if is_known else f"{term.function} is of a column of type {column.type.name}"


def _run_query(
    tags: tuple[str, ...], placed: PlacedBucket | None, columns: Sequence[AnswerColumn], table: TableInfo
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
        else:
            states.setdefault(term.column, {}).update(dict.fromkeys(_STATES[term.function]))
            if term.function == "sum" and table.by_name[term.column].type.arrow in (pa.int64(), pa.uint64()):
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


def _medians(columns: Sequence[AnswerColumn]) -> Iterator[str]:
    for term in columns:
        if isinstance(term, Aggregate) and term.function == "median" and term.column is not None:
            yield term.column

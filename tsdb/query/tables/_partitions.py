"""Which regions of a partitioned table can hold rows that match a filter.

A table is divided by rules over some of its columns. A filter that bounds these columns, by comparisons with literals
or lists of values, leaves out every region whose rule cannot hold within the bounds. Of the columns, tags of text and
integers are considered, and fields of text. The type of a field can be changed, and its values then compare in another
order than when they were written; a field of text was always one if the rules compare it with a text that is no time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from math import prod
from typing import Any

import pyarrow as pa

from tsdb.engine.reading import Call, Conditions, Constant, Node, Ref, RegionReader, RowFilter, TagIs, TagMatch, as_node
from tsdb.errors import InvalidArguments
from tsdb.model import PartitionRule, RegionId, Semantic, TableInfo

_COMBINATIONS_MAX = 256
"""Lists of values of several columns are combined; beyond this, a list counts as the range from its least value on."""

_LESS, _GREATER = frozenset({"less", "less_equal"}), frozenset({"greater", "greater_equal"})
_FLIPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}

Kinds = dict[str, pa.DataType]
Interval = tuple[Any, Any]
"""A least and a greatest value, both included; None where there is none."""


def matching_regions(table: TableInfo, filter: RowFilter) -> tuple[RegionId, ...]:
    """Return the regions of a table that stores its rows in which a row can match; always at least one."""
    ids = table.region_ids
    rule = None if filter is None else _rule_of(table)
    if rule is None:
        return ids
    found = _regions_within(rule, _bounds_of(_kinds(table, rule), filter))
    return tuple(ids[number] for number in sorted(found)) or ids[:1]


def _rule_of(table: TableInfo) -> PartitionRule | None:
    try:
        return table.partition_rule
    except InvalidArguments:
        # The type of a column was changed to one that the rules do not fit.
        return None


def _kinds(table: TableInfo, rule: PartitionRule) -> Kinds:
    """Return the columns whose values compare as they did when they were written."""
    columns = [table.by_name[name] for name in table.partition_columns]
    return {
        column.name: column.type.arrow
        for column in columns
        if (column.semantic is Semantic.TAG and (column.type.is_string or column.type.is_integer))
        or (column.semantic is Semantic.FIELD and column.type.is_string and _is_text(rule.boundaries(column.name)))
    }


def _is_text(boundaries: Sequence[Any]) -> bool:
    """Return whether one of the values that rules compare a column with is a text and no time."""
    return any(isinstance(each, str) and not _is_time(each) for each in boundaries)


def _is_time(text: str) -> bool:
    for kind in (pa.timestamp("ns"), pa.timestamp("s"), pa.date32()):
        with suppress(pa.ArrowInvalid):
            pa.array([text]).cast(kind)
            return True
    return False


def _regions_within(rule: PartitionRule, bounds: dict[str, list[Interval]]) -> set[int]:
    if prod(len(intervals) for intervals in bounds.values()) > _COMBINATIONS_MAX:
        bounds = {name: [_hull(intervals)] for name, intervals in bounds.items()}
    return {
        number for chosen in product(*bounds.values()) for number in rule.prune(dict(zip(bounds, chosen, strict=True)))
    }


def _bounds_of(kinds: Kinds, filter: RowFilter) -> dict[str, list[Interval]]:
    """Return for each column in which intervals its values lie, as far as the filter says."""
    bounds: dict[str, list[Interval]] = {}
    for name, intervals in _conditions(filter, kinds):
        known = bounds.get(name)
        bounds[name] = (
            intervals
            if known is None
            else [both for one in known for other in intervals if (both := _intersection(one, other)) is not None]
        )
    return bounds


def _conditions(filter: RowFilter, kinds: Kinds) -> Iterator[tuple[str, list[Interval]]]:
    """Yield what must all hold of a column."""
    rest: Node | None
    if isinstance(filter, Conditions):
        for check in filter.tags:
            if isinstance(check, TagIs) and check.tag in kinds:
                yield check.tag, [(value, value) for value in check.values]
            elif isinstance(check, TagMatch) and check.matcher.name in kinds:
                matcher = check.matcher
                if matcher.op == "=" and matcher.value and pa.types.is_string(kinds[matcher.name]):
                    yield matcher.name, [(matcher.value, matcher.value)]
        rest = as_node(filter.rest)
    else:
        rest = as_node(filter)
    nodes = [] if rest is None else [rest]
    while nodes:
        node = nodes.pop()
        if isinstance(node, Call) and node.function in ("and", "and_kleene"):
            nodes += node.arguments
        elif (found := _intervals(node, kinds)) is not None:
            yield found


def _intervals(node: Node, kinds: Kinds) -> tuple[str, list[Interval]] | None:
    """Return the column that a condition is about and the intervals it leaves; None if it says nothing of that kind."""
    if not isinstance(node, Call):
        return None
    if node.function in ("or", "or_kleene"):
        sides = [_intervals(each, kinds) for each in node.arguments]
        names = {None if side is None else side[0] for side in sides}
        if len(names) != 1 or None in names:
            return None
        return sides[0][0], [each for side in sides if side is not None for each in side[1]]  # type: ignore[index]
    if node.function == "is_in":
        return _list_of(node, kinds)
    return _comparison(node, kinds)


def _list_of(node: Call, kinds: Kinds) -> tuple[str, list[Interval]] | None:
    (column,) = node.arguments
    if not isinstance(column, Ref) or column.name not in kinds or node.options is None:
        return None
    listed = node.options["value_set"].values
    if listed.type != kinds[column.name]:
        return None
    return column.name, [(value, value) for value in listed.to_pylist() if value is not None]


def _comparison(node: Call, kinds: Kinds) -> tuple[str, list[Interval]] | None:
    if len(node.arguments) != 2:
        return None
    column, literal, function = *node.arguments, node.function
    if isinstance(column, Constant):
        column, literal, function = literal, column, _FLIPPED.get(function, function)
    if not isinstance(column, Ref) or not isinstance(literal, Constant) or column.name not in kinds:
        return None
    value = literal.value.as_py()
    if literal.value.type != kinds[column.name] or value is None:
        return None
    if function == "equal":
        return column.name, [(value, value)]
    if function in _LESS:
        return column.name, [(None, value)]
    return (column.name, [(value, None)]) if function in _GREATER else None


def _intersection(one: Interval, other: Interval) -> Interval | None:
    low = max((each for each in (one[0], other[0]) if each is not None), default=None)
    high = min((each for each in (one[1], other[1]) if each is not None), default=None)
    return None if low is not None and high is not None and low > high else (low, high)


def _hull(intervals: Sequence[Interval]) -> Interval:
    lows = [low for low, _ in intervals if low is not None]
    highs = [high for _, high in intervals if high is not None]
    is_bounded_below, is_bounded_above = len(lows) == len(intervals), len(highs) == len(intervals)
    return min(lows) if is_bounded_below else None, max(highs) if is_bounded_above else None


class TableRegions:
    """The regions of a table for one query: each is opened once, when rows in it can match. Thread-safe."""

    def __init__(self, table: TableInfo, open_reader: Callable[[RegionId], RegionReader]) -> None:
        """`table` is the one that stores the rows. Its only region is opened at once."""
        self._table = table
        self._open_reader = open_reader
        self._lock = threading.Lock()
        self._readers: dict[RegionId, RegionReader] = {}
        self._only = [self._open(table.region_ids[0])] if len(table.region_numbers) == 1 else None

    def __len__(self) -> int:
        return len(self._table.region_numbers)

    @property
    def opened(self) -> list[RegionReader]:
        """The readers that were needed so far."""
        return list(self._readers.values())

    def matching(self, filter: RowFilter) -> list[RegionReader]:
        """Return readers of the regions in which a row can match."""
        if self._only is not None:
            return self._only
        return [self._open(region) for region in matching_regions(self._table, filter)]

    def _open(self, region: RegionId) -> RegionReader:
        with self._lock:
            found = self._readers.get(region)
            if found is None:
                found = self._readers[region] = self._open_reader(region)
            return found

"""Groups of series by the values of some of their tags."""

from __future__ import annotations

import copy
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.engine.rows.series import Positions
from tsdb.engine.scan._filter import Evaluate
from tsdb.engine.scan._run_query import ComputedKey
from tsdb.model import SeriesTable

_KEYS_MAX = 16
_TABLE_SETS_MAX = 2
_NOTHING: Mapping[str, ComputedKey] = MappingProxyType({})
_known: weakref.WeakKeyDictionary[SeriesTable, OrderedDict[tuple[str, ...], list[_Known]]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """The groups of some tables, which it does not keep alive."""

    others: tuple[weakref.ref[SeriesTable], ...]
    """All tables but the first."""
    groups: Groups

    def is_of(self, tables: Sequence[SeriesTable]) -> bool:
        return len(tables) == len(self.others) + 1 and all(
            other() is table for other, table in zip(self.others, tables[1:], strict=True)
        )


def groups_of(
    keys: Sequence[str],
    tables: Sequence[SeriesTable],
    computed: Mapping[str, ComputedKey] = _NOTHING,
    evaluate: Evaluate | None = None,
) -> Groups:
    """Return the groups of tables; those of tables that live on, as the series of data files do, are remembered.

    For each key a table's groups take 8 bytes of a series, and no more than a few lists of keys are kept, each for a
    few sets of tables.
    """
    if computed:
        return Groups(keys, tables, computed, evaluate)
    if not keys:
        return OneGroup(tables)
    if not tables:
        return Groups(keys, tables)
    numbers = {id(table): number for number, table in enumerate(dict.fromkeys(tables))}
    distinct = list(dict.fromkeys(tables))
    wanted = tuple(keys)
    with _lock:
        known = _known.setdefault(tables[0], OrderedDict()).get(wanted, [])
        found = next((each.groups for each in known if each.is_of(distinct)), None)
    if found is None:
        found = Groups(keys, distinct)
        _remember(wanted, distinct, found)
    return found.for_tables([numbers[id(table)] for table in tables])


def _remember(keys: tuple[str, ...], tables: Sequence[SeriesTable], groups: Groups) -> None:
    own = _Known(tuple(weakref.ref(table) for table in tables[1:]), groups)
    with _lock:
        known = _known.setdefault(tables[0], OrderedDict())
        known[keys] = [own, *known.get(keys, ())][:_TABLE_SETS_MAX]
        known.move_to_end(keys)
        if len(known) > _KEYS_MAX:
            known.popitem(last=False)


@dataclass(frozen=True, slots=True, eq=False)
class GroupKeys:
    """The keys of groups, which are numbered in the order of their keys, nulls last."""

    count: int
    codes: Sequence[Positions] = ()
    """For each key, the rank of every group's value among all values of that key."""
    values: Sequence[pa.Array] = ()
    """For each key, its distinct values in order; null, if there is one, is the last."""

    def key(self, at: int, groups: Positions) -> pa.Array:
        """Return the value of a key in some groups."""
        values, codes = self.values[at], self.codes[at][groups]
        if len(codes) == len(values) and bool((codes[1:] > codes[:-1]).all()):
            return values
        return values.take(pa.array(codes))


class Groups:
    """The groups of the series of several tables."""

    def __init__(
        self,
        keys: Sequence[str],
        tables: Sequence[SeriesTable],
        computed: Mapping[str, ComputedKey] = _NOTHING,
        evaluate: Evaluate | None = None,
    ) -> None:
        distinct, self._which = _distinct(tables)
        bounds = np.cumsum([0, *(len(table) for table in distinct)])
        columns = [_column(key, distinct, computed, evaluate) for key in keys] if bounds[-1] else []
        numbers, self.keys = _number(columns, int(bounds[-1]))
        self._numbers: list[Positions] = np.split(numbers, bounds[1:-1])

    def for_tables(self, which: list[int]) -> Groups:
        """Return the groups for tables each of which is one of those that these are of."""
        if len(which) == len(self._which):
            return self
        other = copy.copy(self)
        other._which = [self._which[number] for number in which]
        return other

    def of(self, table: int) -> Positions:
        """Return the group of every series of a table."""
        return self._numbers[self._which[table]]


class OneGroup(Groups):
    """All series in one group: without keys there is nothing to number."""

    def __init__(self, tables: Sequence[SeriesTable]) -> None:
        self._numbers = [np.zeros(len(table), dtype=np.int64) for table in tables]
        self._which = list(range(len(tables)))
        self.keys = GroupKeys(1 if any(len(table) for table in tables) else 0)


def merge_groups(parts: Sequence[GroupKeys]) -> tuple[GroupKeys, list[Positions]]:
    """Return the groups of several regions under new numbers, and the new number of every group of each region."""
    bounds = np.cumsum([0, *(part.count for part in parts)])
    columns = [
        pa.concat_arrays([part.key(at, np.arange(part.count)) for part in parts]) for at in range(len(parts[0].values))
    ]
    numbers, merged = _number(columns, int(bounds[-1]))
    return merged, np.split(numbers, bounds[1:-1])


def _column(
    key: str, tables: Sequence[SeriesTable], computed: Mapping[str, ComputedKey], evaluate: Evaluate | None
) -> pa.Array:
    def tag(name: str) -> pa.Array:
        return pa.concat_arrays([table.read_tags().column(name) for table in tables])

    found = computed.get(key)
    if found is None:
        return tag(key)
    assert evaluate is not None
    tags = pa.RecordBatch.from_arrays([tag(name) for name in found.names], names=list(found.names))
    return evaluate(found.number, tags)


def _number(columns: Sequence[pa.Array], rows: int) -> tuple[Positions, GroupKeys]:
    """Return the group of each row by its keys; without keys all rows are in one."""
    if not columns:
        return np.zeros(rows, dtype=np.int64), GroupKeys(1 if rows else 0)
    ranked = [_rank(column) for column in columns]
    numbers, count = ranked[0][0], len(ranked[0][1])
    for code, values in ranked[1:]:
        numbers, count = _densify(numbers * len(values) + code)
    first = np.zeros(count, dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return numbers, GroupKeys(count, [code[first] for code, _ in ranked], [values for _, values in ranked])


def _rank(column: pa.Array) -> tuple[Positions, pa.Array]:
    """Number the values of a key in their order; returns the distinct ones as well."""
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    order = pc.sort_indices(encoded.dictionary, sort_keys=[("", "ascending", "at_end")]).to_numpy()
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[encoded.indices.to_numpy()], encoded.dictionary.take(pa.array(order))


def _densify(codes: Positions) -> tuple[Positions, int]:
    """Number codes in their order, without gaps; numbers so never outgrow 64 bits, however many keys follow."""
    values, numbers = np.unique(codes, return_inverse=True)
    return numbers.astype(np.int64), len(values)


def _distinct(tables: Sequence[SeriesTable]) -> tuple[list[SeriesTable], list[int]]:
    """Find tables with the same series, the usual case of files of one region, by their hashes."""
    found: list[SeriesTable] = []
    which = []
    for table in tables:
        for number, known in enumerate(found):
            if known is table or (np.array_equal(known.tsid, table.tsid) and np.array_equal(known.check, table.check)):
                which.append(number)
                break
        else:
            which.append(len(found))
            found.append(table)
    return found, which

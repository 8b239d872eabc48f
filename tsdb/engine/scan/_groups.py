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
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.engine.scan._run_query import ComputedKey
from tsdb.engine.series import Positions
from tsdb.model import SeriesTable

_KEYS_MAX = 16
_COMPANIES_MAX = 2
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
    keys: Sequence[str], tables: Sequence[SeriesTable], computed: Mapping[str, ComputedKey] = _NOTHING
) -> Groups:
    """Return the groups of tables; those of tables that live on, as the series of data files do, are remembered.

    For each key a table's groups take 8 bytes of a series, and no more than a few lists of keys are kept, each for a
    few companies of tables.
    """
    if computed:
        return Groups(keys, tables, computed)
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
        known[keys] = [own, *known.get(keys, ())][:_COMPANIES_MAX]
        known.move_to_end(keys)
        if len(known) > _KEYS_MAX:
            known.popitem(last=False)


class Groups:
    """The groups of the series of several tables, numbered in the order of their keys, nulls last."""

    def __init__(
        self, keys: Sequence[str], tables: Sequence[SeriesTable], computed: Mapping[str, ComputedKey] = _NOTHING
    ) -> None:
        self._computed = computed
        distinct, which = _distinct(tables)
        self.codes: list[npt.NDArray[np.int64]] = []
        """For each key, the rank of every group's value among all values of that key."""
        self.values: list[pa.Array] = []
        """For each key, its distinct values in order; null, if there is one, is the last."""
        self._numbers, self.count = self._number(keys, distinct)
        self._which = which

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

    def key(self, at: int, groups: Positions) -> pa.Array:
        """Return the value of a key in some groups."""
        values, codes = self.values[at], self.codes[at][groups]
        if len(codes) == len(values) and bool((codes[1:] > codes[:-1]).all()):
            return values
        return values.take(pa.array(codes))

    def _number(self, keys: Sequence[str], tables: Sequence[SeriesTable]) -> tuple[list[Positions], int]:
        bounds = np.cumsum([0, *(len(table) for table in tables)])
        if not keys or not bounds[-1]:
            return [np.zeros(len(table), dtype=np.int64) for table in tables], 1 if bounds[-1] else 0
        codes = [self._rank(self._key_of_series(key, tables)) for key in keys]
        numbers = codes[0]
        count = len(self.values[0])
        if len(keys) > 1:
            for code, values in zip(codes[1:], self.values[1:], strict=True):
                numbers, count = _densify(numbers * len(values) + code)
        first = np.zeros(count, dtype=np.int64)
        first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
        self.codes = [code[first] for code in codes]
        return np.split(numbers, bounds[1:-1]), count

    def _key_of_series(self, key: str, tables: Sequence[SeriesTable]) -> pa.Array:
        def tag(name: str) -> pa.Array:
            return pa.concat_arrays([table.read_tags().column(name) for table in tables])

        found = self._computed.get(key)
        if found is None:
            return tag(key)
        return found.compute(pa.RecordBatch.from_arrays([tag(name) for name in found.names], names=found.names))

    def _rank(self, column: pa.Array) -> Positions:
        """Number the values of a key in their order, and keep them."""
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        order = pc.sort_indices(encoded.dictionary, sort_keys=[("", "ascending", "at_end")]).to_numpy()
        self.values.append(encoded.dictionary.take(pa.array(order)))
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order))
        codes: Positions = ranks[encoded.indices.to_numpy()]
        return codes


class OneGroup(Groups):
    """All series in one group: without keys there is nothing to number."""

    def __init__(self, tables: Sequence[SeriesTable]) -> None:
        self._computed = _NOTHING
        self.codes = []
        self.values = []
        self._numbers = [np.zeros(len(table), dtype=np.int64) for table in tables]
        self._which = list(range(len(tables)))
        self.count = 1 if any(len(table) for table in tables) else 0


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

"""The labels of many series, column by column.

A column has a code for each series and the values that codes stand for; code 0 is always the empty text, which is the
same as not having the label. Values of a column are distinct, so equal codes are equal labels. Grouping, matching and
ordering of series work on codes; texts are made for the answer only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.promql._lexer import go_quote

NAME = "__name__"
METADATA = (NAME, "__type__", "__unit__")
"""Labels that a series loses when a function changes its values."""

Codes = npt.NDArray[np.int64]
_KEY_MAX = 1 << 62
THINNED_MAX = 4
"""In how many ways a table without some of its labels is kept, for as long as the table is."""


class LabelValues(tuple[str, ...]):
    """The distinct values of a label; what is made of all of them is made once, however many columns share them."""

    @cached_property
    def arrow(self) -> pa.Array:
        return pa.array(self, pa.string())

    @cached_property
    def ranks(self) -> Codes:
        """For each value its place among all in order."""
        order = sorted(range(len(self)), key=self.__getitem__)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank


_NONE = LabelValues(("",))


@dataclass(frozen=True, slots=True, eq=False)
class LabelColumn:
    """One label of all series."""

    codes: Codes
    values: LabelValues

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> LabelColumn:
        found: dict[str, int] = {"": 0}
        codes = np.fromiter((found.setdefault(text, len(found)) for text in texts), np.int64, len(texts))
        return cls(codes, LabelValues(found))

    @classmethod
    def of_arrow(cls, column: pa.Array) -> LabelColumn:
        """Take a column of strings; null is empty."""
        if pa.types.is_dictionary(column.type) and len(column.dictionary) > len(column):
            # A few series of many: what the others are called does not matter.
            column = column.dictionary_decode()
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        found: dict[str, int] = {"": 0}
        # The last slot is that of nulls.
        places = [found.setdefault(text or "", len(found)) for text in encoded.dictionary.to_pylist()] + [0]
        codes = np.array(places, np.int64)[encoded.indices.fill_null(len(places) - 1).to_numpy(zero_copy_only=False)]
        return cls(codes, LabelValues(found))

    @classmethod
    def constant(cls, text: str, rows: int) -> LabelColumn:
        if not text:
            return cls(np.zeros(rows, np.int64), _NONE)
        return cls(np.ones(rows, np.int64), LabelValues(("", text)))

    def take(self, positions: npt.NDArray[np.intp]) -> LabelColumn:
        return LabelColumn(self.codes[positions], self.values)

    @property
    def is_constant(self) -> bool:
        return len(self.values) == 1 or not len(self.codes) or bool((self.codes == self.codes[0]).all())

    def texts(self) -> list[str]:
        values = self.values
        return [values[code] for code in self.codes.tolist()]

    def ranks(self) -> Codes:
        """Return for each series the place of its value among all in order."""
        return self.values.ranks[self.codes]


@dataclass(frozen=True, slots=True, eq=False)
class LabelTable:
    """The labels of `rows` series."""

    rows: int
    columns: Mapping[str, LabelColumn]
    is_ordered: bool = False
    """Known to be in the order of labels, no two of them alike."""
    written: dict[str, pa.Array] = field(default_factory=dict, repr=False)
    """Cache of the labels as texts, by the form of the text."""
    thinned: dict[tuple[str, ...], LabelTable] = field(default_factory=dict, repr=False)
    """Cache of the same series without some labels."""

    @classmethod
    def of_dicts(cls, labels: Sequence[Mapping[str, str]]) -> LabelTable:
        names = sorted({name for each in labels for name in each})
        columns = {name: LabelColumn.of_texts([each.get(name, "") for each in labels]) for name in names}
        return cls(len(labels), columns)

    @classmethod
    def empty(cls, rows: int) -> LabelTable:
        return cls(rows, {})

    def take(self, positions: npt.NDArray[np.intp]) -> LabelTable:
        return LabelTable(len(positions), {name: column.take(positions) for name, column in self.columns.items()})

    def thin(self, positions: npt.NDArray[np.intp]) -> LabelTable:
        """Return some of the series, in the order in which they are."""
        return replace(self.take(positions), is_ordered=self.is_ordered)

    def without(self, names: Iterable[str]) -> LabelTable:
        gone = tuple(name for name in names if name in self.columns)
        if not gone:
            return self
        found = self.thinned.get(gone)
        if found is None:
            found = self._without(gone)
            if len(self.thinned) < THINNED_MAX:
                self.thinned[gone] = found
        return found

    def _without(self, gone: Sequence[str]) -> LabelTable:
        # A label with the same value in all series does not distinguish them.
        is_ordered = self.is_ordered and all(self.columns[name].is_constant for name in gone)
        kept = {name: each for name, each in self.columns.items() if name not in gone}
        return LabelTable(self.rows, kept, is_ordered)

    def keep(self, names: Iterable[str]) -> LabelTable:
        wanted = set(names)
        return LabelTable(self.rows, {name: each for name, each in self.columns.items() if name in wanted})

    def with_column(self, name: str, column: LabelColumn) -> LabelTable:
        return LabelTable(self.rows, {**self.columns, name: column})

    def column(self, name: str) -> LabelColumn:
        return self.columns.get(name) or LabelColumn.constant("", self.rows)

    def dropping(self, names: Sequence[str], where: npt.NDArray[np.bool_]) -> LabelTable:
        """Return the table with some labels empty in some series."""
        if not where.any():
            return self
        if where.all():
            return self.without(names)
        columns = dict(self.columns)
        for name in names:
            if name in columns:
                columns[name] = LabelColumn(np.where(where, 0, columns[name].codes), columns[name].values)
        return LabelTable(self.rows, columns)

    def group(self, names: Iterable[str] | None = None) -> tuple[Codes, Codes]:
        """Return for each series the number of its group, in order of appearance, and the first series of each group.

        Series are in one group when they have the same values of the labels `names`; None means all labels.
        """
        if names is None and self.is_ordered:
            alone = np.arange(self.rows, dtype=np.int64)
            return alone, alone
        wanted = self.columns.values() if names is None else [self.columns[n] for n in names if n in self.columns]
        key = np.zeros(self.rows, np.int64)
        size = 1
        for column in wanted:
            if len(column.values) == 1:
                continue
            if size * len(column.values) >= _KEY_MAX:
                _, key = np.unique(key, return_inverse=True)
                size = self.rows
            key = key * len(column.values) + column.codes
            size *= len(column.values)
        if self.rows < 2 or (key[1:] > key[:-1]).all():
            alone = np.arange(self.rows, dtype=np.int64)
            return alone, alone
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return place[inverse.reshape(-1)], first[order].astype(np.int64)

    def order(self) -> npt.NDArray[np.intp]:
        """Return the series in the order of their labels: pair by pair, name, then value; the shorter first."""
        if self.is_ordered:
            return np.arange(self.rows)
        keys: list[Codes] = []
        key, size = np.zeros(self.rows, np.int64), 1
        is_last = np.ones(self.rows, np.bool_)
        for name in sorted(self.columns, reverse=True):
            column = self.columns[name]
            if not column.codes.any():
                continue
            ranks, count = column.ranks(), len(column.values) + 2
            has = column.codes != 0
            # Who lacks the label has a later one in its place, which is larger, unless nothing follows at all.
            place = ranks if has.all() else np.where(has, ranks, np.where(is_last, 0, count - 1))
            is_last &= ~has
            if size * count >= _KEY_MAX:
                keys.append(key)
                key, size = place, count
            else:
                key, size = place * size + key, size * count
        keys.append(key)
        if len(keys) > 1:
            return np.lexsort(keys)
        is_ordered = (key[1:] >= key[:-1]).all()
        return np.arange(self.rows) if is_ordered else np.argsort(key, kind="stable")

    def dicts(self) -> list[dict[str, str]]:
        """Return the labels of each series, without empty ones, by name."""
        out: list[dict[str, str]] = [{} for _ in range(self.rows)]
        for name in sorted(self.columns):
            column = self.columns[name]
            for row, code in enumerate(column.codes.tolist()):
                if code:
                    out[row][name] = column.values[code]
        return out

    def row(self, position: int) -> dict[str, str]:
        return self.take(np.array([position], np.intp)).dicts()[0]


def concat_labels(tables: Sequence[LabelTable], names: Iterable[str] | None = None) -> LabelTable:
    """Put the series of several tables one behind the other, with some of their labels or with all."""
    if len(tables) == 1:
        return tables[0] if names is None else tables[0].keep(names)
    rows = sum(table.rows for table in tables)
    wanted = {name: None for table in tables for name in table.columns} if names is None else dict.fromkeys(names)
    columns: dict[str, LabelColumn] = {}
    for name in wanted:
        parts = [table.columns.get(name) for table in tables]
        if any(part is not None for part in parts):
            columns[name] = _concat_columns(parts, tables)
    return LabelTable(rows, columns)


def _concat_columns(parts: Sequence[LabelColumn | None], tables: Sequence[LabelTable]) -> LabelColumn:
    first = parts[0]
    if first is not None and all(part is not None and part.values is first.values for part in parts):
        return LabelColumn(np.concatenate([part.codes for part in parts if part is not None]), first.values)
    found: dict[str, int] = {"": 0}
    codes = []
    for part, table in zip(parts, tables, strict=True):
        if part is None:
            codes.append(np.zeros(table.rows, np.int64))
            continue
        places = np.array([found.setdefault(value, len(found)) for value in part.values], np.int64)
        codes.append(places[part.codes])
    return LabelColumn(np.concatenate(codes), LabelValues(found))


def format_labels(labels: Mapping[str, str]) -> str:
    """Return labels as messages show them: `{a="b", c="d"}`."""
    return "{" + ", ".join(f"{name}={go_quote(value)}" for name, value in sorted(labels.items())) + "}"

"""What a region should show, as plain dictionaries, and what it shows."""

from __future__ import annotations

import copy
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.engine.harness import REGION, Row
from tests.engine.reads import newest_rows
from tsdb.clock import ManualClock
from tsdb.engine import Engine
from tsdb.engine.reading import SeriesRequest
from tsdb.model import MergeMode, RegionOptions, TimeRange, cast_or_null

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
NS = 1_000_000_000
Key = tuple[Any, ...]
Cell = tuple[pa.DataType, Any]
"""A value in the type that it was written in."""
Rows = dict[Key, list[dict[str, Cell]]]


@dataclass
class Model:
    """What the region should show."""

    options: RegionOptions
    tags: list[str]
    kinds: dict[str, pa.DataType]
    """Each field with its type of now."""
    clock: ManualClock
    ticks_per_second: int
    rows: Rows = field(default_factory=dict)
    """All rows by key: one, or several in append mode. Those before `cutoff` are not visible, and may be gone."""
    flushed: Rows = field(default_factory=dict)
    """The same at the last flush."""
    older: Rows = field(default_factory=dict)
    """What the first row of a key is if some of the oldest versions that were merged to it are gone."""
    older_flushed: Rows = field(default_factory=dict)
    gone_before: int = INT64_MIN
    """Rows before this time may have been removed, the oldest versions of a key first."""

    @property
    def cutoff(self) -> int:
        """The time before which rows are past their time to live."""
        ttl = self.options.ttl
        return INT64_MIN if ttl is None else (self.clock.now_ns() - ttl) * self.ticks_per_second // NS

    @property
    def states(self) -> tuple[Rows, Rows, Rows, Rows]:
        return self.rows, self.flushed, self.older, self.older_flushed

    def key(self, row: Row) -> Key:
        return (*(row.get(tag) for tag in self.tags), row["ts"])

    def put(self, row: Row) -> None:
        full = {name: (kind, row.get(name)) for name, kind in self.kinds.items()}
        known = self.rows.setdefault(self.key(row), [])
        if self.options.append_mode:
            known.append(full)
        elif self.options.merge_mode is MergeMode.LAST_NON_NULL and known:
            older = self.older.setdefault(self.key(row), [])
            older[:] = [full, *(_merged(each, full) for each in older)]
            known[0] = _merged(known[0], full)
        else:
            known[:] = [full]

    def delete(self, row: Row) -> None:
        for rows in (self.rows, self.older):
            rows.pop(self.key(row), None)

    def delete_within(self, span: TimeRange) -> None:
        for rows in self.states:
            for key in [key for key in rows if span.start <= key[-1] < span.end]:
                del rows[key]

    def newest(self) -> list[list[Row]]:
        """The visible rows of the latest time of every series: one, or several in append mode."""
        latest: dict[Key, Key] = {}
        for key in self.rows:
            latest[key[:-1]] = max(latest.get(key[:-1], key), key, key=lambda each: each[-1])
        seen = [key for key in latest.values() if key[-1] >= self.cutoff]
        return [[self.show(key, row) for row in self.rows[key]] for key in seen]

    def flush(self) -> None:
        self.flushed, self.older_flushed = copy.deepcopy((self.rows, self.older))

    def discard_unflushed(self) -> None:
        self.rows, self.older = copy.deepcopy((self.flushed, self.older_flushed))

    def let_expired_go(self) -> None:
        """Whatever has expired may be removed now."""
        self.gone_before = max(self.gone_before, self.cutoff)

    def come_back(self, before: int, found: list[Row]) -> None:
        """Rows before a time may have come back, by a longer time to live: find out which, when all is flushed.

        Each is as it was, or gone; what was merged from several versions may have lost the oldest ones.
        """
        seen = defaultdict(list)
        for row in found:
            seen[self.key(row)].append(comparable([row])[0])
        for key in [key for key in self.rows if self.cutoff <= key[-1] < min(before, self.gone_before)]:
            self.rows[key] = self._left(key, seen[key])
            if not self.rows[key]:
                self.delete(dict(zip((*self.tags, "ts"), key, strict=True)))
        self.gone_before = min(self.gone_before, self.cutoff)
        self.flush()

    def _left(self, key: Key, seen: list[Any]) -> list[dict[str, Cell]]:
        """Return which rows of a key are left."""
        first, *others = self.rows[key]
        left = []
        for number, row in enumerate((first, *self.older.get(key, []), *others)):
            is_version = 0 < number <= len(self.older.get(key, []))
            shown = comparable([self.show(key, row)])[0]
            if shown in seen and not (is_version and left):
                seen.remove(shown)
                left.append(row)
        return left

    def clear(self) -> None:
        for rows in self.states:
            rows.clear()

    def everything(self) -> Iterator[dict[str, Cell]]:
        """All rows, of now and of the last flush: for changes of columns."""
        return itertools.chain.from_iterable(itertools.chain.from_iterable(rows.values() for rows in self.states))

    def visible(self) -> list[Row]:
        cutoff = self.cutoff
        return [self.show(key, row) for key, rows in self.rows.items() if key[-1] >= cutoff for row in rows]

    def show(self, key: Key, row: dict[str, Cell]) -> Row:
        return {
            **dict(zip((*self.tags, "ts"), key, strict=True)),
            **{name: shown(cell, self.kinds[name]) for name, cell in row.items()},
        }


def _merged(old: dict[str, Cell], new: dict[str, Cell]) -> dict[str, Cell]:
    return {name: cell if cell[1] is not None else old[name] for name, cell in new.items()}


def shown(cell: Cell, kind: pa.DataType) -> Any:
    """What a stored value looks like in another type."""
    return cast_or_null(pa.array([cell[1]], cell[0]), kind)[0].as_py()


def comparable(rows: list[Row]) -> list[tuple[Any, ...]]:
    """Rows in an order of their own, NaN equal to NaN, -0.0 different from 0.0."""

    def cell(value: Any) -> tuple[str, str]:
        if isinstance(value, float):
            return "number", value.hex() if not math.isnan(value) else "nan"
        if isinstance(value, int):
            return "number", float(value).hex() if abs(value) < 1 << 53 else str(value)
        return type(value).__name__, str(value)

    return sorted(tuple(sorted((name, *cell(value)) for name, value in row.items())) for row in rows)


def read_series(engine: Engine) -> list[Row]:
    """Return every visible row, series by series."""
    reader = engine.open_reader(REGION)
    names = [column.name for column in reader.schema.fields]
    found = reader.series(SeriesRequest(None, TimeRange.ALL, names))
    rows = []
    for tags, start, stop in zip(found.tags.to_pylist(), found.offsets, found.offsets[1:], strict=False):
        times = found.times[start:stop].tolist()
        assert times == sorted(times)
        rows += [
            {**tags, "ts": times[at - start], **{name: found.fields[name][at].as_py() for name in names}}
            for at in range(start, stop)
        ]
    return rows


def read_newest(engine: Engine) -> list[Row]:
    """Return the newest row of every series."""
    snapshot = engine.snapshot(REGION)
    batch = newest_rows(snapshot, None, [column.name for column in snapshot.schema.columns])
    times = batch.column("ts").cast(pa.int64()).to_pylist()
    others = batch.drop_columns(["ts"]).to_pylist()
    return [{**row, "ts": at} for row, at in zip(others, times, strict=True)]

"""Small regions for the tests of scans: written rows as plain Python, sources made of them, and what should be read."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tsdb.engine.rows.run import Rows, Run, sort_rows
from tsdb.engine.scan import Snapshot
from tsdb.model import Batch, MergeMode, OpType, RegionOptions, RegionSchema, Semantic

TAGS = ("host", "zone")
FIELDS = ("v", "n", "s", "b")
MODES = (
    RegionOptions(),
    RegionOptions(merge_mode=MergeMode.LAST_NON_NULL),
    RegionOptions(append_mode=True),
)

Row = dict[str, Any]


def make_schema(unit: str = "ms") -> RegionSchema:
    return RegionSchema.create(
        [
            ("host", pa.string(), Semantic.TAG),
            ("v", pa.float64(), Semantic.FIELD),
            ("ts", pa.timestamp(unit), Semantic.TIMESTAMP),
            ("zone", pa.int64(), Semantic.TAG),
            ("n", pa.int64(), Semantic.FIELD),
            ("s", pa.string(), Semantic.FIELD),
            ("b", pa.bool_(), Semantic.FIELD),
        ]
    )


@dataclass
class Write:
    """Rows that were written together."""

    rows: list[Row]
    op: OpType = OpType.PUT
    source: int = 0
    """Which source they are in."""


@dataclass
class Region:
    """Writes in the order of their sequences."""

    writes: list[Write]
    options: RegionOptions = field(default_factory=RegionOptions)
    unit: str = "ms"
    ttl_cutoff: int | None = None

    @property
    def schema(self) -> RegionSchema:
        return make_schema(self.unit)

    def sources(self) -> tuple[Run, ...]:
        schema = self.schema
        pieces: dict[int, list[Rows]] = {}
        sequence = 1
        for write in self.writes:
            if write.rows:
                pieces.setdefault(write.source, []).append(to_rows(schema, write, sequence))
            sequence += len(write.rows)
        drops = not self.options.append_mode and self.options.merge_mode is MergeMode.LAST_ROW
        return tuple(sort_rows(schema, each, drop_overwritten=drops) for each in pieces.values())

    def snapshot(self, **limits: Any) -> Snapshot:
        return Snapshot(self.schema, self.options, self.sources(), ttl_cutoff=self.ttl_cutoff, **limits)

    def visible(self) -> list[Row]:
        """Say what a reader must see, with a dictionary."""
        rows: list[Row] = []
        keys: dict[tuple[Any, ...], list[tuple[OpType, Row]]] = {}
        for write in self.writes:
            for row in write.rows:
                keys.setdefault((row["host"], row["zone"], row["ts"]), []).append((write.op, row))
        for versions in keys.values():
            rows.extend(self._merge(versions))
        return [row for row in rows if self.ttl_cutoff is None or row["ts"] >= self.ttl_cutoff]

    def _merge(self, versions: list[tuple[OpType, Row]]) -> list[Row]:
        if self.options.append_mode:
            return [row for op, row in versions if op is OpType.PUT]
        if versions[-1][0] is OpType.DELETE:
            return []
        if self.options.merge_mode is MergeMode.LAST_ROW:
            return [versions[-1][1]]
        merged = dict(versions[-1][1])
        for op, row in reversed(versions):
            if op is OpType.DELETE:
                break
            for name in FIELDS:
                merged[name] = row[name] if merged[name] is None else merged[name]
        return [merged]


def to_rows(schema: RegionSchema, write: Write, sequence: int) -> Rows:
    """Turn a write into what a memtable keeps of it."""
    columns = [
        pa.array([row[column.name] for row in write.rows], pa.int64()).view(column.type)
        if column is schema.time
        else pa.array([row[column.name] for row in write.rows], column.type)
        for column in schema.columns
    ]
    data = pa.RecordBatch.from_arrays(columns, schema=schema.arrow)
    batch = Batch.from_arrow(schema, data, write.op)
    fields = {schema.by_name[name].id: values for name, values in batch.fields.items()}
    sequences = np.arange(sequence, sequence + batch.rows, dtype=np.uint64)
    return Rows(batch.series, batch.series_index, batch.times, sequences, batch.op, fields)


def row(host: str | None, ts: int, v: float | None = None, **values: Any) -> Row:
    return {"host": host, "zone": None, "ts": ts, "v": v, "n": None, "s": None, "b": None, **values}


def put(*rows: Row, source: int = 0) -> Write:
    return Write(list(rows), OpType.PUT, source)


def delete(*rows: Row, source: int = 0) -> Write:
    return Write(list(rows), OpType.DELETE, source)


def plain(value: Any) -> Any:
    """Make values comparable: a float by its bits, a timestamp by its number."""
    return struct.pack("=d", value) if isinstance(value, float) else value


def bag(rows: Iterable[Row], names: Sequence[str]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(plain(row[name]) for name in names) for row in rows)


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    found: list[Row] = []
    for batch in batches:
        columns = [_to_list(column) for column in batch.columns]
        names = batch.schema.names
        found.extend(dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
        if not names:
            found.extend({} for _ in range(batch.num_rows))
    return found


def _to_list(column: pa.Array) -> list[Any]:
    values: list[Any] = (column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


HOSTS = st.sampled_from(["a", "b", "c", "", "ä", None])
ZONES = st.sampled_from([1, 2, None])
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -1.5, 7.0, float("inf"), float("-inf"), float("nan"), None])
TIMES = st.integers(-3, 12) | st.sampled_from([-(2**63), -(2**63) + 1, 2**63 - 2, 2**63 - 1])


def rows_strategy() -> st.SearchStrategy[Row]:
    return st.fixed_dictionaries(
        {
            "host": HOSTS,
            "zone": ZONES,
            "ts": TIMES,
            "v": FLOATS,
            "n": st.sampled_from([None, 0, 3, 5]),
            "s": st.sampled_from([None, "a", "x", ""]),
            "b": st.sampled_from([None, True, False]),
        }
    )


@st.composite
def regions(draw: st.DrawFn) -> Region:
    options = draw(st.sampled_from(MODES))
    ops = st.just(OpType.PUT) if options.append_mode else st.sampled_from([OpType.PUT, OpType.PUT, OpType.DELETE])
    writes = st.builds(Write, st.lists(rows_strategy(), max_size=8), ops, st.integers(0, 3))
    return Region(
        draw(st.lists(writes, max_size=6)),
        options,
        draw(st.sampled_from(["s", "ms", "us", "ns"])),
        draw(st.sampled_from([None, None, None, 2])),
    )


@st.composite
def late_regions(draw: st.DrawFn) -> Region:
    """Regions of writers that are not in step: rows come late, some twice, some are deleted again."""
    options = draw(st.sampled_from(MODES))
    lags = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
    hosts, steps = draw(st.integers(1, 4)), draw(st.integers(1, 16))
    arrivals = [(step + lags[step % len(lags)], host, step) for step in range(steps) for host in range(hosts)]
    known = st.sampled_from(arrivals)
    again = draw(st.lists(st.tuples(known, st.integers(0, 12)), max_size=4))
    gone = [] if options.append_mode else draw(st.lists(st.tuples(known, st.integers(0, 12)), max_size=3))
    events = [(arrival, OpType.PUT, host, step) for arrival, host, step in arrivals]
    events += [(arrival + later, OpType.PUT, host, step) for (arrival, host, step), later in again]
    events += [(arrival + later, OpType.DELETE, host, step) for (arrival, host, step), later in gone]
    period = draw(st.integers(3, 12))
    writes = [
        Write([row("abcd"[host], step, float(number), n=number if number % 3 else None)], op, arrival // period)
        for number, (arrival, op, host, step) in enumerate(sorted(events, key=lambda event: event[0]))
    ]
    return Region(writes, options)

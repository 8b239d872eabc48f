"""The engine against a dictionary: whatever happens to a region, reads are exactly the last writes.

A Hypothesis state machine puts, deletes, flushes, compacts, alters, truncates and restarts in any order, and compares
all visible rows with a plain model after every step.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.engine.harness import OPTIONS, REGION, WAL_OPTIONS, Row, create, delete, open_engine, put, read, scan
from tests.engine.memory_log import Disk, MemoryLog
from tests.engine.reads import count_rows, newest_rows, scan_batches
from tsdb.engine import Engine, StrictWindows, TreeOptions
from tsdb.engine.compaction import Pick, is_closed
from tsdb.engine.log.shared import Acknowledge, SharedSettings, open_shared_log
from tsdb.engine.manifest import FileMeta
from tsdb.engine.reading import SeriesRequest
from tsdb.engine.region.compact import install_job, write_job
from tsdb.engine.region.compact_plan import make_job
from tsdb.engine.region.flush_plan import stored_schema
from tsdb.engine.tuning import EngineTuning, MemtableTuning, ScanTuning
from tsdb.engine.wal import Wal
from tsdb.errors import InvalidArguments
from tsdb.ids import SeededIds
from tsdb.model import (
    AddColumn,
    DropColumn,
    MemtableKind,
    MergeMode,
    RegionOptions,
    RegionSchema,
    RenameColumn,
    RetypeColumn,
    Semantic,
    TimeRange,
    WidenColumn,
    can_widen,
    cast_or_null,
)
from tsdb.store import MemoryStore
from tsdb.units import Duration

EXAMPLES = int(os.environ.get("TSDB_MODEL_EXAMPLES", "40"))
STEPS = 25
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
_DAY_MS = 86_400_000

HOSTS = st.sampled_from([None, "", "a", "b", "ä\u0000ö", "zz"])
FLOATS = st.sampled_from([None, 0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308])
INTS = st.sampled_from([None, 0, -1, 7, (1 << 31) - 1, -(1 << 31)])
TEXTS = st.sampled_from([None, "", "7", "-1.5", "true", "300", "ä\u0000ö", "1970-01-02"])
VALUES = {
    pa.int8(): st.sampled_from([None, 0, -1, 127]),
    pa.int32(): INTS,
    pa.int64(): INTS | st.just((1 << 53) + 1),
    pa.float64(): FLOATS,
    pa.bool_(): st.sampled_from([None, True, False]),
    pa.string(): TEXTS,
}
TIMES = st.one_of(
    st.integers(0, 3),
    st.sampled_from([0, _DAY_MS - 1, _DAY_MS, 40 * _DAY_MS, -1, -_DAY_MS, INT64_MIN, INT64_MIN + 1, INT64_MAX]),
)
SMALL = replace(
    OPTIONS,
    tuning=EngineTuning(
        memtable=MemtableTuning(freeze_rows=4, tier_runs=3, runs_max=4),
        scan=ScanTuning(cut_rows_min=-1000, split_rows_min=1, partition_rows_min=4),
    ),
)
"""Few enough raw rows for runs and tiers to be made, and for every cut between what sources contest."""
SMALL_TREE = replace(SMALL, memtable_type=MemtableKind.PARTITION_TREE, tree=TreeOptions(shard_keys=2, freeze_rows=3))
"""The same with compressed rows, in many shards."""
Key = tuple[Any, ...]
Cell = tuple[pa.DataType, Any]
"""A value in the type that it was written in."""


@dataclass
class Model:
    """What the region should show."""

    options: RegionOptions
    tags: list[str]
    kinds: dict[str, pa.DataType]
    """Each field with its type of now."""
    rows: dict[Key, list[dict[str, Cell]]] = field(default_factory=dict)
    """All visible rows by key: one, or several in append mode."""
    flushed: dict[Key, list[dict[str, Cell]]] = field(default_factory=dict)
    """The same at the last flush."""

    def key(self, row: Row) -> Key:
        return (*(row.get(tag) for tag in self.tags), row["ts"])

    def put(self, row: Row) -> None:
        full = {name: (kind, row.get(name)) for name, kind in self.kinds.items()}
        known = self.rows.setdefault(self.key(row), [])
        if self.options.append_mode:
            known.append(full)
        elif self.options.merge_mode is MergeMode.LAST_NON_NULL and known:
            known[0] = {name: cell if cell[1] is not None else known[0][name] for name, cell in full.items()}
        else:
            known[:] = [full]

    def delete(self, row: Row) -> None:
        self.rows.pop(self.key(row), None)

    def delete_within(self, span: TimeRange) -> None:
        for rows in (self.rows, self.flushed):
            for key in [key for key in rows if span.start <= key[-1] < span.end]:
                del rows[key]

    def newest(self) -> list[list[Row]]:
        """The rows of the latest time of every series: one, or several in append mode."""
        latest: dict[Key, Key] = {}
        for key in self.rows:
            latest[key[:-1]] = max(latest.get(key[:-1], key), key, key=lambda each: each[-1])
        return [[self.show(key, row) for row in self.rows[key]] for key in latest.values()]

    def flush(self) -> None:
        self.flushed = copy.deepcopy(self.rows)

    def discard_unflushed(self) -> None:
        self.rows = copy.deepcopy(self.flushed)

    def everything(self) -> Iterator[dict[str, Cell]]:
        """All rows, of now and of the last flush: for changes of columns."""
        return itertools.chain.from_iterable([*self.rows.values(), *self.flushed.values()])

    def visible(self) -> list[Row]:
        return [self.show(key, row) for key, rows in self.rows.items() for row in rows]

    def show(self, key: Key, row: dict[str, Cell]) -> Row:
        return {
            **dict(zip((*self.tags, "ts"), key, strict=True)),
            **{name: shown(cell, self.kinds[name]) for name, cell in row.items()},
        }


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


class RegionModel(RuleBasedStateMachine):
    """Random lives of one region."""

    engine_options = SMALL

    @initialize(
        unit=st.sampled_from(["s", "ms", "us", "ns"]),
        options=st.sampled_from(
            [
                RegionOptions(),
                RegionOptions(merge_mode=MergeMode.LAST_NON_NULL),
                RegionOptions(append_mode=True),
            ]
        ),
        tag_count=st.integers(0, 2),
    )
    def start(self, unit: str, options: RegionOptions, tag_count: int) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="tsdb-model-"))
        tags = ["host", "dc"][:tag_count]
        schema = RegionSchema.create(
            [
                *((tag, pa.string(), Semantic.TAG) for tag in tags),
                ("ts", pa.timestamp(unit), Semantic.TIMESTAMP),
                ("a", pa.float64(), Semantic.FIELD),
                ("b", pa.int32(), Semantic.FIELD),
            ]
        )
        self.model = Model(options, tags, {"a": pa.float64(), "b": pa.int32()})
        self.added = 0
        self.ids = SeededIds(0)
        self.engine = self.open()
        create(self.engine, schema, options)

    def open(self) -> Engine:
        return open_engine(self.root, options=self.engine_options, ids=self.ids)

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close(flush=False)
            shutil.rmtree(self.root)

    def _row(self, data: st.DataObject, *, with_fields: bool) -> Row:
        row: Row = {tag: data.draw(HOSTS) for tag in self.model.tags}
        row["ts"] = data.draw(TIMES)
        if with_fields:
            for name, kind in self.model.kinds.items():
                row[name] = data.draw(VALUES[kind])
        return row

    @rule(data=st.data(), count=st.integers(1, 6), is_pile=st.booleans())
    def put(self, data: st.DataObject, count: int, is_pile: bool) -> None:
        rows = [self._row(data, with_fields=True) for _ in range(count)]
        put(self.engine, rows)
        if is_pile:
            self.sort()  # before a reader does
        for row in rows:
            self.model.put(row)

    @rule(data=st.data(), lag=st.integers(0, 6), again=st.lists(st.integers(0, 11), max_size=2))
    def put_by_writers_that_are_not_in_step(self, data: st.DataObject, lag: int, again: list[int]) -> None:
        """Two writers take turns, one of them is late, some rows come twice; there is a flush in between."""
        template = self._row(data, with_fields=True)
        arrivals = sorted([(step + step % 2 * lag, step) for step in range(12)] + [(step + 5, step) for step in again])
        rows = [{**template, "ts": step} for _, step in arrivals]
        for some in (rows[:7], rows[7:]):
            put(self.engine, some)
            for row in some:
                self.model.put(row)
            if some == rows[:7]:
                self.flush()

    @precondition(lambda self: not self.model.options.append_mode)
    @rule(data=st.data(), count=st.integers(1, 4))
    def delete(self, data: st.DataObject, count: int) -> None:
        known = list(self.model.rows)
        keys = [self._row(data, with_fields=False) for _ in range(count)]
        if known:
            chosen = data.draw(st.sampled_from(known))
            keys.append(dict(zip((*self.model.tags, "ts"), chosen, strict=True)))
        delete(self.engine, keys)
        for key in keys:
            self.model.delete(key)

    @rule()
    def flush(self) -> None:
        self.engine.flush(REGION).result(timeout=30)
        self.model.flush()

    @rule()
    def compact(self) -> None:
        self.engine.compact(REGION).result(timeout=30)
        self.model.flush()

    @rule(data=st.data())
    def merge_some_files(self, data: st.DataObject) -> None:
        """Any files of one kind may be merged, as long as no value is lifted over a newer one."""
        region = self.engine._region(REGION)
        version = region.version
        kinds: dict[object, list[FileMeta]] = {}
        for handle in version.files:
            kind = stored_schema(version.schema, handle.source.schema).to_json()
            key = json.dumps(kind["columns"]), version.options.keeps_all(handle.meta.sequence_min)
            kinds.setdefault(key, []).append(handle.meta)
        if not kinds:
            return
        same = data.draw(st.sampled_from(list(kinds.values())))
        picked = data.draw(st.lists(st.sampled_from(same), min_size=1, unique=True))
        everything = [handle.meta for handle in version.files]
        is_lifting = version.options.merge_mode is MergeMode.LAST_NON_NULL
        if is_lifting and len(picked) > 1 and not is_closed(version.options, picked, everything):
            return
        job = make_job(self.engine.context, version, Pick(tuple(picked)))
        written = write_job(self.engine.context, region, job)
        installed = region.worker.call(lambda: install_job(self.engine.context, region, job, written))
        assert installed.result(timeout=30)

    @rule(hours=st.sampled_from([1, 24, 24 * 100]))
    def cut_files_at_windows(self, hours: int) -> None:
        """Unless that would be too many windows, nothing is seen of it."""
        strict = StrictWindows(Duration.of_seconds(hours * 3600))
        try:
            self.engine.compact(REGION, strict).result(timeout=30)
        except InvalidArguments:
            pass
        else:
            ticks = hours * 3600 * self.engine.schema(REGION).ticks_per_second
            spans = [file.time_range for file in self.engine.files(REGION)]
            assert all(span.start // ticks == span.last // ticks for span in spans)
        self.model.flush()

    @rule()
    def discard_unflushed(self) -> None:
        self.engine.discard_unflushed(REGION).result(timeout=30)
        self.model.discard_unflushed()

    @rule()
    def sort(self) -> None:
        self.engine._region(REGION).version.mutable.sort_pending()

    @rule(flush=st.booleans())
    def restart(self, flush: bool) -> None:
        self.engine.close(flush=flush)
        if flush:
            self.model.flush()
        self.engine = self.open()
        assert not self.engine.quarantined

    @rule()
    def truncate(self) -> None:
        self.engine.truncate(REGION).result(timeout=30)
        self.model.rows.clear()
        self.model.flushed.clear()

    @precondition(lambda self: not self.model.options.append_mode)
    @rule()
    def come_into_append_mode(self) -> None:
        self.engine.set_options(REGION, RegionOptions(append_mode=True)).result(timeout=30)
        self.model.options = replace(self.model.options, append_mode=True)

    @rule(data=st.data())
    def truncate_files(self, data: st.DataObject) -> None:
        """Remove files of a range of time that no file reaches into from outside."""
        self.flush()
        spans = [file.time_range for file in self.engine.files(REGION)]
        if spans:
            chosen = data.draw(st.sampled_from(spans))
            for _ in spans:
                for span in spans:
                    chosen = chosen.union(span) if chosen.overlaps(span) else chosen
            self.engine.truncate(REGION, [chosen]).result(timeout=30)
            self.model.delete_within(chosen)

    @rule(default=st.sampled_from([None, 7]))
    def add_column(self, default: int | None) -> None:
        name = f"c{self.added}"
        self.added += 1
        self.engine.alter(REGION, [AddColumn(name, pa.int32(), default=default)]).result(timeout=30)
        self.model.kinds[name] = pa.int32()
        for row in self.model.everything():
            row[name] = pa.int32(), default

    @precondition(lambda self: len(self.model.tags) < 3)
    @rule(default=st.sampled_from([None, "new"]))
    def add_tag(self, default: str | None) -> None:
        name = f"t{self.added}"
        self.added += 1
        self.engine.alter(REGION, [AddColumn(name, pa.string(), Semantic.TAG, default=default)]).result(timeout=30)
        model = self.model
        model.rows = {(*key[:-1], default, key[-1]): rows for key, rows in model.rows.items()}
        model.flushed = {(*key[:-1], default, key[-1]): rows for key, rows in model.flushed.items()}
        self.model.tags.append(name)

    @precondition(lambda self: len(self.model.kinds) > 1)
    @rule(data=st.data())
    def drop_column(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.kinds)))
        self.engine.alter(REGION, [DropColumn(name)]).result(timeout=30)
        del self.model.kinds[name]
        for row in self.model.everything():
            del row[name]

    @rule(data=st.data())
    def rename_column(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([*sorted(self.model.kinds), *self.model.tags]))
        new = f"r{self.added}"
        self.added += 1
        self.engine.alter(REGION, [RenameColumn(name, new)]).result(timeout=30)
        if name in self.model.tags:
            self.model.tags[self.model.tags.index(name)] = new
            return
        self.model.kinds = {new if each == name else each: kind for each, kind in self.model.kinds.items()}
        for row in self.model.everything():
            row[new] = row.pop(name)

    @rule(data=st.data(), kind=st.sampled_from([pa.int64(), pa.float64(), pa.string()]))
    def widen_column(self, data: st.DataObject, kind: pa.DataType) -> None:
        able = sorted(name for name, old in self.model.kinds.items() if old != kind and can_widen(old, kind))
        if able:
            name = data.draw(st.sampled_from(able))
            self.engine.alter(REGION, [WidenColumn(name, kind)]).result(timeout=30)
            self.model.kinds[name] = kind

    @rule(data=st.data(), kind=st.sampled_from(list(VALUES)))
    def retype_column(self, data: st.DataObject, kind: pa.DataType) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.kinds)))
        self.engine.alter(REGION, [RetypeColumn(name, kind)]).result(timeout=30)
        self.model.kinds[name] = kind

    @rule(data=st.data())
    def filters_see_the_type_of_now(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.kinds)))
        value = data.draw(VALUES[self.model.kinds[name]].filter(lambda value: value is not None and value == value))
        snapshot = self.engine.snapshot(REGION)
        condition = pc.field(name) == pa.scalar(value, self.model.kinds[name])
        found = sum(batch.num_rows for batch in scan_batches(snapshot, [name], condition))
        assert found == sum(1 for row in self.model.visible() if row[name] == value)

    @invariant()
    def reads_are_the_last_writes(self) -> None:
        if hasattr(self, "engine"):
            expected = comparable(self.model.visible())
            assert comparable(read(self.engine)) == expected
            assert comparable(scan(self.engine)) == expected
            assert count_rows(self.engine.snapshot(REGION)) == len(expected)

    @invariant()
    def series_are_whole_and_in_the_order_of_time(self) -> None:
        if hasattr(self, "engine"):
            assert comparable(read_series(self.engine)) == comparable(self.model.visible())
            newest = comparable(read_newest(self.engine))
            candidates = [comparable(rows) for rows in self.model.newest()]
            assert len(newest) == len(candidates)
            assert all(sum(row in rows for row in newest) == 1 for rows in candidates)


class TreeModel(RegionModel):
    """The same with memtables of type `partition_tree`."""

    engine_options = SMALL_TREE

    @invariant()
    def all_that_is_held_is_charged(self) -> None:
        if hasattr(self, "engine"):
            buffer, version = self.engine.context.buffer, self.engine._region(REGION).version
            assert buffer.kept == sum(memtable.kept_bytes for memtable in version.memtables)
            assert buffer.used == version.memtable_bytes + buffer.kept


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


RegionModel.TestCase.settings = _settings(EXAMPLES)
TreeModel.TestCase.settings = _settings(EXAMPLES // 3)


class RegionModelOverMemoryLog(RegionModel):
    """The same over a log that is no file: the engine needs nothing of it but the protocol."""

    def open(self) -> Engine:
        if not hasattr(self, "disk"):
            self.disk = Disk()
        return open_engine(self.root, options=SMALL, ids=self.ids, log=MemoryLog(self.disk))


class RegionModelOverSharedLog(RegionModel):
    """The same over a log in an object store, which also loses its local directory now and then."""

    acknowledge = Acknowledge.STORE

    def open(self) -> Engine:
        if not hasattr(self, "bucket"):
            self.bucket = MemoryStore()
        shutil.rmtree(self.root / "wal", ignore_errors=True)
        log = open_shared_log(
            self.bucket,
            self.root / "wal",
            SharedSettings(acknowledge=self.acknowledge, burst=1 << 20),
            open_local=lambda: Wal.open(self.root / "wal", WAL_OPTIONS)[0],
            ids=self.ids,
        )
        return open_engine(self.root, options=SMALL, ids=self.ids, log=log)


class RegionModelOverLocalAndSharedLog(RegionModelOverSharedLog):
    """The same with a local log before the shared one; the disk is lost after everything is shipped."""

    acknowledge = Acknowledge.LOCAL


RegionModelOverMemoryLog.TestCase.settings = settings(RegionModel.TestCase.settings, max_examples=max(1, EXAMPLES // 4))
RegionModelOverSharedLog.TestCase.settings = settings(RegionModel.TestCase.settings, max_examples=max(1, EXAMPLES // 6))
RegionModelOverLocalAndSharedLog.TestCase.settings = RegionModelOverSharedLog.TestCase.settings


@pytest.mark.timeout(7200 if EXAMPLES > 100 else 300)
class TestRegionModelOverSharedLog(RegionModelOverSharedLog.TestCase):  # type: ignore[misc]
    """Runs the state machine over the log in an object store."""


@pytest.mark.timeout(7200 if EXAMPLES > 100 else 300)
class TestRegionModelOverLocalAndSharedLog(RegionModelOverLocalAndSharedLog.TestCase):  # type: ignore[misc]
    """Runs the state machine over a local log that is shipped."""


@pytest.mark.timeout(7200 if EXAMPLES > 100 else 300)
class TestRegionModel(RegionModel.TestCase):  # type: ignore[misc]
    """Runs the state machine."""


@pytest.mark.timeout(7200 if EXAMPLES > 100 else 300)
class TestRegionModelOverMemoryLog(RegionModelOverMemoryLog.TestCase):  # type: ignore[misc]
    """Runs the state machine over the log in memory."""


@pytest.mark.timeout(7200 if EXAMPLES > 100 else 300)
class TestTreeModel(TreeModel.TestCase):  # type: ignore[misc]
    """Runs the state machine with the other type of memtable."""

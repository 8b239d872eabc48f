"""The engine against a dictionary: whatever happens to a region, reads are exactly the last writes.

A Hypothesis state machine puts, deletes, flushes, compacts, alters, truncates and restarts in any order, lets time pass
and rows expire, and compares all visible rows with a plain model after every step. All files have inverted, skipping
and full-text indexes, however small they are, and the time is that of a clock which the machine sets.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.engine.expected_region import INT64_MAX, INT64_MIN, NS, Model, comparable, read_newest, read_series
from tests.engine.harness import OPTIONS, REGION, WAL_OPTIONS, Row, create, delete, open_engine, put, read, scan
from tests.engine.memory_log import Disk, MemoryLog
from tests.engine.reads import count_rows
from tsdb.clock import ManualClock
from tsdb.engine import Engine, StrictWindows, TreeOptions
from tsdb.engine.compaction import Pick, is_closed
from tsdb.engine.log.shared import Acknowledge, SharedSettings, open_shared_log
from tsdb.engine.manifest import FileMeta
from tsdb.engine.region.compact import install_job, write_job
from tsdb.engine.region.compact_plan import make_job
from tsdb.engine.region.context import EngineOptions
from tsdb.engine.region.flush_plan import stored_schema
from tsdb.engine.region.trim import plan_expired
from tsdb.engine.tuning import EngineTuning, IndexTuning, MemtableTuning, ScanTuning
from tsdb.engine.wal import Wal
from tsdb.errors import InvalidArguments
from tsdb.ids import SeededIds
from tsdb.model import (
    AddColumn,
    DropColumn,
    FulltextIndex,
    MemtableKind,
    MergeMode,
    RegionOptions,
    RegionSchema,
    RenameColumn,
    RetypeColumn,
    Semantic,
    SkippingIndex,
    WidenColumn,
    can_widen,
)
from tsdb.store import MemoryStore
from tsdb.units import Duration, Size

EXAMPLES = int(os.environ.get("TSDB_MODEL_EXAMPLES", "40"))
STEPS = 25
_DAY_MS = 86_400_000
_HOUR, _DAY = 3600, 86_400
BEGIN_SECONDS = 100 * _DAY
"""The time at which every life begins."""

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
TTLS = st.sampled_from([None, *(Duration.of_seconds(seconds) for seconds in (_HOUR, _DAY, 30 * _DAY))])
PIECES = st.sampled_from(["a", "7", "true", "ä", "1970", "no"])
"""What texts are searched for."""
SMALL = replace(
    OPTIONS,
    tuning=EngineTuning(
        memtable=MemtableTuning(freeze_rows=4, tier_runs=3, runs_max=4),
        scan=ScanTuning(cut_rows_min=-1000, split_rows_min=1, partition_rows_min=4, skip_bytes_ratio=1e9),
        index=IndexTuning(series_min=1, page_series=1, page_values=1, page_postings=1),
    ),
    sst_meta_cache_size=Size(0),
)
"""Few enough raw rows for runs and tiers to be made, and for every cut between what sources contest; every file has
indexes, in many pages, and they are read whatever they cost."""
SMALL_TREE = replace(
    SMALL,
    memtable_type=MemtableKind.PARTITION_TREE,
    tree=TreeOptions(shard_keys=2, freeze_rows=3),
    index_memory_size=Size(1),
)
"""The same with compressed rows, in many shards, and indexes whose values are sorted on disk."""


class RegionModel(RuleBasedStateMachine):
    """Random lives of one region."""

    engine_options = SMALL

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(BEGIN_SECONDS * NS)

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
                ("s", pa.string(), Semantic.FIELD),
            ]
        )
        options = replace(
            options,
            skipping=tuple(SkippingIndex(column.id, 2, 0.01) for column in schema.fields),
            fulltext=(FulltextIndex(schema.by_name["s"].id, 2, 0.01, "English", False),),
        )
        kinds = {column.name: column.type for column in schema.fields}
        self.model = Model(options, tags, kinds, self.clock, schema.ticks_per_second)
        self.added = self.steps = 0
        self.checksums: dict[str, int | None] = {}
        self.ids = SeededIds(0)
        self.engine = self.open()
        create(self.engine, schema, options)
        recent = [(BEGIN_SECONDS - age) * schema.ticks_per_second for age in (0, _HOUR // 2, _DAY - 9, 40 * _DAY)]
        self.times = st.sampled_from(recent) | TIMES

    def open(self) -> Engine:
        return open_engine(self.root, options=self.options, ids=self.ids, clock=self.clock)

    @property
    def options(self) -> EngineOptions:
        return replace(self.engine_options, index_intermediate_path=self.root / "spill")

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close(flush=False)
            shutil.rmtree(self.root)

    def _row(self, data: st.DataObject, *, with_fields: bool) -> Row:
        row: Row = {tag: data.draw(HOSTS) for tag in self.model.tags}
        row["ts"] = data.draw(self.times)
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
        self.model.let_expired_go()
        self.model.flush()

    @rule(seconds=st.sampled_from([_HOUR, _DAY, 2 * _DAY]))
    def let_time_pass(self, seconds: int) -> None:
        self.clock.advance(seconds=seconds)

    @rule(ttl=TTLS)
    def change_ttl(self, ttl: Duration | None) -> None:
        """Reads see it at once; what a longer one brings back is what nobody has removed yet."""
        before = self.model.cutoff
        self.model.options = replace(self.model.options, ttl=ttl)
        self.engine.set_options(REGION, self.model.options).result(timeout=30)
        if self.model.cutoff < before:
            self.flush()
            self.model.come_back(before, scan(self.engine))

    @rule()
    def expire(self) -> None:
        """Remove the files of which every row has expired, as far as nothing comes to light by that."""
        self.engine.housekeeping.expire()
        region = self.engine._region(REGION)
        region.worker.call(lambda: None).result(timeout=30)
        self.model.let_expired_go()
        assert not plan_expired(region.version, self.model.cutoff)
        if self.model.options.append_mode and not region.version.options.append_from:
            assert all(file.time_range.end > self.model.cutoff for file in self.engine.files(REGION))

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
        self.model.let_expired_go()

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
        self.model.let_expired_go()
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
        self.model.clear()

    @precondition(lambda self: not self.model.options.append_mode)
    @rule()
    def come_into_append_mode(self) -> None:
        self.model.options = replace(self.model.options, append_mode=True)
        self.engine.set_options(REGION, self.model.options).result(timeout=30)

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
        for rows in self.model.states:
            tagged = {(*key[:-1], default, key[-1]): found for key, found in rows.items()}
            rows.clear()
            rows.update(tagged)
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
        self._check_filter(name, value)

    def _check_filter(self, name: str, value: Any) -> None:
        kind = self.model.kinds.get(name, pa.string())
        found = scan(self.engine, filter=pc.field(name) == pa.scalar(value, kind))
        assert comparable(found) == comparable([row for row in self.model.visible() if row[name] == value])

    @rule(piece=PIECES)
    def texts_are_found_by_what_they_hold(self, piece: str) -> None:
        for name in [name for name, kind in self.model.kinds.items() if pa.types.is_string(kind)]:
            condition = pc.match_substring(pc.field(name), piece)
            expected = [row for row in self.model.visible() if row[name] is not None and piece in row[name]]
            assert comparable(scan(self.engine, filter=condition)) == comparable(expected)

    @rule()
    def files_are_whole_and_agree_with_their_indexes(self) -> None:
        verified = self.engine.verify(REGION).result(timeout=30)
        assert not verified.damaged
        assert not verified.index_damaged
        assert verified.files == len(self.engine.files(REGION))
        visible = self.model.visible()
        assert verified.visible_rows == len(visible)
        # The same rows have the same checksum, in whichever files they are.
        content = str((self.model.kinds, comparable(visible)))
        assert self.checksums.setdefault(content, verified.checksum) == verified.checksum

    @invariant()
    def one_value_is_found_by_every_index(self) -> None:
        """Another column and another value in each step."""
        if hasattr(self, "engine"):
            self.steps += 1
            names = [*self.model.tags, *self.model.kinds]
            name = names[self.steps % len(names)]
            values = [row[name] for row in self.model.visible() if row[name] is not None and row[name] == row[name]]
            if values:
                self._check_filter(name, values[self.steps % len(values)])

    @invariant()
    def reads_are_the_last_writes(self) -> None:
        if hasattr(self, "engine"):
            expected = comparable(self.model.visible())
            kept = [row for row in read(self.engine) if row["ts"] >= self.model.cutoff]
            assert comparable(kept) == expected
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
        return open_engine(self.root, options=self.options, ids=self.ids, clock=self.clock, log=MemoryLog(self.disk))


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
        return open_engine(self.root, options=self.options, ids=self.ids, clock=self.clock, log=log)


class RegionModelOverLocalAndSharedLog(RegionModelOverSharedLog):
    """The same with a local log before the shared one; the disk is lost after everything is shipped."""

    acknowledge = Acknowledge.LOCAL


RegionModelOverMemoryLog.TestCase.settings = settings(RegionModel.TestCase.settings, max_examples=max(1, EXAMPLES // 4))
RegionModelOverSharedLog.TestCase.settings = settings(RegionModel.TestCase.settings, max_examples=max(1, EXAMPLES // 6))
RegionModelOverLocalAndSharedLog.TestCase.settings = RegionModelOverSharedLog.TestCase.settings


@pytest.mark.timeout(7200 if EXAMPLES > 100 else 900)
class TestRegionModelOverSharedLog(RegionModelOverSharedLog.TestCase):  # type: ignore[misc]
    """Runs the state machine over the log in an object store."""


@pytest.mark.timeout(7200 if EXAMPLES > 100 else 900)
class TestRegionModelOverLocalAndSharedLog(RegionModelOverLocalAndSharedLog.TestCase):  # type: ignore[misc]
    """Runs the state machine over a local log that is shipped."""


@pytest.mark.timeout(7200 if EXAMPLES > 100 else 900)
class TestRegionModel(RegionModel.TestCase):  # type: ignore[misc]
    """Runs the state machine."""


@pytest.mark.timeout(7200 if EXAMPLES > 100 else 900)
class TestRegionModelOverMemoryLog(RegionModelOverMemoryLog.TestCase):  # type: ignore[misc]
    """Runs the state machine over the log in memory."""


@pytest.mark.timeout(7200 if EXAMPLES > 100 else 900)
class TestTreeModel(TreeModel.TestCase):  # type: ignore[misc]
    """Runs the state machine with the other type of memtable."""

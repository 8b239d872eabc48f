"""Changing a region while it is written to and read: alter, truncate, drop, options, and what is refused."""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.engine import lives
from tests.engine.fault_steps import held
from tests.engine.harness import SCHEMA, Row, batch_of, read
from tests.engine.lives import APPEND, DROPPED, PLAIN, Rows
from tests.faults import FaultyFiles
from tsdb.engine.engine import Engine
from tsdb.engine.errors import ManifestMismatch, RegionNotFound
from tsdb.engine.rows.slices import Slices
from tsdb.engine.rows.source import Source
from tsdb.engine.wal import Wal
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.model import (
    AddColumn,
    Batch,
    ColumnExists,
    ColumnNotFound,
    DropColumn,
    MergeMode,
    OpType,
    RegionOptions,
    RegionSchema,
    RenameColumn,
    SchemaChange,
    Semantic,
    SeriesTable,
    TimeRange,
    WidenColumn,
    region_id,
)
from tsdb.store import LocalStore, on_crash_point
from tsdb.units import Duration, Size

CREATED = [lives.create(PLAIN), lives.create(APPEND, options=RegionOptions(append_mode=True)), lives.create(DROPPED)]


@pytest.fixture
def rows() -> Rows:
    return Rows()


class Writers:
    """Threads that write rows of their own, each under the schema it saw, until they are told to stop."""

    def __init__(self, engine: Engine, count: int) -> None:
        self._engine = engine
        self._stop = threading.Event()
        self.acknowledged: dict[tuple[str, int], Row] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(count)
        self._running = [self._pool.submit(self._run, f"w{number}") for number in range(count)]

    def wait_for(self, rows: int) -> None:
        """Wait until so many more rows are acknowledged."""
        wanted = len(self.acknowledged) + rows
        lives.wait_until(lambda: len(self.acknowledged) >= wanted)

    def stop(self) -> None:
        self._stop.set()
        for each in self._running:
            each.result(30)
        self._pool.shutdown()

    def _run(self, host: str) -> None:
        at = 0
        while not self._stop.is_set():
            schema = self._engine.schema(PLAIN)
            fields = {column.name: at % 100 for column in schema.fields if column.name != "wide"}
            row = {"host": host, "dc": "x", "ts": at, **fields}
            try:
                self._engine.write(PLAIN, batch_of(schema, [row])).result(30)
            except InvalidArguments:
                continue  # the schema changed before the write was taken: nothing was written
            with self._lock:
                self.acknowledged[host, at] = row
            at += 1


@pytest.mark.parametrize("is_flushing", [False, True])
def test_rows_written_while_columns_change_are_read_with_what_they_had_and_defaults_for_the_rest(
    tmp_path: Path, is_flushing: bool
) -> None:
    schema = RegionSchema.create(
        [
            ("host", pa.string(), Semantic.TAG),
            ("dc", pa.string(), Semantic.TAG),
            ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
            ("a", pa.int32(), Semantic.FIELD),
        ]
    )
    engine = lives.open_life(tmp_path, options=replace(lives.OPTIONS, num_workers=2))
    engine.create_region(PLAIN, lives.directory_of(PLAIN), schema)
    writers = Writers(engine, 3)
    names = {"a": "a"}
    for change, renamed in [
        (AddColumn("b", pa.int32(), default=7), ("b", "b")),
        (WidenColumn("a", pa.int64()), None),
        (RenameColumn("a", "x"), ("a", "x")),
        (AddColumn("c", pa.float64(), nullable=False, default=0.5), ("c", "c")),
        (WidenColumn("x", pa.float64()), None),
        (RenameColumn("b", "y"), ("b", "y")),
    ]:
        writers.wait_for(15)
        if is_flushing:
            engine.flush(PLAIN)
        engine.alter(PLAIN, [change]).result(30)
        if renamed is not None:
            names[renamed[0]] = renamed[1]
    writers.wait_for(15)
    writers.stop()

    def check() -> None:
        found = {(row["host"], row["ts"]): row for row in read(engine, PLAIN)}
        assert found.keys() == writers.acknowledged.keys()
        for key, written in writers.acknowledged.items():
            for old, new in names.items():
                # A row that was made without the column has its default if the region had not the column either.
                if old in written or new in written:
                    assert found[key][new] == written.get(old, written.get(new))
                else:
                    assert found[key][new] in {"b": (7, None), "c": (0.5,)}[old]

    check()
    engine.close(flush=is_flushing)
    engine = lives.open_life(tmp_path)
    check()
    engine.close()


def test_a_waiting_write_made_under_an_older_schema_follows_the_region(tmp_path: Path) -> None:
    engine = lives.begin(tmp_path, *CREATED)
    gate = threading.Event()
    worker = engine._region(PLAIN).worker
    worker.call(lambda: gate.wait(30))
    changes: list[SchemaChange] = [
        AddColumn("c", pa.int32(), nullable=False, default=3),
        RenameColumn("a", "x"),
        DropColumn("b"),
        AddColumn("b", pa.string(), default="new"),
        AddColumn("rack", pa.string(), Semantic.TAG, default="r1"),
        RenameColumn("host", "node"),
    ]
    altered = engine.alter(PLAIN, changes)
    written = engine.write(PLAIN, batch_of(SCHEMA, [{"host": "h", "dc": "d", "ts": 1, "a": 2.5, "b": 9}]))
    deleted = engine.write(PLAIN, batch_of(SCHEMA, [{"host": "nobody", "dc": "d", "ts": 1}], OpType.DELETE))
    gate.set()
    altered.result(10)
    assert (written.result(10), deleted.result(10)) == (1, 1)
    expected = [{"node": "h", "dc": "d", "rack": "r1", "ts": 1, "x": 2.5, "c": 3, "b": "new"}]
    assert read(engine, PLAIN) == expected
    engine.close(flush=False)
    engine = lives.open_life(tmp_path)
    assert read(engine, PLAIN) == expected
    engine.close()


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        (AddColumn("a", pa.int32()), ColumnExists, "a"),
        (AddColumn("host", pa.int32()), ColumnExists, "host"),
        (AddColumn("n", pa.int32(), nullable=False), InvalidArguments, "n"),
        (DropColumn("nothing"), ColumnNotFound, "nothing"),
        (DropColumn("host"), InvalidArguments, "host"),
        (DropColumn("ts"), InvalidArguments, "ts"),
        (RenameColumn("a", "b"), ColumnExists, "b"),
        (WidenColumn("a", pa.int64()), InvalidArguments, "a"),
        (WidenColumn("ts", pa.timestamp("ns")), InvalidArguments, "ts"),
    ],
)
def test_an_impossible_change_names_its_column_and_changes_nothing(
    tmp_path: Path, rows: Rows, change: SchemaChange, error: type[Exception], named: str
) -> None:
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0)))]
    engine = lives.begin(tmp_path, *steps)
    with pytest.raises(error) as refused:
        engine.alter(PLAIN, [AddColumn("fine", pa.int32()), change]).result(10)
    assert refused.value.fields["column"] == named  # type: ignore[attr-defined]
    assert engine.schema(PLAIN) == SCHEMA
    assert lives.see(engine) == lives.expected(*steps)
    engine.close(flush=False)
    engine = lives.open_life(tmp_path)
    assert lives.see(engine) == lives.expected(*steps)
    engine.close()


def test_a_truncation_with_a_token_is_made_once(tmp_path: Path, rows: Rows) -> None:
    steps = [
        *CREATED,
        lives.put(PLAIN, rows.make(("a", 0))),
        lives.truncate(PLAIN),
        lives.put(PLAIN, rows.make(("b", 0))),
    ]
    engine = lives.begin(tmp_path, *steps[:-2])
    engine.truncate(PLAIN, token="one").result(30)
    lives.live(engine, steps[-1])
    for _ in range(2):
        engine.truncate(PLAIN, token="one").result(30)
        assert lives.see(engine) == lives.expected(*steps)
        engine.close(flush=False)
        engine = lives.open_life(tmp_path)
    engine.truncate(PLAIN, token="two").result(30)
    assert lives.see(engine) == lives.expected(*steps, lives.truncate(PLAIN))
    engine.close()


def test_a_truncated_region_is_empty_and_takes_new_rows_of_the_same_keys(tmp_path: Path, rows: Rows) -> None:
    steps = [*CREATED]
    engine = lives.begin(tmp_path, *steps)
    for _ in range(3):
        made = [
            lives.put(PLAIN, rows.make(("a", 0), ("b", 0))),
            lives.flush(PLAIN),
            lives.put(PLAIN, rows.make(("a", 0), ("c", 0))),
            lives.truncate(PLAIN),
            lives.put(PLAIN, rows.make(("a", 0))),
        ]
        lives.live(engine, *made)
        steps += made
        assert lives.see(engine) == lives.expected(*steps)
        engine.close(flush=False)
        engine = lives.open_life(tmp_path)
        assert lives.see(engine) == lives.expected(*steps)
    engine.close()


@pytest.mark.parametrize("change", [lives.truncate(DROPPED), lives.drop(DROPPED)], ids=lambda step: step.name)
def test_who_reads_a_region_goes_on_reading_after_it_is_truncated_or_dropped(
    tmp_path: Path, rows: Rows, change: lives.Step
) -> None:
    steps = [*CREATED, lives.put(DROPPED, rows.make(("a", 0), ("b", lives.DAY_MS))), lives.flush(DROPPED)]
    engine = lives.begin(tmp_path, *steps)
    expected = read(engine, DROPPED)
    reader = engine._region(DROPPED).version
    for handle in reader.files:
        engine.context.caches.evict_file(handle.meta.file_id)
    change.run(engine)
    lives.tick().run(engine)
    files = [
        path for path in lives.paths(tmp_path / "store" / lives.directory_of(DROPPED)) if path.suffix == ".parquet"
    ]
    assert len(files) == len(reader.files) == 2
    times = [handle.source.reader().times(_all_rows(handle.source)).tolist() for handle in reader.files]
    assert sorted(times) == sorted([[row["ts"]] for row in expected])
    del reader, handle
    lives.tick().run(engine)
    assert not any(path.exists() for path in files)
    assert (tmp_path / "store" / lives.directory_of(DROPPED)).exists() == (change.name == "truncate 3")
    engine.close()


def _all_rows(source: Source) -> Slices:
    return Slices(np.array([0]), np.array([source.facts.rows]))


def test_a_dropped_region_is_not_found_by_anyone(tmp_path: Path, rows: Rows) -> None:
    engine = lives.begin(tmp_path, *CREATED, lives.put(DROPPED, rows.make(("a", 0))))
    batch = batch_of(engine.schema(DROPPED), rows.make(("b", 0)))
    gate = threading.Event()
    engine._region(DROPPED).worker.call(lambda: gate.wait(30))
    dropped = engine.drop(DROPPED)
    late = [engine.write(DROPPED, batch), engine.alter(DROPPED, [DropColumn("a")]), engine.truncate(DROPPED)]
    again = engine.drop(DROPPED)
    gate.set()
    dropped.result(10)
    for future in (*late, again):
        with pytest.raises(RegionNotFound):
            future.result(10)
    for refused in (
        lambda: engine.write(DROPPED, batch),
        lambda: engine.flush(DROPPED),
        lambda: engine.schema(DROPPED),
        lambda: engine.stat(DROPPED),
        lambda: engine.drop(DROPPED),
    ):
        with pytest.raises(RegionNotFound):
            refused()
    engine.close()


def test_who_comes_while_a_region_is_dropped_sees_its_rows_or_that_it_is_gone(tmp_path: Path, rows: Rows) -> None:
    engine = lives.begin(tmp_path, *CREATED, lives.put(DROPPED, rows.make(("a", 0))))
    seen: list[bool] = []

    def come(place: str) -> None:
        if place == "drop.after_manifest":
            with pytest.raises(RegionNotFound):
                engine.snapshot(DROPPED)
            seen.append(True)

    with on_crash_point(come):
        engine.drop(DROPPED).result(10)
    assert seen == [True]
    engine.close()


def test_a_table_can_be_made_anew_after_a_drop(tmp_path: Path, rows: Rows) -> None:
    other = region_id(77, 0)
    steps = [
        *CREATED,
        lives.put(DROPPED, rows.make(("a", 0))),
        lives.flush(DROPPED),
        lives.put(DROPPED, rows.make(("b", 0))),
        lives.drop(DROPPED),
        lives.create(other),
        lives.put(other, rows.make(("a", 0))),
    ]
    engine = lives.begin(tmp_path, *steps)
    assert lives.see(engine) == lives.expected(*steps)
    engine.close(flush=False)
    engine = lives.open_life(tmp_path)
    assert lives.see(engine) == lives.expected(*steps)
    engine.close()


def test_the_same_region_can_be_made_anew_when_nothing_is_left_of_it(tmp_path: Path, rows: Rows) -> None:
    first = [*CREATED, lives.put(DROPPED, rows.make(("a", 0), ("a", 1))), lives.flush(DROPPED), lives.drop(DROPPED)]
    engine = lives.begin(tmp_path, *first)
    with pytest.raises(ManifestMismatch, match="dropped"):
        lives.create(DROPPED).run(engine)
    second = [lives.tick(), lives.create(DROPPED), lives.put(DROPPED, rows.make(("b", 0)))]
    lives.live(engine, *second)
    assert lives.see(engine) == lives.expected(*first, *second)
    engine.close(flush=False)
    engine = lives.open_life(tmp_path)
    assert not engine.quarantined
    assert lives.see(engine) == lives.expected(*first, *second)
    engine.close()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_region_made_anew_is_whole_although_the_log_did_not_take_the_drop_of_the_old_one(
    tmp_path: Path, rows: Rows, is_restarted: bool
) -> None:
    """Its entries begin at 1 again: behind those of the old one they would look like damage."""
    files = FaultyFiles()
    first = [*CREATED, *(lives.put(DROPPED, rows.make(("old", at))) for at in range(3))]
    engine = lives.begin(tmp_path, *first, files=files)
    files.fail("writev", errno.ENOSPC, name=".wal")
    first.append(lives.drop(DROPPED))
    lives.live(engine, first[-1])
    if is_restarted:
        engine.close(flush=False)
        engine = lives.open_life(tmp_path)
    second = [lives.tick(), lives.create(DROPPED), lives.put(DROPPED, rows.make(("new", 0)))]
    lives.live(engine, *second)
    engine.close(flush=False)
    for _ in range(2):
        engine = lives.open_life(tmp_path)
        assert not engine.quarantined
        assert lives.see(engine) == lives.expected(*first, *second)
        engine.close(flush=False)


def test_rows_of_a_table_in_append_mode_cannot_be_deleted_by_key(tmp_path: Path, rows: Rows) -> None:
    steps = [*CREATED, lives.put(APPEND, rows.make(("a", 0), ("a", 0)))]
    engine = lives.begin(tmp_path, *steps)
    with pytest.raises(Unsupported, match="append mode"):
        lives.delete(APPEND, rows.make(("a", 0))).run(engine)
    assert lives.see(engine) == lives.expected(*steps)
    engine.close()


def test_options_are_in_effect_at_once_and_after_a_restart(tmp_path: Path, rows: Rows) -> None:
    options = RegionOptions(
        merge_mode=MergeMode.LAST_NON_NULL, ttl=Duration.of_seconds(7200), write_buffer_size=Size(1 << 30)
    )
    engine = lives.begin(tmp_path, *CREATED, lives.put(PLAIN, rows.make(("a", 0))))
    (before,) = read(engine, PLAIN)
    engine.set_options(PLAIN, options).result(10)
    engine.write(PLAIN, batch_of(SCHEMA, [{"host": "a", "dc": "x", "ts": 0, "a": 99.0}])).result(10)
    expected = [{**before, "a": 99.0}]
    assert read(engine, PLAIN) == expected
    engine.close(flush=False)
    engine = lives.open_life(tmp_path)
    assert engine._region(PLAIN).version.options == options
    assert read(engine, PLAIN) == expected
    engine.close()


REQUIRED = RegionSchema.create(
    [
        ("host", pa.string(), Semantic.TAG),
        ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
        ("a", pa.float64(), Semantic.FIELD),
        ("must", pa.int64(), Semantic.FIELD),
    ]
)
REQUIRED = replace(REQUIRED, columns=(*REQUIRED.columns[:3], replace(REQUIRED.columns[3], nullable=False)))


def make_batch(
    *,
    tags: dict[str, pa.Array] | None = None,
    index: list[int] | None = None,
    fields: dict[str, pa.Array] | None = None,
    op: OpType = OpType.PUT,
) -> Batch:
    """A batch of two rows that fits, but for what is given."""
    columns = tags if tags is not None else {"host": pa.array(["x", "y"])}
    count = len(next(iter(columns.values()))) if columns else 2
    names = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    numbers = np.arange(count, dtype=np.uint64)
    given = {"a": pa.array([1.0, 2.0]), "must": pa.array([1, 2])} if fields is None else fields
    return Batch(
        SeriesTable(numbers, numbers, names),
        np.array([0, 1] if index is None else index, dtype=np.uint32),
        np.array([1, 2], dtype=np.int64),
        given if op is OpType.PUT or fields is not None else {},
        op,
    )


@pytest.mark.parametrize(
    ("make", "message", "fields"),
    [
        (
            lambda: make_batch(tags={"node": pa.array(["x", "y"])}),
            "other tags",
            {"expected": ["host"], "received": ["node"]},
        ),
        (
            lambda: make_batch(tags={"host": pa.array([1, 2])}),
            "another type",
            {"column": "host", "expected": "string", "received": "int64"},
        ),
        (lambda: make_batch(index=[0, 2]), "does not have", {"series": 2, "received": 2}),
        (
            lambda: make_batch(fields={"b": pa.array([1, 2]), "must": pa.array([1, 2])}),
            "no such field",
            {"column": "b"},
        ),
        (
            lambda: make_batch(fields={"host": pa.array(["x", "y"]), "must": pa.array([1, 2])}),
            "no such field",
            {"column": "host"},
        ),
        (
            lambda: make_batch(fields={"a": pa.array([1, 2]), "must": pa.array([1, 2])}),
            "another type",
            {"column": "a", "expected": "double", "received": "int64"},
        ),
        (lambda: make_batch(fields={"must": pa.array([1, None])}), "may not be null", {"column": "must"}),
        (lambda: make_batch(fields={}), "missing", {"column": "must"}),
        (
            lambda: make_batch(fields={"a": pa.array([1.0, 2.0])}, op=OpType.DELETE),
            "has no fields",
            {"columns": ["a"]},
        ),
    ],
)
def test_a_batch_that_does_not_fit_is_explained_and_changes_nothing(
    tmp_path: Path, make: Callable[[], Batch], message: str, fields: dict[str, object]
) -> None:
    engine = lives.open_life(tmp_path)
    engine.create_region(PLAIN, lives.directory_of(PLAIN), REQUIRED)
    engine.write(PLAIN, make_batch()).result(10)
    before, stat = read(engine, PLAIN), engine.stat(PLAIN)
    with pytest.raises(InvalidArguments, match=message) as refused:
        engine.write(PLAIN, make()).result(10)
    assert {name: refused.value.fields[name] for name in fields} == fields
    assert read(engine, PLAIN) == before
    assert engine.stat(PLAIN).last_entry_id == stat.last_entry_id
    engine.write(PLAIN, make_batch(op=OpType.DELETE)).result(10)
    engine.flush(PLAIN).result(10)
    assert read(engine, PLAIN) == []
    engine.close()


def test_an_empty_batch_is_acknowledged_and_leaves_no_trace(tmp_path: Path) -> None:
    engine = lives.begin(tmp_path, *CREATED)
    assert engine.write(PLAIN, batch_of(SCHEMA, [])).result(10) == 0
    assert engine.stat(PLAIN).last_entry_id == 0
    engine.close()


def test_creating_a_region_twice_is_fine_if_it_is_the_same(tmp_path: Path, rows: Rows) -> None:
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.create(PLAIN)]
    engine = lives.begin(tmp_path, *steps)
    assert lives.see(engine) == lives.expected(*steps)
    with pytest.raises(ManifestMismatch, match="another schema"):
        engine.create_region(PLAIN, lives.directory_of(PLAIN), REQUIRED)
    engine.close(flush=False)
    engine = lives.open_life(tmp_path)
    lives.create(PLAIN).run(engine)
    assert lives.see(engine) == lives.expected(*steps)
    engine.close()


def test_a_region_that_many_create_at_once_is_one_region(tmp_path: Path) -> None:
    engine = lives.open_life(tmp_path)
    barrier = threading.Barrier(4)

    def create_and_write(number: int) -> int:
        barrier.wait(10)
        lives.create(PLAIN).run(engine)
        row = {"host": f"h{number}", "dc": "x", "ts": 0, "a": 1.0, "b": 1}
        return engine.write(PLAIN, batch_of(SCHEMA, [row])).result(10)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(create_and_write, range(4))) == [1] * 4
    assert len(read(engine, PLAIN)) == 4
    engine.close(flush=False)
    engine = lives.open_life(tmp_path)
    assert len(read(engine, PLAIN)) == 4
    engine.close()


def test_only_the_regions_that_the_catalog_knows_are_opened(tmp_path: Path, rows: Rows) -> None:
    lives.begin(tmp_path, *CREATED, lives.put(PLAIN, rows.make(("a", 0)))).close()
    for known in ({}, {PLAIN: lives.directory_of(PLAIN)}):
        engine = Engine.open(
            LocalStore(tmp_path / "store"),
            Wal.open(tmp_path / "wal", lives.WAL_OPTIONS)[0],
            options=lives.OPTIONS,
            regions=known,
            has_housekeeping=False,
        )
        assert set(engine.region_ids()) == set(known)
        engine.close()


def test_a_flush_that_is_under_way_while_the_schema_changes_twice_keeps_every_row(tmp_path: Path, rows: Rows) -> None:
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0)))]
    engine = lives.begin(tmp_path, *steps)
    with held("flush.after_files"):
        flush = engine.flush(PLAIN)
        more = [
            lives.add_column(PLAIN, "c", 1),
            lives.put(PLAIN, rows.make(("b", 0), c=2)),
            lives.widen_column(PLAIN, "b"),
            lives.put(PLAIN, [{**row, "b": float(row["b"])} for row in rows.make(("c", 0), c=3)]),
        ]
        lives.live(engine, *more)
    flush.result(10)
    steps += more
    assert lives.see(engine) == lives.expected(*steps)
    assert engine.stat(PLAIN).files == 1
    lives.flush(PLAIN).run(engine)
    assert lives.see(engine) == lives.expected(*steps)
    engine.close()


@pytest.mark.parametrize("is_flushing", [False, True])
def test_what_is_not_flushed_can_be_discarded_for_good_and_what_is_flushed_stays(
    tmp_path: Path, rows: Rows, is_flushing: bool
) -> None:
    kept = [*CREATED, lives.put(PLAIN, rows.make(("a", 0), ("b", 0))), lives.flush(PLAIN)]
    engine = lives.begin(tmp_path, *kept)
    unflushed = [lives.put(PLAIN, rows.make(("a", 0), ("c", 0))), lives.delete(PLAIN, rows.make(("b", 0)))]
    lives.live(engine, *unflushed)
    with held("flush.before_files" if is_flushing else "nowhere"):
        flushed = engine.flush(PLAIN) if is_flushing else None
        engine.discard_unflushed(PLAIN).result(30)
    if flushed is not None:
        flushed.result(30)
    assert lives.see(engine) == lives.expected(*kept)
    assert engine.context.buffer.used == 0
    lives.settle(engine)
    assert not lives.unknown_files(engine)
    later = lives.put(PLAIN, rows.make(("a", 0), ("d", 0)))
    lives.live(engine, later)
    engine.close(flush=False)
    engine = lives.open_life(tmp_path)
    assert lives.see(engine) == lives.expected(*kept, later)
    engine.close()


def test_discarding_nothing_changes_nothing(tmp_path: Path, rows: Rows) -> None:
    engine = lives.begin(tmp_path, *CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.flush(PLAIN))
    version = engine.stat(PLAIN).manifest_version
    engine.discard_unflushed(PLAIN).result(30)
    assert engine.stat(PLAIN).manifest_version == version
    engine.close()


def test_files_and_numbers_of_a_region_are_those_of_its_directory(tmp_path: Path, rows: Rows) -> None:
    made = rows.make(("a", 0), ("b", 5), ("b", lives.DAY_MS))
    engine = lives.begin(tmp_path, *CREATED, lives.put(PLAIN, made), lives.flush(PLAIN))
    store = engine.context.store
    first, second = engine.files(PLAIN)
    assert (first.rows, first.series, first.row_groups, first.level, first.sequence) == (2, 2, 1, 0, 2)
    assert (first.time_range, second.time_range) == (TimeRange(0, 6), TimeRange(lives.DAY_MS, lives.DAY_MS + 1))
    for file in (first, second):
        assert store.head(file.path).size_bytes == file.size_bytes
        assert file.index_path is not None
        assert store.head(file.index_path).size_bytes == file.index_bytes
    lives.live(engine, lives.set_options(PLAIN, RegionOptions(ttl=Duration.of_seconds(10**9))))
    stat = engine.stat(PLAIN)
    listed = list(store.list(f"{lives.directory_of(PLAIN)}/manifest"))
    chain = [found for found in listed if not found.path.endswith("_last_checkpoint")]
    assert stat.manifest_bytes == sum(found.size_bytes for found in chain)
    assert (stat.manifest_version, stat.files) == (3, 2)
    assert stat.index_bytes == first.index_bytes + second.index_bytes
    assert json.loads(stat.options) == {"ttl": str(Duration.of_seconds(10**9))}
    written = stat.written_bytes
    lives.live(engine, lives.put(PLAIN, rows.make(("a", 0))))
    assert engine.stat(PLAIN).written_bytes > written > 0
    engine.close()
    engine = lives.open_life(tmp_path)
    assert engine.stat(PLAIN).manifest_version == 4
    chain = [
        found
        for found in store.list(f"{lives.directory_of(PLAIN)}/manifest")
        if not found.path.endswith("_last_checkpoint")
    ]
    assert engine.stat(PLAIN).manifest_bytes == sum(found.size_bytes for found in chain)
    assert engine.stat(PLAIN).written_bytes == 0
    engine.close()

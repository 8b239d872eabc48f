"""Lives of regions as data: steps that change an engine and, in the same way, a model of what it should show.

A life is run until something ends it. What the engine shows afterwards must be the model after some number of steps: at
least those that were acknowledged, at most the one that was under way as well.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from tests.engine.harness import SCHEMA, Row, batch_of, read
from tsdb.clock import Clock
from tsdb.engine.engine import Engine, region_directory
from tsdb.engine.log import LogStore
from tsdb.engine.manifest import data_path, index_path
from tsdb.engine.region.context import EngineOptions
from tsdb.engine.region.snapshot import ttl_cutoff
from tsdb.engine.tuning import EngineTuning, IndexTuning
from tsdb.engine.wal import Wal, WalSettings
from tsdb.errors import TsdbError
from tsdb.model import (
    AddColumn,
    FulltextIndex,
    OpType,
    RegionId,
    RegionOptions,
    RegionSchema,
    RenameColumn,
    SchemaChange,
    Semantic,
    SkippingIndex,
    TimeRange,
    WidenColumn,
    region_id,
)
from tsdb.store import Files, LocalStore, ObjectData, ObjectStore, StoreError
from tsdb.units import Duration, Size

PLAIN = region_id(1, 0)
APPEND = region_id(2, 0)
DROPPED = region_id(3, 0)
CHANGED = region_id(4, 0)
"""A region that comes into append mode."""
EXPIRING = region_id(5, 0)
"""A region with a time to live, and with texts that are indexed."""
DAY_MS = 86_400_000
LASTING_MS = 1 << 42
"""A time in the next century: no row from then expires."""

OPTIONS = EngineOptions(
    num_workers=1,
    max_background_jobs=2,
    manifest_checkpoint_distance=2,
    index_memory_size=Size(16),
    tuning=EngineTuning(index=IndexTuning(series_min=1, page_series=1, page_values=1)),
)
"""Data files of a few series have inverted indexes, whose values are sorted on disk."""
WAL_OPTIONS = WalSettings(
    file_size=Size(3000),
    sync_write=True,
    purge_threshold=Size(6000),
    purge_interval=Duration.of_seconds(3600),
    ballast_bytes=Size(0),
)


def directory_of(region: RegionId) -> str:
    return region_directory("tsdb", "public", region >> 32, region & 0xFFFFFFFF)


def open_life(
    root: Path,
    *,
    options: EngineOptions = OPTIONS,
    wal_options: WalSettings = WAL_OPTIONS,
    files: Files | None = None,
    clock: Clock | None = None,
    on_fatal: Callable[[TsdbError], None] | None = None,
    store: ObjectStore | None = None,
    log: LogStore | None = None,
) -> Engine:
    """Open the engine of a life."""
    return Engine.open(
        store or LocalStore(root / "store", files=files),
        log or Wal.open(root / "wal", wal_options, files, clock)[0],
        options=replace(options, index_intermediate_path=root / "spill"),
        clock=clock,
        on_fatal=on_fatal,
        has_housekeeping=False,
    )


def begin(
    root: Path,
    *steps: Step,
    options: EngineOptions = OPTIONS,
    wal_options: WalSettings = WAL_OPTIONS,
    files: Files | None = None,
    clock: Clock | None = None,
    store: ObjectStore | None = None,
) -> Engine:
    """Open an engine and live some steps."""
    engine = open_life(root, options=options, wal_options=wal_options, files=files, clock=clock, store=store)
    live(engine, *steps)
    return engine


def live(engine: Engine, *steps: Step) -> None:
    for step in steps:
        step.run(engine)


def expected(*steps: Step) -> Sight:
    """What should be seen after some steps."""
    model: Model = {}
    for step in steps:
        step.apply(model)
    return see_model(model)


class ForgetfulStore(LocalStore):
    """A store that does what it is told and, like one at the other end of a network, may lose its reply."""

    def __init__(self, root: Path, *, files: Files | None = None) -> None:
        super().__init__(root / "store", files=files)
        self._lost: dict[str, int] = {}

    def lose_reply(self, name: str, times: int = 1) -> None:
        """Lose the replies to the next conditional writes of paths that contain a name."""
        self._lost[name] = times

    def put_if_absent(self, path: str, data: ObjectData) -> None:
        super().put_if_absent(path, data)
        for name, times in self._lost.items():
            if name in path and times:
                self._lost[name] -= 1
                raise StoreError("the store did not answer in time", path=path)


@dataclass
class Shown:
    """What one region should show."""

    fields: list[str]
    is_append: bool
    rows: list[Row] = field(default_factory=list)
    has_ttl: bool = False
    """Only rows that last are seen."""


Model = dict[RegionId, Shown]
Sight = dict[RegionId, tuple[list[str], list[tuple[tuple[str, object], ...]]]]
"""What a model or an engine shows, in a form that can be compared."""


@dataclass(frozen=True)
class Step:
    """Something that happens; complete when `run` returns."""

    name: str
    run: Callable[[Engine], object]
    apply: Callable[[Model], object] = lambda model: None


def see(engine: Engine) -> Sight:
    """Look at everything an engine shows."""
    found = {}
    for region in engine.region_ids():
        version = engine._region(region).version
        shown = Shown([column.name for column in version.schema.fields], version.options.append_mode)
        shown.has_ttl = version.options.ttl is not None
        cutoff = ttl_cutoff(engine.context, version)
        shown.rows = [row for row in read(engine, region) if cutoff is None or row["ts"] >= cutoff]
        found[region] = shown
    return see_model(found)


def see_model(model: Model) -> Sight:
    return {
        region: (
            [
                *sorted(shown.fields),
                *(["append mode"] if shown.is_append else []),
                *(["time to live"] if shown.has_ttl else []),
            ],
            _comparable(shown.rows),
        )
        for region, shown in model.items()
    }


def _comparable(rows: list[Row]) -> list[tuple[tuple[str, object], ...]]:
    return sorted((tuple(sorted(row.items())) for row in rows), key=repr)


def sights(steps: list[Step]) -> list[Sight]:
    """What should be seen before the first step, after it, and after each one that follows."""
    model: Model = {}
    found = [see_model(model)]
    for step in steps:
        step.apply(model)
        found.append(see_model(copy.deepcopy(model)))
    return found


def wait_until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def settle(engine: Engine) -> None:
    """Wait until no background job is left, and the workers have done what the last ones asked for."""
    background = engine.context.background
    submitted = -1
    # Until no worker asks for another job: one that came and went meanwhile has left its last step to a worker.
    while submitted != background.submitted:
        submitted = background.submitted
        wait_until(lambda: not background.queued and not background.running)
        # Twice: what a worker asks for after an acknowledgement is queued behind the first of these calls.
        settle_workers(engine)
        settle_workers(engine)


def settle_workers(engine: Engine) -> None:
    """Wait until the workers have done what was queued."""
    for worker in engine._workers:
        worker.call(lambda: None).result(30)


def unknown_files(engine: Engine) -> set[str]:
    """Objects in the store that no manifest knows, and files of manifests that are not in the store."""
    there = {item.path for item in engine.context.store.list("data") if "/manifest/" not in item.path}
    known = set()
    for region in engine.region_ids():
        directory = directory_of(region)
        for file_id, meta in engine._region(region).manifest.state.files.items():
            known |= {data_path(directory, file_id), *([index_path(directory, file_id)] if meta.has_index else [])}
    return there ^ known


def create(region: RegionId, *, options: RegionOptions | None = None, schema: RegionSchema = SCHEMA) -> Step:
    def apply(model: Model) -> None:
        fields = [column.name for column in schema.fields]
        model.setdefault(region, Shown(fields, options is not None and options.append_mode))

    return Step(
        f"create {region >> 32}",
        lambda engine: engine.create_region(region, directory_of(region), schema, options),
        apply,
    )


def put(region: RegionId, rows: list[Row]) -> Step:
    def run(engine: Engine) -> None:
        engine.write(region, batch_of(engine.schema(region), rows)).result(30)

    def apply(model: Model) -> None:
        shown = model[region]
        made = [{name: row.get(name) for name in ("host", "dc", "ts", *shown.fields)} for row in rows]
        if shown.is_append:
            shown.rows += made
        else:
            shown.rows = list({_key(row): row for row in (*shown.rows, *made)}.values())
        _let_expire(shown)

    return Step(f"put {region >> 32}", run, apply)


def delete(region: RegionId, rows: list[Row]) -> Step:
    def run(engine: Engine) -> None:
        engine.write(region, batch_of(engine.schema(region), rows, OpType.DELETE)).result(30)

    def apply(model: Model) -> None:
        gone = {_key(row) for row in rows}
        model[region].rows = [row for row in model[region].rows if _key(row) not in gone]

    return Step(f"delete {region >> 32}", run, apply)


def flush(region: RegionId) -> Step:
    return Step(f"flush {region >> 32}", lambda engine: engine.flush(region).result(30))


def add_column(region: RegionId, name: str, default: int) -> Step:
    def apply(model: Model) -> None:
        model[region].fields.append(name)
        for row in model[region].rows:
            row[name] = default

    return _alter(region, AddColumn(name, pa.int32(), default=default), apply)


def rename_column(region: RegionId, name: str, new_name: str) -> Step:
    def apply(model: Model) -> None:
        shown = model[region]
        shown.fields[shown.fields.index(name)] = new_name
        for row in shown.rows:
            row[new_name] = row.pop(name)

    return _alter(region, RenameColumn(name, new_name), apply)


def widen_column(region: RegionId, name: str) -> Step:
    return _alter(region, WidenColumn(name, pa.float64()), lambda model: None)


def _alter(region: RegionId, change: SchemaChange, apply: Callable[[Model], None]) -> Step:
    return Step(f"alter {region >> 32}", lambda engine: engine.alter(region, [change]).result(30), apply)


def set_options(region: RegionId, options: RegionOptions) -> Step:
    def apply(model: Model) -> None:
        model[region].is_append |= options.append_mode
        model[region].has_ttl = options.ttl is not None
        _let_expire(model[region])

    return Step(f"set options {region >> 32}", lambda engine: engine.set_options(region, options).result(30), apply)


def _let_expire(shown: Shown) -> None:
    if shown.has_ttl:
        shown.rows = [row for row in shown.rows if row["ts"] >= LASTING_MS]


def expire() -> Step:
    """Remove the files of which every row has expired."""

    def run(engine: Engine) -> None:
        engine.housekeeping.expire()
        settle_workers(engine)

    return Step("expire", run)


def truncate(region: RegionId) -> Step:
    return Step(
        f"truncate {region >> 32}",
        lambda engine: engine.truncate(region).result(30),
        lambda model: model[region].rows.clear(),
    )


def truncate_files(region: RegionId, span: TimeRange) -> Step:
    """Remove the files of a range of time, where all rows are flushed and no file reaches out of it."""

    def apply(model: Model) -> None:
        shown = model[region]
        shown.rows = [row for row in shown.rows if not span.start <= row["ts"] < span.end]

    return Step(f"truncate files {region >> 32}", lambda engine: engine.truncate(region, [span]).result(30), apply)


def compact(region: RegionId) -> Step:
    return Step(f"compact {region >> 32}", lambda engine: engine.compact(region).result(30))


def quarantine(region: RegionId) -> Step:
    """Suspect all files of a region, and find that they are whole."""

    def run(engine: Engine) -> None:
        suspect(engine, region)
        engine.verify(region, is_quarantined=True).result(30)
        assert not engine._region(region).quarantined

    return Step(f"quarantine {region >> 32}", run)


def give_up(region: RegionId, span: TimeRange) -> Step:
    """Give up the file of a range of time, where all rows are flushed and the file does not reach out of it."""

    def run(engine: Engine) -> None:
        suspect(engine, region)
        (file,) = (file for file in engine.files(region) if file.time_range.overlaps(span))
        engine.give_up_file(region, file.file_id).result(30)
        engine.verify(region).result(30)

    def apply(model: Model) -> None:
        shown = model[region]
        shown.rows = [row for row in shown.rows if not span.start <= row["ts"] < span.end]

    return Step(f"give up {region >> 32}", run, apply)


def suspect(engine: Engine, region: RegionId) -> None:
    """Quarantine the files of a region without a reason."""
    opened = engine._region(region)
    reasons = {file.file_id: "it is suspected" for file in engine.files(region)}
    opened.worker.call(lambda: opened.quarantine(engine.context, reasons)).result(30)


def discard(region: RegionId) -> Step:
    """Discard what is not flushed, of a region that has no files."""
    return Step(
        f"discard {region >> 32}",
        lambda engine: engine.discard_unflushed(region).result(30),
        lambda model: model[region].rows.clear(),
    )


def drop(region: RegionId) -> Step:
    return Step(f"drop {region >> 32}", lambda engine: engine.drop(region).result(30), lambda model: model.pop(region))


def purge() -> Step:
    return Step("purge", lambda engine: engine.housekeeping.purge())


def tick() -> Step:
    def run(engine: Engine) -> None:
        settle(engine)
        engine.housekeeping.tick()
        settle(engine)

    return Step("tick", run)


def close() -> Step:
    return Step("close", lambda engine: engine.close())


def _key(row: Row) -> tuple[object, ...]:
    return row.get("host"), row.get("dc"), row["ts"]


class Rows:
    """Makes rows whose values never repeat, so that a row that comes back by mistake is seen."""

    def __init__(self) -> None:
        self._count = 0

    def make(self, *keys: tuple[str, int], **more: object) -> list[Row]:
        return [self._row(host, at, more) for host, at in keys]

    def times(self, count: int) -> range:
        """Times that no row was made with before."""
        return range(self._count, self._count + count)

    def _row(self, host: str, at: int, more: dict[str, object]) -> Row:
        self._count += 1
        return {"host": host, "dc": "x", "ts": at, "a": self._count / 4, "b": self._count, **more}


def scripted() -> list[Step]:
    """A life in which everything happens at least twice: late rows, rotation, purge, checkpoints, all changes."""
    rows = Rows()
    appended = RegionOptions(append_mode=True)
    return [
        create(PLAIN),
        create(APPEND, options=appended),
        create(DROPPED),
        put(PLAIN, rows.make(("a", 0), ("a", 1), ("b", 0), ("b", DAY_MS))),
        put(APPEND, rows.make(("a", 0), ("a", 0), ("b", 1))),
        put(DROPPED, rows.make(("a", 0))),
        flush(PLAIN),
        put(PLAIN, rows.make(("a", 0), ("c", 2))),
        delete(PLAIN, rows.make(("a", 1), ("c", 2), ("nobody", 3))),
        flush(DROPPED),
        put(APPEND, rows.make(("a", 0), ("b", 1))),
        add_column(PLAIN, "c", 7),
        put(PLAIN, rows.make(("a", 1), ("d", 5), c=9)),
        flush(APPEND),
        put(APPEND, rows.make(("a", 0))),
        purge(),
        rename_column(PLAIN, "a", "x"),
        delete(PLAIN, rows.make(("b", 0))),
        flush(PLAIN),
        put(PLAIN, [{**row, "x": row["a"]} for row in rows.make(("b", 0), ("b", DAY_MS + 1))]),
        purge(),
        put(APPEND, rows.make(("late", -DAY_MS))),
        truncate(APPEND),
        put(APPEND, rows.make(("gone", 0))),
        discard(APPEND),
        put(APPEND, rows.make(("a", 0), ("a", 0))),
        flush(APPEND),
        put(DROPPED, rows.make(("a", 1))),
        drop(DROPPED),
        tick(),
        set_options(PLAIN, RegionOptions(write_buffer_size=Size(1 << 20))),
        widen_column(PLAIN, "b"),
        put(PLAIN, [{**row, "x": row["a"], "b": float(row["b"])} for row in rows.make(("a", 0), ("e", 1), c=1)]),
        delete(PLAIN, rows.make(("d", 5))),
        flush(PLAIN),
        flush(APPEND),
        purge(),
        truncate(PLAIN),
        put(PLAIN, [{**row, "x": row["a"], "b": float(row["b"])} for row in rows.make(("gone", 0))]),
        discard(PLAIN),
        put(PLAIN, [{**row, "x": row["a"], "b": float(row["b"])} for row in rows.make(("a", 0), ("z", 1), c=2)]),
        put(APPEND, rows.make(("a", 0))),
        flush(PLAIN),
        purge(),
        put(PLAIN, [{**row, "x": row["a"], "b": float(row["b"])} for row in rows.make(("z", 1), ("y", 1))]),
        delete(PLAIN, rows.make(("z", 1))),
        compact(PLAIN),
        put(PLAIN, [{**row, "x": row["a"], "b": float(row["b"])} for row in rows.make(("y", 1), ("w", 1))]),
        compact(APPEND),
        put(APPEND, rows.make(("far", 20 * DAY_MS))),
        flush(APPEND),
        quarantine(APPEND),
        give_up(APPEND, TimeRange(19 * DAY_MS, 21 * DAY_MS)),
        *_into_append_mode(rows),
        *_expiring(rows),
        close(),
    ]


def _into_append_mode(rows: Rows) -> Iterator[Step]:
    """A region with overwritten and deleted rows, in files and in memory, of which from now on every row is kept."""
    yield create(CHANGED)
    yield put(CHANGED, rows.make(("a", 0), ("a", 1), ("b", 0), ("far", 9 * DAY_MS)))
    yield put(CHANGED, rows.make(("a", 0)))
    yield flush(CHANGED)
    yield delete(CHANGED, rows.make(("a", 1)))
    yield put(CHANGED, rows.make(("b", 0)))
    yield set_options(CHANGED, RegionOptions(append_mode=True))
    yield put(CHANGED, rows.make(("a", 0), ("a", 1), ("b", 0)))
    yield put(CHANGED, rows.make(("a", 0)))
    yield compact(CHANGED)
    yield put(CHANGED, rows.make(("a", 0), ("far", 9 * DAY_MS)))
    yield flush(CHANGED)
    yield truncate_files(CHANGED, TimeRange(8 * DAY_MS, 10 * DAY_MS))
    yield put(CHANGED, rows.make(("a", 1)))


def _expiring(rows: Rows) -> Iterator[Step]:
    """A region whose old rows are hidden by a time to live, then removed by it, so that they do not come back."""
    schema = RegionSchema.create(
        [
            *((column.name, column.type, column.semantic) for column in SCHEMA.columns),
            ("s", pa.string(), Semantic.FIELD),
        ]
    )
    options = RegionOptions(
        skipping=tuple(SkippingIndex(column.id, 2, 0.01) for column in schema.fields),
        fulltext=(FulltextIndex(schema.by_name["s"].id, 2, 0.01, "English", False),),
    )
    retained = replace(options, ttl=Duration.of_seconds(3600))
    yield create(EXPIRING, options=options, schema=schema)
    yield put(EXPIRING, rows.make(("a", 0), ("b", 0), ("c", DAY_MS), s="disk full"))
    yield flush(EXPIRING)
    yield put(EXPIRING, rows.make(("a", 0), ("a", LASTING_MS), ("b", LASTING_MS), ("d", LASTING_MS + 1), s="all well"))
    yield flush(EXPIRING)
    yield set_options(EXPIRING, retained)
    yield put(EXPIRING, rows.make(("a", 1), ("a", LASTING_MS), ("e", LASTING_MS), s=None))
    yield delete(EXPIRING, rows.make(("b", 0), ("b", LASTING_MS)))
    yield expire()
    yield flush(EXPIRING)
    yield expire()
    yield compact(EXPIRING)
    yield put(EXPIRING, rows.make(("a", LASTING_MS + 2), s="again"))
    yield set_options(EXPIRING, options)
    yield put(EXPIRING, rows.make(("f", 0), ("f", LASTING_MS), s="disk full again"))
    yield flush(EXPIRING)
    yield compact(EXPIRING)


def torn_segment(root: Path) -> None:
    """Leave the beginning of a frame at the end of the log, as a process does that dies in a write."""
    last = max((root / "wal").glob("*.wal"))
    with last.open("ab") as file:
        file.write(b"TSF\x01 torn")


def paths(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file())

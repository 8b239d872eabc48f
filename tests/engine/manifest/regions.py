"""Regions, files and stores for the tests of the manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from tsdb.clock import Clock, ManualClock
from tsdb.engine.manifest import Edit, FileMeta, Manifest
from tsdb.model import RegionId, RegionOptions, RegionSchema, Semantic, TimeRange
from tsdb.store import MemoryStore, ObjectData, ObjectMeta, ObjectStore, StoreError

DIRECTORY = "data/tsdb/public/7/7_0000000001"
REGION = RegionId(7 << 32 | 1)
CLOCK = ManualClock(now_ns=1_000_000_000_000_000)
NOW_MS = 1_000_000_000
OPTIONS = RegionOptions()
SCHEMA = RegionSchema.create(
    [
        ("host", pa.string(), Semantic.TAG),
        ("usage", pa.float64(), Semantic.FIELD),
        ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
    ]
)
_T = TypeVar("_T")


def file_id(number: int) -> str:
    return f"{number:032x}"


def make_file(number: int) -> FileMeta:
    return FileMeta(
        file_id=file_id(number),
        time_range=TimeRange(number * 100, number * 100 + 100),
        rows=number + 1,
        size_bytes=1000 + number,
        index_size_bytes=number % 2 * 10,
        level=number % 3,
        series=number + 1,
        row_groups=1,
        sequence_min=number,
        sequence_max=number + 1,
        has_tombstones=number % 2 == 1,
        is_unique=number % 2 == 0,
        schema_version=0,
        created_ms=NOW_MS,
    )


def next_schema(schema: RegionSchema) -> RegionSchema:
    """The schema after its first column got another name."""
    first = replace(schema.columns[0], name=f"host{schema.version + 1}")
    return schema.with_columns((first, *schema.columns[1:]))


def create(
    store: ObjectStore,
    *,
    schema: RegionSchema = SCHEMA,
    epoch: int = 1,
    distance: int = 0,
    clock: Clock = CLOCK,
) -> Manifest:
    return Manifest.create(
        store, DIRECTORY, REGION, schema, OPTIONS, epoch=epoch, checkpoint_distance=distance, clock=clock
    )


def reopen(store: ObjectStore, *, epoch: int = 1, distance: int = 0) -> Manifest:
    return Manifest.open(store, DIRECTORY, REGION, epoch=epoch, checkpoint_distance=distance, clock=CLOCK)


def names(store: ObjectStore) -> list[str]:
    """The objects of the manifest, without the zeroes in front."""
    paths = [found.path for found in store.list(f"{DIRECTORY}/manifest")]
    return [path.rpartition("/")[2].lstrip("0") for path in paths]


def path_of(name: str) -> str:
    """The path of an object of the manifest, `12.json` or `_last_checkpoint`."""
    version, dot, suffix = name.partition(".")
    return f"{DIRECTORY}/manifest/" + (f"{int(version):020}.{suffix}" if dot else name)


def write(store: ObjectStore, *, commits: int, distance: int) -> None:
    """Add files one by one, each in place of the one before the last; print the number of each that is committed."""
    manifest = create(store, distance=distance)
    for number in range(commits):
        removed = (file_id(number - 2),) if number >= 2 else ()
        manifest.commit(Edit(added=(make_file(number),), removed=removed, flushed_entry_id=number + 1))
        print(number, flush=True)
        if manifest.needs_checkpoint:
            manifest.checkpoint()


class FaultyStore(MemoryStore):
    """A store in memory whose next calls can be made to fail, before or after they took effect."""

    def __init__(self) -> None:
        super().__init__()
        self._faults: list[tuple[str, str]] = []
        self._late: list[Callable[[], None]] = []

    def fail(self, operation: str) -> None:
        """Let the next call of an operation fail without effect."""
        self._faults.append((operation, "fail"))

    def lose_reply(self, operation: str) -> None:
        """Let the next call of an operation take effect and then fail."""
        self._faults.append((operation, "lose_reply"))

    def delay(self, operation: str) -> None:
        """Let the next call of an operation fail and take effect with `deliver`."""
        self._faults.append((operation, "delay"))

    def heal(self) -> None:
        """No more faults; calls that are still under way never arrive."""
        self._faults.clear()
        self._late.clear()

    def deliver(self) -> None:
        """Let the delayed calls arrive, whatever becomes of them."""
        while self._late:
            try:
                self._late.pop(0)()
            except StoreError:
                continue

    def put(self, path: str, data: ObjectData) -> None:
        self._call("put", lambda: super(FaultyStore, self).put(path, data))

    def put_if_absent(self, path: str, data: ObjectData) -> None:
        self._call("put_if_absent", lambda: super(FaultyStore, self).put_if_absent(path, data))

    def get(self, path: str) -> bytes:
        return self._call("get", lambda: super(FaultyStore, self).get(path))

    def head(self, path: str) -> ObjectMeta:
        return self._call("head", lambda: super(FaultyStore, self).head(path))

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        return self._call("list", lambda: super(FaultyStore, self).list(prefix, start_after))

    def delete(self, path: str) -> None:
        self._call("delete", lambda: super(FaultyStore, self).delete(path))

    def _call(self, operation: str, call: Callable[[], _T]) -> _T:
        for fault in self._faults:
            if fault[0] == operation:
                self._faults.remove(fault)
                return self._strike(fault[1], call)
        return call()

    def _strike(self, kind: str, call: Callable[[], _T]) -> _T:
        if kind == "lose_reply":
            call()
        elif kind == "delay":
            self._late.append(lambda: (call(), None)[1])
        raise StoreError("the request timed out")

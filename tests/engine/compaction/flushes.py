"""Small files to merge, and merges that stop where a test wants them to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engine.harness import (
    DIRECTORY,
    REGION,
    Row,
    delete,
    put,
    scan,
)
from tsdb.engine import Engine
from tsdb.engine.compaction import Pick
from tsdb.engine.region.compact import install_job, write_job
from tsdb.engine.region.compact_plan import make_job
from tsdb.model import MergeMode, RegionOptions
from tsdb.store import on_crash_point

MODES = [RegionOptions(), RegionOptions(merge_mode=MergeMode.LAST_NON_NULL), RegionOptions(append_mode=True)]


def row(host: str, ts: int, a: float | None = 1.0, b: int | None = 0) -> Row:
    return {"host": host, "dc": "x", "ts": ts, "a": a, "b": b}


def flushed(engine: Engine, *rows: Row) -> None:
    """Write rows and flush them to files of their own."""
    put(engine, rows)
    engine.flush(REGION).result(60)


def deleted(engine: Engine, *rows: Row) -> None:
    delete(engine, rows)
    engine.flush(REGION).result(60)


def values(engine: Engine) -> list[tuple[object, ...]]:
    return sorted((each["host"], each["ts"], each["a"]) for each in scan(engine))


def data_files(root: Path) -> list[Path]:
    return sorted((root / DIRECTORY).glob("*.parquet"))


def zero_pages(file: Path) -> None:
    """Damage all that a data file holds but its footer."""
    content = bytearray(file.read_bytes())
    pages = slice(4, len(content) - 8 - int.from_bytes(content[-8:-4], "little"))
    content[pages] = bytes(len(content[pages]))
    file.write_bytes(content)


def merge(engine: Engine, *positions: int) -> None:
    """Merge some files, counted in the order in which they were written."""
    region = engine._region(REGION)
    metas = sorted((handle.meta for handle in region.version.files), key=lambda meta: meta.sequence_max)
    job = make_job(engine.context, region.version, Pick(tuple(metas[at] for at in positions)))
    written = write_job(engine.context, region, job)
    assert region.worker.call(lambda: install_job(engine.context, region, job, written)).result(60)


@contextmanager
def held(place: str) -> Iterator[threading.Event]:
    """Let threads that pass a place wait there until the block ends; the event says that somebody came."""
    gate, came = threading.Event(), threading.Event()

    def wait(name: str) -> None:
        if name == place:
            came.set()
            assert gate.wait(60)

    with on_crash_point(wait):
        try:
            yield came
        finally:
            gate.set()

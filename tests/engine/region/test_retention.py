"""What a region remembers is bounded by its retention: not only rows go, but all that is known of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.engine import lives
from tests.engine.harness import DIRECTORY, OPTIONS, REGION, create, open_engine, put, scan
from tests.engine.lives import DAY_MS
from tsdb.clock import ManualClock
from tsdb.engine import Engine
from tsdb.engine.reading import KnownSeriesRequest
from tsdb.engine.region.housekeeping import EXPIRY_INTERVAL
from tsdb.engine.rows.cache import MetaKey
from tsdb.model import MemtableKind, RegionOptions, TimeRange
from tsdb.units import Duration

DAY = Duration.of_seconds(86_400)
DAYS, HALF = 24, 12
SERIES = 50
"""New ones every day, as containers have them."""


@dataclass(frozen=True)
class Held:
    """What is held of a region."""

    files: int
    rows: int
    removed: int
    manifest_files: int
    manifest_bytes: int
    meta_bytes: int
    vector_bytes: int
    kept_bytes: int


def live_a_day(engine: Engine, clock: ManualClock, day: int) -> None:
    rows = [
        {"host": f"pod-{day}-{number}", "dc": "x", "ts": day * DAY_MS + number, "a": 1.0} for number in range(SERIES)
    ]
    put(engine, rows)
    engine.flush(REGION).result(10)
    engine.open_reader(REGION).known_series(KnownSeriesRequest(TimeRange.ALL, None))
    assert len(scan(engine)) >= SERIES
    clock.advance(seconds=86_400)
    engine.housekeeping.tick()
    lives.settle(engine)
    clock.advance(seconds=EXPIRY_INTERVAL.seconds)
    engine.housekeeping.tick()
    lives.settle(engine)


def held(engine: Engine, root: Path) -> Held:
    region, caches = engine._region(REGION), engine.context.caches
    manifest = list((root / DIRECTORY / "manifest").iterdir())
    return Held(
        files=len(list((root / DIRECTORY).glob("*.parquet"))),
        rows=sum(file.rows for file in engine.files(REGION)),
        removed=len(region.manifest.state.removed_files),
        manifest_files=len(manifest),
        manifest_bytes=sum(file.stat().st_size for file in manifest),
        meta_bytes=caches.sst_meta.statistics().bytes,
        vector_bytes=caches.vectors.statistics().bytes,
        kept_bytes=engine.context.buffer.kept,
    )


@pytest.mark.parametrize("kind", list(MemtableKind))
def test_what_is_known_of_expired_rows_goes_with_them(tmp_path: Path, kind: MemtableKind) -> None:
    clock = ManualClock(DAY)
    engine = open_engine(tmp_path, clock=clock, options=replace(OPTIONS, memtable_type=kind))
    create(engine, options=RegionOptions(ttl=Duration(3 * DAY)))
    found = []
    for day in range(1, DAYS):
        live_a_day(engine, clock, day)
        found.append(held(engine, tmp_path))
    before, after = found[HALF - 8 : HALF], found[-8:]
    for name in Held.__dataclass_fields__:
        most = max(getattr(each, name) for each in before)
        assert max(getattr(each, name) for each in after) <= most * 1.3, name
    assert after[-1].rows <= 4 * SERIES
    engine.close()
    engine = open_engine(tmp_path, clock=clock)
    assert len(engine.files(REGION)) == after[-1].files
    engine.close()


def test_the_caches_forget_a_file_that_expires(tmp_path: Path) -> None:
    clock = ManualClock(2 * DAY)
    engine = open_engine(tmp_path, clock=clock)
    create(engine, options=RegionOptions(ttl=DAY))
    put(engine, [{"host": "a", "ts": 2 * DAY_MS, "a": 1.0}])
    engine.flush(REGION).result(10)
    assert len(scan(engine)) == 1
    (file,) = engine.files(REGION)
    caches = engine.context.caches
    assert caches.sst_meta.peek(MetaKey(file.file_id, "footer")) is not None
    clock.advance(seconds=86_401)
    engine.housekeeping.tick()
    lives.settle(engine)
    assert not engine.files(REGION)
    assert caches.sst_meta.peek(MetaKey(file.file_id, "footer")) is None
    assert not caches.vectors.statistics().bytes
    engine.close()

"""Inverted indexes in the life of a region: the settings, failed builds, deletion, and how little a query reads."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.engine import lives
from tests.engine.harness import DIRECTORY, OPTIONS, REGION, SCHEMA, create, open_engine
from tests.engine.reads import scan_batches
from tests.faults import FaultyFiles
from tsdb.engine.engine import Engine
from tsdb.engine.region.context import EngineOptions
from tsdb.engine.scan import ScanStatistics
from tsdb.engine.tuning import EngineTuning, IndexTuning, MergeTuning
from tsdb.engine.wal import Wal
from tsdb.model import Batch, RenameColumn
from tsdb.store import LocalStore, RangeFile
from tsdb.units import Size

SERIES = 600
SMALL = EngineTuning(index=IndexTuning(series_min=100, page_series=32, page_values=32))
INDEXED = replace(OPTIONS, tuning=SMALL, sst_meta_cache_size=Size(0))
"""No series block stays in memory, so that queries depend on indexes."""


def write(engine: Engine, start: int, *, series: int = SERIES, points: int = 2) -> None:
    """Write rows of many hosts in ten data centres."""
    hosts = np.repeat(np.arange(series), points)
    batch = pa.record_batch(
        {
            "host": pa.array([f"h{number:06}" for number in hosts]),
            "dc": pa.array([f"dc{number % 10}" for number in hosts]),
            "ts": pa.array(np.tile(np.arange(start, start + points), series)).cast(pa.timestamp("ms")),
            "a": pa.array(np.random.default_rng(start).random(series * points)),
            "b": pa.array(hosts),
        }
    )
    engine.write(REGION, Batch.from_arrow(SCHEMA, batch)).result(30)


def ask(
    engine: Engine, filter: Any, columns: tuple[str, ...] = ("host", "ts", "b")
) -> tuple[list[Any], ScanStatistics]:
    counters = ScanStatistics()
    batches = list(scan_batches(engine.snapshot(REGION), columns, filter, statistics=counters))
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    return sorted(rows), counters


@pytest.mark.parametrize(("on_flush", "on_compaction", "on_query"), list(product([True, False], repeat=3)))
def test_all_settings_give_the_same_rows_and_different_counters(
    on_flush: bool, on_compaction: bool, on_query: bool, tmp_path: Path
) -> None:
    options = replace(INDEXED, index_on_flush=on_flush, index_on_compaction=on_compaction, index_on_query=on_query)
    engine = open_engine(tmp_path, options=options)
    create(engine)
    for start in (0, 2):
        write(engine, start)
        engine.flush(REGION).result(60)
    filter = pc.field("host") == "h000123"
    rows, counters = ask(engine, filter)
    assert [(host, b) for host, _, b in rows] == [("h000123", 123)] * 4
    assert counters.index_files == (2 if on_flush and on_query else 0)
    assert [bool(file.index_bytes) for file in engine.files(REGION)] == [on_flush] * 2
    engine.compact(REGION).result(60)
    again, counters = ask(engine, filter)
    assert again == rows
    assert counters.index_files == (1 if on_compaction and on_query else 0)
    assert counters.series_excluded_by_index == (SERIES - 1 if on_compaction and on_query else 0)
    assert [bool(file.index_bytes) for file in engine.files(REGION)] == [on_compaction]
    engine.close()


def test_values_above_the_threshold_are_sorted_on_disk_and_give_the_same_index(tmp_path: Path) -> None:
    sizes = []
    for name, threshold in (("memory", None), ("disk", Size(1000))):
        spill = tmp_path / f"{name}-spill"
        options = replace(INDEXED, index_memory_size=threshold, index_intermediate_path=spill)
        engine = open_engine(tmp_path / name, options=options)
        create(engine)
        write(engine, 0)
        engine.flush(REGION).result(60)
        rows, counters = ask(engine, pc.field("dc") == "dc7")
        assert (len(rows), counters.series_kept) == (SERIES // 10 * 2, SERIES // 10)
        assert spill.exists() == (threshold is not None)
        assert not (spill.exists() and list(spill.iterdir()))
        (file,) = engine.files(REGION)
        sizes.append(file.rows)
        engine.close()
    assert sizes[0] == sizes[1]


def test_what_a_killed_build_left_is_removed_at_the_start(tmp_path: Path) -> None:
    left = tmp_path / "spill" / "tsdb-index-0123"
    left.mkdir(parents=True)
    (left / "0.run").write_bytes(b"x")
    open_engine(tmp_path / "data", options=replace(OPTIONS, index_intermediate_path=tmp_path / "spill")).close()
    assert not left.exists()


def test_a_failed_build_costs_no_flush_and_the_next_compaction_makes_up_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "spill").write_text("no directory")
    options = replace(INDEXED, index_memory_size=Size(1000), index_intermediate_path=tmp_path / "spill")
    engine = open_engine(tmp_path / "data", options=options)
    create(engine)
    write(engine, 0)
    engine.flush(REGION).result(60)
    (file,) = engine.files(REGION)
    assert (file.index_bytes, file.index_path) == (0, None)
    assert "the index of a data file cannot be written" in caplog.text
    rows, counters = ask(engine, pc.field("host") == "h000123")
    assert (len(rows), counters.index_files) == (2, 0)
    (tmp_path / "spill").unlink()
    write(engine, 2)
    engine.flush(REGION).result(60)
    engine.compact(REGION).result(60)
    rows, counters = ask(engine, pc.field("host") == "h000123")
    assert (len(rows), counters.index_files) == (4, 1)
    engine.close()


def test_an_index_that_the_disk_refuses_costs_no_flush(tmp_path: Path) -> None:
    disk = FaultyFiles()
    engine = open_engine(tmp_path, options=INDEXED, files=disk)
    create(engine)
    write(engine, 0)
    disk.fail("write", errno.ENOSPC, name=".idx")
    engine.flush(REGION).result(60)
    rows, counters = ask(engine, pc.field("host") == "h000123")
    assert (len(rows), counters.index_files) == (2, 0)
    engine.close()


def test_index_files_go_with_their_data_files_and_orphans_are_swept(tmp_path: Path) -> None:
    engine = open_engine(tmp_path, options=INDEXED)
    create(engine)
    for start in (0, 2):
        write(engine, start)
        engine.flush(REGION).result(60)
    engine.compact(REGION).result(60)
    lives.settle(engine)
    (file,) = engine.files(REGION)
    directory = tmp_path / DIRECTORY / "index"
    assert [path.stem for path in directory.iterdir()] == [file.file_id]
    engine.close()
    (directory / f"{'f' * 32}.idx").write_bytes(b"left by a killed flush")
    engine = open_engine(tmp_path, options=INDEXED)
    lives.wait_until(lambda: [path.stem for path in directory.iterdir()] == [file.file_id])
    assert ask(engine, pc.field("host") == "h000123")[1].index_files == 1, "the manifest has told of the index"
    engine.close()


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_a_damaged_index_costs_speed_and_no_answer(place: float, tmp_path: Path) -> None:
    engine = open_engine(tmp_path, options=INDEXED)
    create(engine)
    write(engine, 0)
    engine.flush(REGION).result(60)
    (path,) = (tmp_path / DIRECTORY / "index").iterdir()
    content = bytearray(path.read_bytes())
    damaged = range(int(len(content) * place), int(len(content) * place) + 200)
    for at in damaged:
        content[at] ^= 0xFF
    path.write_bytes(content)
    for number in range(0, SERIES, 50):
        rows, _ = ask(engine, pc.field("host") == f"h{number:06}")
        assert [row[2] for row in rows] == [number] * 2
    engine.close()


def test_a_tag_that_was_renamed_is_found_by_its_index(tmp_path: Path) -> None:
    engine = open_engine(tmp_path, options=INDEXED)
    create(engine)
    write(engine, 0)
    engine.flush(REGION).result(60)
    engine.alter(REGION, [RenameColumn("host", "node")]).result(30)
    rows, counters = ask(engine, pc.field("node") == "h000123", ("node", "b"))
    assert (rows, counters.index_files) == ([("h000123", 123)] * 2, 1)
    engine.close()


class CountingStore(LocalStore):
    """Counts the bytes that are read."""

    bytes_read = 0

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        self.bytes_read += length
        return super().get_range(path, offset, length)

    def open_input(self, path: str) -> pa.NativeFile:
        return RangeFile(self.head(path).size_bytes, partial(self.get_range, path)).as_arrow()


@pytest.fixture
def table_of_many_series(tmp_path: Path) -> Iterator[tuple[Engine, CountingStore, int]]:
    """100,000 series of ten rows, in as many row groups as a table with a hundred rows of each has by default."""
    tuning = EngineTuning(merge=MergeTuning(row_group_bytes_max=409_600))
    options = EngineOptions(num_workers=1, max_background_jobs=2, tuning=tuning)
    engine = open_engine(tmp_path, options=options)
    create(engine)
    write(engine, 0, series=100_000, points=10)
    engine.flush(REGION).result(60)
    engine.close()
    store = CountingStore(tmp_path)
    engine = Engine.open(store, Wal.open(tmp_path / "wal")[0], options=options, has_housekeeping=False)
    total = sum(
        path.stat().st_size for path in (tmp_path / DIRECTORY).rglob("*") if path.suffix in (".parquet", ".idx")
    )
    yield engine, store, total
    engine.close()


def test_one_value_of_a_hundred_thousand_reads_a_fiftieth_of_the_table(
    table_of_many_series: tuple[Engine, CountingStore, int],
) -> None:
    engine, store, total = table_of_many_series
    (file,) = engine.files(REGION)
    assert file.rows == 1_000_000
    store.bytes_read = 0
    rows, counters = ask(engine, pc.field("host") == "h077777", ("host", "ts", "a", "b"))
    assert [row[3] for row in rows] == [77_777] * 10
    assert counters.index_files == 1
    assert store.bytes_read <= 0.02 * total, f"{store.bytes_read} of {total}"

"""The engine's interface: settings that reach the reader, and reading through DataFusion."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import datafusion
import pytest

from tests.engine.harness import OPTIONS, REGION, create, open_engine, put
from tests.engine.reads import scan_batches
from tests.engine.region_dataset import RegionDataset
from tsdb.engine.scan import ScanStatistics


@pytest.mark.parametrize(("parallelism", "fragments"), [(0, max(1, (os.cpu_count() or 1) // 4)), (1, 1), (3, 3)])
def test_scan_parallelism_is_the_number_of_fragments(parallelism: int, fragments: int, tmp_path: Path) -> None:
    engine = open_engine(tmp_path, options=replace(OPTIONS, scan_parallelism=parallelism))
    create(engine)
    put(engine, [{"host": f"h{number}", "ts": number, "a": float(number)} for number in range(9000)])
    assert engine.open_reader(REGION).plan_scan(None).shares == fragments
    engine.close()


def test_datafusion_reads_memtables_and_files_as_one_table(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    put(engine, [{"host": "a", "ts": 1, "a": 1.0}, {"host": "b", "ts": 1, "a": 2.0}])
    engine.flush(REGION).result(timeout=30)
    put(engine, [{"host": "a", "ts": 1, "a": 10.0}, {"host": "c", "ts": 2, "a": 3.0}])
    context = datafusion.SessionContext()
    context.register_dataset("t", RegionDataset(engine.open_reader(REGION)))
    (batch,) = context.sql("SELECT host, sum(a) AS a FROM t GROUP BY host ORDER BY host").collect()
    assert batch.to_pydict() == {"host": ["a", "b", "c"], "a": [10.0, 2.0, 3.0]}
    engine.close()


def test_a_snapshot_stays_as_it_was_taken(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    put(engine, [{"host": "a", "ts": 1, "a": 1.0}])
    dataset = RegionDataset(engine.open_reader(REGION))
    put(engine, [{"host": "a", "ts": 1, "a": 2.0}, {"host": "b", "ts": 1, "a": 3.0}])
    engine.flush(REGION).result(timeout=30)
    engine.truncate(REGION).result(timeout=30)
    context = datafusion.SessionContext()
    context.register_dataset("t", dataset)
    (batch,) = context.sql("SELECT host, a FROM t").collect()
    assert batch.to_pydict() == {"host": ["a"], "a": [1.0]}
    engine.close()


def test_a_scan_says_what_it_found_decoded_and_what_it_had_to_read(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    put(engine, [{"host": "h", "dc": "d", "ts": at, "a": float(at), "b": at} for at in range(100)])
    engine.flush(REGION).result(30)

    def counted() -> dict[str, int]:
        statistics = ScanStatistics()
        list(scan_batches(engine.snapshot(REGION), ["ts", "a"], statistics=statistics))
        return statistics.to_dict()

    first, second = counted(), counted()
    assert (first["vector_hits"], first["vector_misses"]) == (0, 2)
    assert 0 < first["bytes_read"] < engine.files(REGION)[0].size_bytes
    assert (second["vector_hits"], second["vector_misses"], second["bytes_read"]) == (2, 0, 0)
    engine.close()

"""The tables about files say what is on the disk of a real database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tsdb
from tests.storage import local_files_only

pytestmark = local_files_only

WITHOUT_FILES = {"sst_num": 0, "sst_size": 0, "index_size": 0}
REGION_ROWS = [2, 1]
"""Of the two partitions."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def db(home: Path) -> Iterator[tsdb.Connection]:
    with tsdb.connect(home) as opened:
        opened.sql(
            "CREATE TABLE t (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE)"
            " PARTITION ON COLUMNS (host) (host < 'm', host >= 'm')"
        )
        opened.sql("INSERT INTO t VALUES ('a', 1000, 1), ('b', 2000, 2), ('z', 3000, 3)")
        yield opened


def read(db: tsdb.Connection, name: str, order: str = "region_id") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = db.sql(f"SELECT * FROM information_schema.{name} ORDER BY {order}").arrow().to_pylist()
    return rows


def sizes(home: Path, pattern: str) -> dict[str, int]:
    return {path.relative_to(home).as_posix(): path.stat().st_size for path in home.glob(pattern)}


def test_a_table_has_no_files_before_a_flush(db: tsdb.Connection) -> None:
    assert [read(db, name, "file_path") for name in ("ssts_manifest", "ssts_storage")] == [[], []]
    assert read(db, "ssts_index_meta") == []
    for row, rows in zip(read(db, "region_statistics"), REGION_ROWS, strict=True):
        assert row.items() >= {**WITHOUT_FILES, "region_rows": rows, "disk_size": row["manifest_size"]}.items()
        assert row["memtable_size"] > 0


def test_files_are_listed_with_their_sizes_and_rows_after_a_flush(db: tsdb.Connection, home: Path) -> None:
    db.sql("ADMIN flush_table('t')")
    data, index = sizes(home, "data/**/*.parquet"), sizes(home, "data/**/*.idx")
    assert len(data) == len(index) == 2
    stored = {row["file_path"]: row["file_size"] for row in read(db, "ssts_storage", "file_path")}
    assert stored == data | index
    listed = read(db, "ssts_manifest")
    assert {row["file_path"]: row["file_size"] for row in listed} == data
    assert {row["index_file_path"]: row["index_file_size"] for row in listed} == index
    assert {row["index_file_path"]: row["blob_size"] for row in read(db, "ssts_index_meta")} == index
    assert [row["num_rows"] for row in listed] == REGION_ROWS
    for row in listed:
        footer = pq.read_metadata(home / row["file_path"])
        assert (row["num_rows"], row["num_row_groups"]) == (footer.num_rows, footer.num_row_groups)
        assert row["file_path"].startswith(row["table_dir"])
        assert Path(row["file_path"]).stem == row["file_id"]
    assert [(row["min_ts"].value, row["max_ts"].value) for row in listed] == [
        (1_000_000_000, 2_000_000_000),
        (3_000_000_000, 3_000_000_000),
    ]


def test_the_statistics_of_a_region_add_up_its_files(db: tsdb.Connection, home: Path) -> None:
    db.sql("ADMIN flush_table('t')")
    db.sql("INSERT INTO t VALUES ('a', 4000, 4)")
    db.sql("ADMIN flush_table('t')")
    files = read(db, "ssts_manifest")
    for row, rows, count in zip(read(db, "region_statistics"), (3, 1), (2, 1), strict=True):
        own = [each for each in files if each["region_id"] == row["region_id"]]
        (manifests,) = {(home / each["file_path"]).parent / "manifest" for each in own}
        manifest_size = sum(path.stat().st_size for path in manifests.iterdir())
        assert (row["region_rows"], row["sst_num"], row["memtable_size"]) == (rows, count, 0)
        assert len(own) == count
        assert row["sst_size"] == sum(each["file_size"] for each in own)
        assert row["index_size"] == sum(each["index_file_size"] for each in own)
        assert row["manifest_size"] == manifest_size
        assert row["disk_size"] == row["sst_size"] + row["index_size"] + manifest_size

"""What other programs see in a data file, and how its columns are stored."""

from __future__ import annotations

import io
import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.engine.sst.files import DIRECTORY, HOSTS, Files, hosts, run_of, schema_of
from tsdb.engine.sst import FORMAT_VERSION, WrittenFile
from tsdb.model import Column, MergeMode, OpType, RegionOptions, RegionSchema
from tsdb.store import LocalStore


def parquet_of(files: Files, written: WrittenFile) -> pq.ParquetFile:
    return pq.ParquetFile(io.BytesIO(files.store.get(f"{DIRECTORY}/{written.meta.file_id}.parquet")))


def encodings_of(parquet: pq.ParquetFile) -> dict[str, set[str]]:
    """The encodings of values, without those of Parquet's own levels and dictionary pages."""
    group = parquet.metadata.row_group(0)
    return {
        group.column(at).path_in_schema: set(group.column(at).encodings) - {"RLE"} for at in range(group.num_columns)
    }


def test_duckdb_and_pyarrow_read_a_file_as_plain_parquet(tmp_path: Path) -> None:
    schema = schema_of(
        {"host": pa.string(), "rack": pa.int64()},
        {"usage": pa.float64(), "note": pa.string(), "on": pa.bool_(), "day": pa.date32()},
    )
    columns = {
        "host": pa.array(["b", "a", None, "a"]),
        "rack": pa.array([1, 2, 3, 2]),
        "ts": pa.array([3000, 2000, 1000, 5000], pa.timestamp("ms")),
        "usage": pa.array([0.5, -0.0, float("inf"), None]),
        "note": pa.array(["x", None, "", "é"]),
        "on": pa.array([True, False, None, True]),
        "day": pa.array([0, 1, None, 2], pa.int32()).cast(pa.date32()),
    }
    files = Files(schema, store=LocalStore(tmp_path), options=RegionOptions(merge_mode=MergeMode.LAST_NON_NULL))
    written = files.write(run_of(schema, columns, base_sequence=10))
    path = tmp_path / DIRECTORY / f"{written.meta.file_id}.parquet"
    expected = pa.table(columns).take([2, 1, 3, 0]).to_pylist()

    table = pq.read_table(path)
    assert table.select(list(columns)).to_pylist() == expected
    assert table["__sequence"].to_pylist() == [12, 11, 13, 10]
    assert table["__tsid"].to_pylist() == np.repeat(written.block.table.tsid, np.diff(written.block.offsets)).tolist()
    names = ", ".join(f'"{name}"' for name in columns)
    rows = duckdb.connect().execute(f"select {names} from read_parquet('{path}')").fetchall()
    assert rows == [tuple(row.values()) for row in expected]


def test_columns_carry_the_ids_of_the_region() -> None:
    schema = RegionSchema(
        tuple(Column(column.id, column.name, column.type, column.semantic) for column in reversed(HOSTS.columns)),
        next_column_id=4,
    )
    files = Files(schema)
    parquet = parquet_of(files, files.write(hosts(schema, series=2, points=2)))
    ids = {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in parquet.schema_arrow}
    assert {name: ids[name] for name in ("count", "usage", "ts", "host")} == {
        "count": 3,
        "usage": 2,
        "ts": 1,
        "host": 0,
    }


def test_the_footer_says_what_the_manifest_knows() -> None:
    files = Files(HOSTS, row_group_rows=3)
    written = files.write(hosts(HOSTS, series=2, points=4, base_sequence=5))
    parquet = parquet_of(files, written)
    facts = {
        key.decode().removeprefix("tsdb:"): json.loads(value)
        for key, value in parquet.metadata.metadata.items()
        if key.startswith(b"tsdb:")
    }
    assert RegionSchema.from_json(facts.pop("region_schema")) == HOSTS
    assert facts == {
        "format_version": FORMAT_VERSION,
        "sequence_min": 5,
        "sequence_max": 12,
        "series": 2,
        "has_tombstones": False,
        "is_unique": True,
        "constant_sequence": 12,
        "sorted_by": ["host", "ts"],
    }
    assert (written.meta.level, written.meta.row_groups, written.meta.created_ms) == (1, 3, 1_700_000_000_000)
    assert written.meta.size_bytes == len(files.store.get(files.paths[0]))
    assert written.meta.index_size_bytes == len(files.store.get(files.paths[1]))


def test_row_groups_are_cut_across_stripes() -> None:
    files = Files(HOSTS, row_group_rows=30, stripe_rows=25)
    parquet = parquet_of(files, files.write(hosts(HOSTS, series=10, points=10)))
    groups = [parquet.metadata.row_group(at).num_rows for at in range(parquet.num_row_groups)]
    assert groups == [30, 30, 30, 10]


def test_the_dictionary_of_a_tag_holds_only_the_values_of_its_row_group() -> None:
    files = Files(HOSTS, row_group_rows=20)
    parquet = parquet_of(files, files.write(hosts(HOSTS, series=10, points=10)))
    second = parquet.read_row_group(1, columns=["host"]).column(0).combine_chunks()
    assert second.dictionary.to_pylist() == ["h0002", "h0003"]


def test_one_sequence_for_all_rows_is_in_the_footer_and_not_in_a_column() -> None:
    files = Files(HOSTS)
    written = files.write(hosts(HOSTS, series=1, points=1, base_sequence=77))
    parquet = parquet_of(files, written)
    assert "__sequence" not in parquet.schema_arrow.names
    assert parquet.metadata.metadata[b"tsdb:constant_sequence"] == b"77"


@pytest.mark.parametrize(
    ("options", "is_stored"),
    [
        (RegionOptions(), False),
        (RegionOptions(merge_mode=MergeMode.LAST_NON_NULL), True),
        (RegionOptions(append_mode=True), True),
    ],
)
def test_sequences_are_stored_only_where_a_key_may_have_several_rows(options: RegionOptions, is_stored: bool) -> None:
    files = Files(HOSTS, options=options)
    written = files.write(hosts(HOSTS, series=2, points=2, base_sequence=5))
    parquet = parquet_of(files, written)
    assert ("__sequence" in parquet.schema_arrow.names) is is_stored
    assert (b"tsdb:constant_sequence" in parquet.metadata.metadata) is not is_stored
    assert (written.meta.sequence_min, written.meta.sequence_max) == (5, 8)


@pytest.mark.parametrize("keep_tombstones", [True, False])
def test_operations_are_stored_only_where_there_may_be_tombstones(keep_tombstones: bool) -> None:
    files = Files(HOSTS, keep_tombstones=keep_tombstones)
    delete = run_of(
        HOSTS,
        {"host": pa.array(["h0000"]), "ts": pa.array([0], pa.timestamp("ms"))},
        base_sequence=100,
        op=OpType.DELETE,
    )
    written = files.write(hosts(HOSTS, series=2, points=2), delete)
    assert ("__op_type" in parquet_of(files, written).schema_arrow.names) is keep_tombstones
    assert written.meta.has_tombstones is keep_tombstones
    assert written.meta.rows == (4 if keep_tombstones else 3)


def test_encodings_follow_the_values() -> None:
    rows = 20_000
    random = np.random.default_rng(3)
    floats = {
        "random": random.random(rows),
        "percent": random.integers(0, 101, rows).astype(float),
        "counter": np.cumsum(random.integers(0, 100, rows)).astype(float),
        "bytes_total": np.cumsum(random.integers(0, 1 << 20, rows)).astype(float),
        "tenths": random.integers(0, 1000, rows) / 10,
        "hundredths": np.round(np.abs(np.cumsum(random.normal(0, 1, rows)) % 20), 2),
        "nothing": None,
    }
    integers = {
        "status": random.choice([200, 404, 500], rows),
        "bytes": random.integers(0, 1 << 40, rows),
        "walk": np.abs(np.cumsum(random.integers(-2, 3, rows)) % 100),
    }
    schema = schema_of(
        {"host": pa.string()},
        {
            **dict.fromkeys(floats, pa.float64()),
            **dict.fromkeys(integers, pa.int64()),
            "text": pa.string(),
            "flag": pa.bool_(),
            "many": pa.list_(pa.int64()),
        },
    )
    columns = {
        "host": pa.array([f"h{at // 100}" for at in range(rows)]),
        "ts": pa.array(np.arange(rows) % 100).cast(pa.timestamp("ms")),
        **{name: pa.nulls(rows, pa.float64()) if value is None else pa.array(value) for name, value in floats.items()},
        **{name: pa.array(value) for name, value in integers.items()},
        "text": pa.array(["x"] * rows),
        "flag": pa.array([True] * rows),
        "many": pa.array([[1]] * rows),
    }
    files = Files(schema)
    parquet = parquet_of(files, files.write(run_of(schema, columns)))
    found = encodings_of(parquet)
    dictionary = {"PLAIN", "RLE_DICTIONARY"}
    assert found == {
        "host": dictionary,
        "ts": {"DELTA_BINARY_PACKED"},
        "random": {"BYTE_STREAM_SPLIT"},
        "percent": {"DELTA_BINARY_PACKED"},
        "counter": {"DELTA_BINARY_PACKED"},
        "bytes_total": {"BYTE_STREAM_SPLIT"},
        "tenths": dictionary,
        "hundredths": dictionary,
        "nothing": dictionary,
        "status": dictionary,
        "bytes": {"DELTA_BINARY_PACKED"},
        "walk": {"DELTA_BINARY_PACKED"},
        "text": dictionary,
        "flag": {"PLAIN"},
        "many.list.element": {"PLAIN"},
        "__tsid": dictionary,
    }
    assert parquet.metadata.row_group(0).column(0).compression == "ZSTD"

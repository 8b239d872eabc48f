"""Series that a parser knows: the same hashes and tags as if they came with every request."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tsdb._kernels import LineParser
from tsdb.database.writing.known_series import KnownHashes
from tsdb.ingest import ParsedTags, TableRows
from tsdb.ingest.influx import parse_lines
from tsdb.model import RegionSchema, Semantic, SeriesTable

SCHEMA = RegionSchema.create(
    [
        ("b", pa.string(), Semantic.TAG),
        ("a", pa.string(), Semantic.TAG),
        ("ts", pa.timestamp("ns"), Semantic.TIMESTAMP),
        ("v", pa.float64(), Semantic.FIELD),
    ]
)


def parse(parser: LineParser, *keys: str) -> TableRows:
    (rows,) = parse_lines("\n".join(f"m{key} v=1" for key in keys).encode(), now_ns=0, parser=parser)
    return rows


def check(found: SeriesTable, rows: TableRows) -> None:
    """The series are those that the tags of the request make."""
    given = rows.read_tags()
    names = given.schema.names
    columns = [given.column(name) if name in names else pa.nulls(given.num_rows, pa.string()) for name in ("b", "a")]
    plain = SeriesTable.of_tags(SCHEMA, columns, given.num_rows)
    assert np.array_equal(found.tsid, plain.tsid)
    assert np.array_equal(found.check, plain.check)
    assert found.read_tags().equals(plain.read_tags())
    assert found.tags_schema.equals(SCHEMA.arrow_tags)
    assert found.take_tags(np.array([0])).equals(plain.read_tags().slice(0, 1))


def series(hashes: KnownHashes, rows: TableRows) -> SeriesTable:
    assert rows.known is not None
    return hashes.series(rows.known)


def test_series_are_the_same_whether_they_are_new_or_known() -> None:
    parser, hashes = LineParser(1000, 1 << 20), KnownHashes(SCHEMA)
    for keys in ([",a=1", ",b=2"], [",b=2", ",a=1"], [",a=3,b=1", ",a=1"], ["", ",b=2,a=1"]):
        rows = parse(parser, *keys)
        check(series(hashes, rows), rows)


def test_a_parser_that_starts_over_gives_its_numbers_new_meanings() -> None:
    parser, hashes = LineParser(1000, 1 << 20), KnownHashes(SCHEMA)
    old = parse(parser, ",a=1", ",a=2")
    kept = series(hashes, old)
    parser.reset()
    new = parse(parser, ",a=9", ",a=8")
    check(series(hashes, new), new)
    check(kept, old)
    check(series(hashes, old), old)


def test_a_known_number_does_not_have_its_tags_read() -> None:
    parser, hashes = LineParser(1000, 1 << 20), KnownHashes(SCHEMA)
    rows = parse(parser, ",a=1", ",a=2")
    assert rows.known is not None
    plain = hashes.series(rows.known)

    class Unreadable(ParsedTags):
        def read_tags(self, numbers: object) -> pa.RecordBatch:
            pytest.fail(f"read {numbers}")

        def pack_tags(self, numbers: object, names: object) -> pa.Buffer:
            pytest.fail(f"packed {numbers}")

    blind = replace(rows.known, keeper=Unreadable())
    assert np.array_equal(hashes.series(blind).tsid, plain.tsid)


def test_many_threads_learn_and_use_series_at_once() -> None:
    parser, hashes = LineParser(100_000, 1 << 24), KnownHashes(SCHEMA)
    many = [parse(parser, *(f",a={(at * 37 + number) % 700}" for number in range(200))) for at in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda rows: series(hashes, rows), many))
    for table, rows in zip(found, many, strict=True):
        check(table, rows)

"""Prometheus requests: compression, rows of tables, and what remote read asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest.prometheus_messages import read_request, write_request
from tsdb.errors import BodyTooLarge, InvalidArguments
from tsdb.ingest.prometheus import MetricRows, RemoteWriteReader, unpack
from tsdb.ingest.prometheus_read import (
    ReadQuery,
    encode_read_response,
    parse_read_request,
)
from tsdb.model import Matcher, MatchOp, match_values

NAMES = st.sampled_from(["host", "job", "Zone", "le"])
SERIES = st.tuples(
    st.sampled_from(["up", "cpu", "down"]),
    st.sampled_from([None, "d1", "d2"]),
    st.sampled_from([None, "p1"]),
    st.dictionaries(NAMES, st.text(max_size=3).filter(lambda text: "\x00" not in text), max_size=3),
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=3),
)


def read(series: Any) -> Any:
    return RemoteWriteReader(is_strict=True).read(write_request(series).SerializeToString())


def rows_of(tables: list[MetricRows]) -> list[tuple[Any, ...]]:
    """All rows of all tables, each with everything that is known of it."""
    found = []
    for each in tables:
        named = each.rows.read_tags()
        tags = named.to_pylist() if named.num_columns else [{}] * named.num_rows
        values = each.rows.fields["tsdb_value"].to_pylist()
        for index, time, value in zip(each.rows.series_index, each.rows.times.tolist(), values, strict=True):
            labels = {name: text for name, text in sorted(tags[index].items()) if text is not None}
            found.append((each.rows.table, each.rows.database, each.rows.physical_table, labels, time, value))
    return sorted(found, key=repr)


@settings(deadline=None)
@given(st.lists(SERIES, max_size=10))
def test_every_sample_is_a_row_of_its_metric_in_its_database(series: Any) -> None:
    sent, expected = [], []
    for metric, database, physical, labels, samples in series:
        special = {"__name__": metric, "__database__": database or "", "__physical_table__": physical or ""}
        sent.append(([*special.items(), *labels.items()], [(time, float(value)) for time, value in samples]))
        labels = dict(sorted(labels.items()))
        expected += [(metric, database, physical, labels, time, float(value)) for time, value in samples]
    tables = read(sent).tables()
    assert rows_of(tables) == sorted(expected, key=repr)
    keys = [(each.rows.table, each.rows.database, each.rows.physical_table) for each in tables]
    assert len(set(keys)) == len(keys)
    for each in tables:
        names = each.rows.read_tags().schema.names
        assert names == sorted(names)
        assert each.rows.columns == ("", "tsdb_value", *names)


def test_some_series_can_be_asked_for_alone() -> None:
    samples = read([([("__name__", "m"), ("a", str(at))], [(at, 1.0), (at + 10, 2.0)]) for at in range(4)])
    assert rows_of(samples.tables(np.array([3, 1]))) == [
        ("m", None, None, {"a": "1"}, 1, 1.0),
        ("m", None, None, {"a": "1"}, 11, 2.0),
        ("m", None, None, {"a": "3"}, 13, 2.0),
        ("m", None, None, {"a": "3"}, 3, 1.0),
    ]
    assert samples.tables(np.array([], np.int64)) == []
    assert samples.labels(np.array([2, 0])).to_pylist() == ["a\x012\x00", "a\x010\x00"]


def test_rows_know_their_place_in_the_request() -> None:
    samples = read([([("__name__", "a")], [(1, 1.0)]), ([("__name__", "b")], [(1, 1.0), (2, 2.0)])])
    assert [each.rows.places.tolist() for each in samples.tables()] == [[0], [1, 1]]


@settings(deadline=None)
@given(st.binary(max_size=2000), st.sampled_from(["snappy", "zstd"]), st.sampled_from(["snappy", "zstd", None, "x"]))
def test_what_was_packed_is_unpacked_whatever_the_header_says(body: bytes, codec: str, said: str | None) -> None:
    assert unpack(pa.compress(body, codec=codec, asbytes=True), said, bytes_max=2000) == body


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_bytes_of_any_kind_are_unpacked_within_the_limit_or_refused(body: bytes) -> None:
    try:
        unpacked = unpack(body, "snappy", bytes_max=1000)
    except (InvalidArguments, BodyTooLarge):
        return
    assert len(unpacked) <= 1000


@pytest.mark.parametrize("codec", ["snappy", "zstd"])
def test_nothing_grows_beyond_the_limit(codec: str) -> None:
    body = pa.compress(bytes(5000), codec=codec, asbytes=True)
    assert len(unpack(body, codec, bytes_max=5000)) == 5000
    with pytest.raises(BodyTooLarge):
        unpack(body, codec, bytes_max=4999)


def test_a_read_request_says_what_is_wanted() -> None:
    matchers = [(0, "__name__", "up"), (3, "host", "a.*"), (0, "__database__", "d")]
    assert parse_read_request(read_request((-5, 10, matchers), accepted=[1, 0])) == [
        ReadQuery("up", -5, 10, (Matcher("host", "!~", "a.*"),), "d")
    ]


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_a_read_request_of_any_bytes_is_read_or_refused(body: bytes) -> None:
    try:
        queries = parse_read_request(body)
    except InvalidArguments:
        return
    assert all(query.metric for query in queries)


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        ("=", "a", [True, False, False, False]),
        ("!=", "a", [False, True, True, True]),
        ("=~", "a|ab", [True, True, False, False]),
        ("=~", "b", [False, False, False, False]),
        ("=~", ".*", [True, True, True, True]),
        ("!~", "a.?", [False, False, True, True]),
        ("=", "", [False, False, True, True]),
    ],
)
def test_a_matcher_matches_whole_values_and_null_is_empty(op: MatchOp, value: str, expected: list[bool]) -> None:
    assert match_values(Matcher("x", op, value), pa.array(["a", "ab", "", None])).tolist() == expected


def test_results_are_framed_one_by_one() -> None:
    assert encode_read_response([b"", b"x" * 200]) == b"\x0a\x00\x0a\xc8\x01" + b"x" * 200


def test_a_reader_of_remote_write_forgets_series_while_memory_is_short() -> None:
    reader = RemoteWriteReader(is_strict=True, series_bytes_max=1 << 20)
    body = write_request([([("__name__", "m"), ("host", f"h{number}")], [(1, 1.0)]) for number in range(1000)])
    message = body.SerializeToString()

    def read_it() -> tuple[int, int]:
        samples = reader.read(message)
        (each,) = samples.tables()
        assert len(each.rows.times) == 1000
        return samples.source

    first = read_it()
    assert read_it() == first
    ((owner, held, most),) = reader.memory_use()
    assert (owner, most) == ("remote_write_series", 1 << 20)
    assert 1000 < held <= most
    reader.limit_memory(held / 2 / most)
    assert next(iter(reader.memory_use())).bytes < held / 2
    second = read_it()
    assert second != first
    assert read_it() != second, "they do not fit"
    reader.limit_memory(1.0)
    third = read_it()
    assert read_it() == third

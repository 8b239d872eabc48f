"""Prometheus remote write and read over HTTP, in front of a real database."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.ingest.prometheus_messages import (
    Series,
    read_request,
    read_results,
    write_request,
    write_request_v2,
)
from tests.servers.http.asgi_client import Answer, call
from tsdb.components._local import LocalOptions, open_directory
from tsdb.database import Database, DatabaseGate, Session, read_all
from tsdb.servers.http import HttpApp, PrometheusRemoteRoutes, prometheus_remote_routes
from tsdb.units import Duration

WRITE = "/v1/prometheus/write"
SNAPPY = {"content-encoding": "snappy"}
V2 = {"content-type": "application/x-protobuf;proto=io.prometheus.write.v2.Request", "content-encoding": "snappy"}
STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
EQ, NEQ, RE, NRE = range(4)


def pack(message: Any, codec: str = "snappy") -> bytes:
    body = message if isinstance(message, bytes) else message.SerializeToString()
    packed: bytes = pa.compress(body, codec=codec, asbytes=True)
    return packed


class World:
    """A database and the endpoints in front of it."""

    def __init__(self, directory: Path, **options: bool) -> None:
        self._opened = open_directory(directory, options=LocalOptions(has_housekeeping=False))
        self.database: Database = self._opened.database
        self._app = HttpApp(body_limit=1 << 20, timeout=Duration.of_seconds(30))
        self.routes: PrometheusRemoteRoutes = prometheus_remote_routes(
            self._app, DatabaseGate(self.database), **options
        )

    def post(self, target: str, body: bytes, headers: dict[str, str] | None = None) -> Answer:
        return asyncio.run(call(self._app, "POST", target, headers=SNAPPY if headers is None else headers, body=body))

    def write(self, *series: Series, query: str = "") -> Answer:
        return self.post(WRITE + query, pack(write_request(series)))

    def read(self, *matchers: tuple[int, str, str], start: int = 0, end: int = 10_000) -> list[Any]:
        answer = self.post("/v1/prometheus/read", pack(read_request((start, end, matchers))))
        assert answer.status == 200, answer.body
        assert answer.headers["content-type"] == "application/x-protobuf"
        assert answer.headers["content-encoding"] == "snappy"
        return read_results(unpack(answer.body))[0]

    def ask(self, text: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = read_all(self.database.run(text, Session())).to_pylist()  # type: ignore[arg-type]
        return rows

    def names(self, database: str = "public") -> list[str]:
        return [table.name for table in self.database.services.catalog.tables(database)]

    def values(self, table: str) -> list[float]:
        return [row["tsdb_value"] for row in self.ask(f"SELECT * FROM {table} ORDER BY tsdb_timestamp, tsdb_value")]

    def crash(self) -> None:
        """Leave everything that is not flushed to the log."""
        self.routes.close()
        self._opened.engine.close(flush=False)
        self._opened.close()

    def close(self) -> None:
        self.routes.close()
        self._opened.close()


def unpack(body: bytes) -> bytes:
    length = shift = 0
    for byte in body:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    unpacked: bytes = pa.decompress(body, decompressed_size=length, codec="snappy", asbytes=True)
    return unpacked


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def metric(name: str, value: float = 1.0, time: int = 1000, **labels: str) -> Series:
    return [("__name__", name), *labels.items()], [(time, value)]


def test_two_series_become_two_tables_on_a_physical_one(world: World) -> None:
    answer = world.write(metric("m", host="a"), metric("n", job="b"))
    assert (answer.status, answer.body) == (204, b"")
    assert world.names() == ["m", "n", "tsdb_physical_table"]
    described = world.database.services.catalog.table("public", "m")
    assert [column.name for column in described.columns] == ["host", "tsdb_timestamp", "tsdb_value"]
    assert described.is_logical


def test_known_series_are_written_with_new_ones_and_none_is_lost(world: World) -> None:
    for time in (1000, 2000, 3000):
        series = [metric(f"m{at}", at + time, time, host=str(at % 3)) for at in range(time // 500)]
        assert world.write(*series).status == 204
    assert world.values("m0") == [1000, 2000, 3000]
    assert world.values("m3") == [2003, 3003]
    assert world.values("m5") == [3005]


def test_a_label_that_comes_later_is_a_new_column(world: World) -> None:
    world.write(metric("m", host="a"))
    assert world.write(metric("m", 2, host="a", zone="z"), metric("m", 3, 2000, host="a")).status == 204
    rows = world.ask("SELECT host, zone, tsdb_value FROM m ORDER BY tsdb_value")
    assert [tuple(row.values()) for row in rows] == [("a", None, 1.0), ("a", "z", 2.0), ("a", None, 3.0)]


def test_the_last_of_two_samples_of_a_time_counts(world: World) -> None:
    world.write(metric("m", 1, host="a"))
    world.write(metric("m", 2, host="a"), metric("m", 3, host="a"))
    assert world.values("m") == [3.0]


def test_a_dropped_table_is_made_again_by_the_next_write(world: World) -> None:
    for value in (1, 2):
        world.write(metric("m", value, value, host="a"), metric("n", value, value, host="a"))
    world.database.run("DROP TABLE m", Session())
    assert world.write(metric("m", 3, 3, host="a"), metric("n", 3, 3, host="a")).status == 204
    assert world.write(metric("m", 4, 4, host="a"), metric("n", 4, 4, host="a")).status == 204
    assert world.values("m") == [3.0, 4.0]
    assert world.values("n") == [1.0, 2.0, 3.0, 4.0]


def test_everything_may_be_dropped_between_two_writes(world: World) -> None:
    world.write(metric("m", 1, host="a"))
    world.write(metric("m", 2, host="a"))
    for table in ("m", "tsdb_physical_table"):
        world.database.run(f"DROP TABLE {table}", Session())
    assert world.write(metric("m", 3, host="a")).status == 204
    assert world.values("m") == [3.0]


def test_labels_choose_database_and_physical_table_and_are_not_stored(world: World) -> None:
    world.database.run("CREATE DATABASE idc3", Session())
    for value in (1, 2):
        series = (
            metric("m", value, value, host="a", __database__="idc3"),
            metric("m", value, value, host="a", x_greptime_physical_table="phy"),
        )
        assert world.write(*series).status == 204
    assert world.names("idc3") == ["m", "tsdb_physical_table"]
    assert world.names() == ["m", "phy"]
    assert [column.name for column in world.database.services.catalog.table("idc3", "m").columns] == [
        "host",
        "tsdb_timestamp",
        "tsdb_value",
    ]
    assert [row["tsdb_value"] for row in world.ask("SELECT * FROM idc3.m ORDER BY 2")] == [1.0, 2.0]


def test_a_database_that_is_not_there_is_refused_and_nothing_is_written(world: World) -> None:
    world.write(metric("m", 1, host="a"))
    answer = world.write(metric("m", 2, 2000, host="a"), metric("m", 1, host="a", __database__="nowhere"))
    assert (answer.status, answer.headers["x-tsdb-err-code"]) == (400, "4004")
    assert world.values("m") == [1.0]


def test_the_parameter_chooses_the_physical_table(world: World) -> None:
    assert world.write(metric("m"), query="?physical_table=other").status == 204
    assert world.names() == ["m", "other"]


def test_without_the_metric_engine_every_metric_is_an_ordinary_table(tmp_path: Path) -> None:
    world = World(tmp_path, has_metric_engine=False)
    try:
        for value in (1, 2):
            assert world.write(metric("m", value, value, b="1", a="2"), metric("n", value, value)).status == 204
        table = world.database.services.catalog.table("public", "m")
        assert [column.name for column in table.columns] == ["tsdb_timestamp", "tsdb_value", "a", "b"]
        assert table.engine == "mito"
        assert world.names() == ["m", "n"]
        assert world.values("m") == world.values("n") == [1.0, 2.0]
    finally:
        world.close()


def test_an_ordinary_table_takes_samples_under_its_own_names(world: World) -> None:
    world.database.run("CREATE TABLE m (t TIMESTAMP TIME INDEX, host STRING PRIMARY KEY, v DOUBLE)", Session())
    for value in (1, 2):
        assert world.write(metric("m", value, value, host="a"), metric("n", value, value)).status == 204
    assert [tuple(row.values())[1:] for row in world.ask("SELECT * FROM m ORDER BY t")] == [("a", 1.0), ("a", 2.0)]


def test_nan_keeps_its_bits(world: World) -> None:
    world.write(metric("m", float("nan"), 1, host="a"), metric("m", STALE, 2, host="a"))
    world.write(metric("m", STALE, 3, host="a"))
    [(_, samples)] = world.read((EQ, "__name__", "m"))
    bits = [struct.unpack("<Q", struct.pack("<d", value))[0] for _, value in samples]
    assert bits == [0x7FF8000000000000, 0x7FF0000000000002, 0x7FF0000000000002]


def test_a_dry_run_tells_what_would_be_and_changes_nothing(world: World) -> None:
    answer = world.write(metric("m", host="a"), query="?dry_run=true")
    assert answer.status == 200
    assert answer.json()["rows"] == 1
    assert answer.json()["created_tables"] == ["tsdb_physical_table", "m"]
    assert world.names() == []


@pytest.mark.parametrize(
    ("codec", "said"), [("snappy", "snappy"), ("zstd", "zstd"), ("zstd", "snappy"), ("snappy", "zstd"), ("snappy", "")]
)
def test_both_compressions_are_understood_whatever_the_header_says(world: World, codec: str, said: str) -> None:
    headers = {"content-encoding": said} if said else {}
    assert world.post(WRITE, pack(write_request([metric("m")]), codec), headers).status == 204
    assert world.values("m") == [1.0]


def test_a_body_that_is_not_compressed_is_refused(world: World) -> None:
    answer = world.post(WRITE, write_request([metric("m")]).SerializeToString())
    assert answer.status == 400
    assert set(answer.json()) == {"error"}


def test_a_body_that_would_grow_beyond_all_bounds_is_refused(world: World) -> None:
    bomb = pa.compress(bytes(300 << 20), codec="zstd", asbytes=True)
    assert world.post(WRITE, bomb, {"content-encoding": "zstd"}).status == 413


def test_agents_of_victoriametrics_get_the_version_they_ask_for(world: World) -> None:
    answer = world.post(f"{WRITE}?get_vm_proto_version=1", b"")
    assert (answer.status, answer.body) == (200, b"1")


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/x-protobuf", 204),
        ("application/x-protobuf;proto=prometheus.WriteRequest", 204),
        ("application/x-protobuf; proto=prometheus.Other", 415),
        ("application/json", 415),
    ],
)
def test_the_content_type_names_the_version(world: World, content_type: str, status: int) -> None:
    headers = {**SNAPPY, "content-type": content_type}
    assert world.post(WRITE, pack(write_request([metric("m")])), headers).status == status


def test_version_2_is_answered_with_what_was_written(world: World) -> None:
    answer = world.post(WRITE, pack(write_request_v2([metric("m"), metric("n")])), V2)
    assert answer.status == 204
    assert answer.headers["x-prometheus-remote-write-samples-written"] == "2"
    assert answer.headers["x-prometheus-remote-write-histograms-written"] == "0"
    assert answer.headers["x-prometheus-remote-write-exemplars-written"] == "0"
    refused = world.post(WRITE, pack(write_request_v2([metric("a-b", **{"x-y": "1"})])), V2)
    assert refused.status == 400
    assert refused.headers["x-prometheus-remote-write-samples-written"] == "0"
    assert world.post(WRITE, b"", {**V2, "content-encoding": "gzip"}).status == 415


def test_a_wrong_series_is_refused_with_its_place_and_nothing_is_written(world: World) -> None:
    answer = world.write(metric("m"), metric("n", **{"a-b": "1"}))
    assert answer.status == 400
    assert answer.json() == {
        "error": 'the request cannot be read: series 1: the label name "a-b" is not of the form [a-zA-Z_][a-zA-Z0-9_]*'
    }
    assert world.names() == []


def test_an_empty_request_is_taken(world: World) -> None:
    assert world.write().status == 204


def test_strict_mode_refuses_text_that_is_not_utf8_and_lossy_replaces_it(world: World, tmp_path: Path) -> None:
    series: Series = [("__name__", "m"), ("host", b"\xff")], [(1, 1.0)]
    assert world.write(series).status == 400
    (tmp_path / "lossy").mkdir()
    lossy = World(tmp_path / "lossy", is_strict=False)
    try:
        assert lossy.write(series).status == 204
        assert lossy.ask("SELECT host FROM m") == [{"host": "�"}]
    finally:
        lossy.close()


def test_senders_at_the_same_time_make_every_table_once_and_lose_nothing(world: World) -> None:
    problems: list[bytes] = []

    def send(sender: int) -> None:
        for time in range(8):
            series = [metric(f"m{at}", time, time, sender=str(sender), **{f"l{at}": "x"}) for at in range(5)]
            answer = world.write(*series)
            if answer.status != 204:
                problems.append(answer.body)

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    for at in range(5):
        assert world.ask(f"SELECT sender, count(*) AS n FROM m{at} GROUP BY sender ORDER BY sender") == [
            {"sender": str(sender), "n": 8} for sender in range(4)
        ]


def test_what_was_acknowledged_is_there_after_a_crash(tmp_path: Path) -> None:
    world = World(tmp_path)
    for time in range(4):
        # The first is written by way of rows, later ones as known series; at the third a new one is among them.
        series = [metric(f"m{at % 2}", time, time, host=str(at)) for at in range(6 if time < 2 else 7)]
        assert world.write(*series).status == 204
    before = [world.ask(f"SELECT * FROM m{at} ORDER BY host, tsdb_timestamp") for at in range(2)]
    assert [len(rows) for rows in before] == [14, 12]
    world.crash()
    world = World(tmp_path)
    try:
        assert [world.ask(f"SELECT * FROM m{at} ORDER BY host, tsdb_timestamp") for at in range(2)] == before
    finally:
        world.close()


# Remote read


@pytest.fixture
def filled(world: World) -> World:
    for time in (1000, 2000, 3000):
        world.write(
            metric("up", time, time, job="api", host="b"),
            metric("up", -time, time, job="api", host="a", zone="eu"),
            metric("up", time + 1, time, job="db", Host="c"),
            metric("down", time, time),
        )
    return world


def hosts(found: list[Any]) -> list[str]:
    return [labels.get("host", "") for labels, _ in found]


def test_series_come_sorted_by_their_labels_with_all_samples(filled: World) -> None:
    found = filled.read((EQ, "__name__", "up"))
    assert [list(labels.items()) for labels, _ in found] == [
        [("Host", "c"), ("__name__", "up"), ("job", "db")],
        [("__name__", "up"), ("host", "a"), ("job", "api"), ("zone", "eu")],
        [("__name__", "up"), ("host", "b"), ("job", "api")],
    ]
    assert found[1][1] == [(1000, -1000.0), (2000, -2000.0), (3000, -3000.0)]


def test_both_ends_of_the_range_are_included(filled: World) -> None:
    found = filled.read((EQ, "__name__", "down"), start=1000, end=2000)
    assert found[0][1] == [(1000, 1000.0), (2000, 2000.0)]
    assert filled.read((EQ, "__name__", "down"), start=3001, end=9000) == []


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        ((EQ, "host", "a"), ["a"]),
        ((EQ, "host", ""), [""]),
        ((NEQ, "host", "a"), ["", "b"]),
        ((NEQ, "host", ""), ["a", "b"]),
        ((RE, "host", "a|b"), ["a", "b"]),
        ((RE, "job", "a"), []),
        ((RE, "job", "ap."), ["a", "b"]),
        ((RE, "host", ".*"), ["", "a", "b"]),
        ((RE, "host", ".+"), ["a", "b"]),
        ((NRE, "job", "api"), [""]),
        ((EQ, "nothing", ""), ["", "a", "b"]),
        ((EQ, "nothing", "x"), []),
        ((NRE, "nothing", "x"), ["", "a", "b"]),
    ],
)
@pytest.mark.parametrize("is_flushed", [False, True])
def test_matchers_match_whole_values_and_a_missing_label_is_empty(
    filled: World, matcher: tuple[int, str, str], expected: list[str], is_flushed: bool
) -> None:
    if is_flushed:
        filled.database.run("ADMIN flush_table('tsdb_physical_table')", Session())
    assert hosts(filled.read((EQ, "__name__", "up"), matcher)) == expected


def test_a_metric_that_is_not_there_has_no_series(filled: World) -> None:
    assert filled.read((EQ, "__name__", "nothing")) == []


@pytest.mark.parametrize(
    ("matchers", "words"),
    [
        ([], "exactly one matcher"),
        ([(RE, "__name__", "up")], "exactly one matcher"),
        ([(EQ, "__name__", "up"), (EQ, "__name__", "up")], "exactly one matcher"),
        ([(EQ, "__name__", "up"), (RE, "host", "(")], "regular expression"),
        ([(EQ, "__name__", "up"), (RE, "host", "a)|(b")], "regular expression"),
        ([(EQ, "__name__", "up"), (7, "host", "a")], "no matcher of type 7"),
    ],
)
def test_a_query_that_cannot_be_answered_is_refused(filled: World, matchers: Any, words: str) -> None:
    answer = filled.post("/v1/prometheus/read", pack(read_request((0, 1, matchers))))
    assert answer.status == 400
    assert words in answer.json()["error"]


@pytest.mark.parametrize(("accepted", "status"), [([], 200), ([1, 0], 200), ([0], 200), ([1], 400)])
def test_samples_are_given_to_those_who_accept_them(filled: World, accepted: list[int], status: int) -> None:
    body = read_request((0, 1, [(EQ, "__name__", "up")]), accepted=accepted)
    assert filled.post("/v1/prometheus/read", pack(body)).status == status


def test_an_ordinary_table_of_another_unit_is_read_in_milliseconds(world: World) -> None:
    world.database.run(
        "CREATE TABLE t (ts TIMESTAMP(9) TIME INDEX, host STRING, n BIGINT, PRIMARY KEY(host)) "
        "PARTITION ON COLUMNS (host) (host < 'm', host >= 'm')",
        Session(),
    )
    world.database.run(
        "INSERT INTO t VALUES (1999999, 'z', 1), (2000000, 'a', 2), (2999999, 'z', 3), (3000000, 'a', 4), "
        "(1, 'a', NULL)",
        Session(),
    )
    found = world.read((EQ, "__name__", "t"), start=1, end=2)
    assert found == [
        ({"__name__": "t", "host": "a"}, [(2, 2.0)]),
        ({"__name__": "t", "host": "z"}, [(1, 1.0), (2, 3.0)]),
    ]


def test_a_table_without_one_value_is_refused(world: World) -> None:
    world.database.run("CREATE TABLE t (ts TIMESTAMP TIME INDEX, a DOUBLE, b DOUBLE)", Session())
    answer = world.post("/v1/prometheus/read", pack(read_request((0, 1, [(EQ, "__name__", "t")]))))
    assert answer.status == 400
    assert "several fields" in answer.json()["error"]


def test_a_label_with_an_empty_value_does_not_exist_for_readers(world: World) -> None:
    world.write(metric("m", 1, 1, host=""), metric("m", 2, 2), metric("m", 3, 3, host="a"))
    assert world.read((EQ, "__name__", "m")) == [
        ({"__name__": "m"}, [(1, 1.0), (2, 2.0)]),
        ({"__name__": "m", "host": "a"}, [(3, 3.0)]),
    ]
    assert hosts(world.read((EQ, "__name__", "m"), (EQ, "host", ""))) == [""]


def test_a_physical_table_is_no_metric(filled: World) -> None:
    assert filled.read((EQ, "__name__", "tsdb_physical_table"), (EQ, "host", "a")) == []


def test_a_label_that_came_after_a_flush_is_empty_in_what_was_written_before(tmp_path: Path) -> None:
    world = World(tmp_path, has_metric_engine=False)
    try:
        world.write(metric("m", 1, 1, host="a"))
        world.database.run("ADMIN flush_table('m')", Session())
        world.write(metric("m", 2, 2, host="a", zone="z"))
        assert world.read((EQ, "__name__", "m"), (EQ, "zone", "")) == [({"__name__": "m", "host": "a"}, [(1, 1.0)])]
        assert [samples for _, samples in world.read((EQ, "__name__", "m"), (RE, "zone", "z"))] == [[(2, 2.0)]]
    finally:
        world.close()


@pytest.mark.parametrize("name", ["tsdb_value", "tsdb_timestamp", "__tsid", "__table_id", "__labels"])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_label_that_is_called_as_another_column_is_refused(world: World, name: str, is_there: bool) -> None:
    if is_there:
        world.write(metric("m", 1, 1, host="a"))
    answer = world.write(metric("m", 2, 2, **{name: "x"}))
    assert answer.status == 400, answer.body
    assert name in answer.json()["error"]
    assert world.write(metric("m", 3, 3, host="a")).status == 204
    assert world.values("m") == ([1.0, 3.0] if is_there else [3.0])

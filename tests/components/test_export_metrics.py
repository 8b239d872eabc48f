"""Export of the process's own metrics: what is gathered, what a receiver gets, what lands in the database."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from prometheus_client import Counter, Histogram

from tests.server_process import ServerProcess, running
from tsdb.clock import ManualClock
from tsdb.components._export_metrics import (
    SELF_IMPORT_TABLES,
    ExportFailed,
    MetricsExporter,
    Sample,
    encode_write_request,
    gather,
    remote_write,
    self_import,
)
from tsdb.components._instance import instance_of
from tsdb.components._local import LocalOptions, open_directory
from tsdb.config import Component, load_config
from tsdb.database import Database, Session, read_all
from tsdb.ingest import TableRows
from tsdb.telemetry import REGISTRY
from tsdb.units import Duration


@pytest.fixture
def own_counter() -> Iterator[Counter]:
    """A counter that is not declared as one of the product's: those must all be documented."""
    made = Counter("tsdb_test_export_total", "Of this test.", registry=REGISTRY)
    yield made
    REGISTRY.unregister(made)


@pytest.fixture
def own_histogram() -> Iterator[Histogram]:
    made = Histogram("tsdb_test_export_seconds", "Of this test.", ("z", "a"), registry=REGISTRY, buckets=(0.5, 1.0))
    yield made
    REGISTRY.unregister(made)


def _write_request_class() -> type[Any]:
    """The message of Prometheus, as its published field numbers describe it, read by Google's library."""
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="rw.proto", package="rw", syntax="proto3")
    fields = {
        "Label": [("name", 1, types.TYPE_STRING, ""), ("value", 2, types.TYPE_STRING, "")],
        "Sample": [("value", 1, types.TYPE_DOUBLE, ""), ("timestamp", 2, types.TYPE_INT64, "")],
        "TimeSeries": [("labels", 1, types.TYPE_MESSAGE, "Label"), ("samples", 2, types.TYPE_MESSAGE, "Sample")],
        "WriteRequest": [("timeseries", 1, types.TYPE_MESSAGE, "TimeSeries")],
    }
    for name, members in fields.items():
        message = file.message_type.add(name=name)
        for member, number, kind, target in members:
            field = message.field.add(name=member, number=number, type=kind)
            field.label = types.LABEL_REPEATED if target else types.LABEL_OPTIONAL
            if target:
                field.type_name = f".rw.{target}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found: type[Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName("rw.WriteRequest"))
    return found


class Receiver:
    """A server that remembers requests and answers them all the same way."""

    def __init__(self, status: int) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(status)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/write"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver(204)
    yield receiver
    receiver.close()


def _exports(outcome: str) -> float:
    return REGISTRY.get_sample_value("tsdb_export_metrics_exports_total", {"outcome": outcome}) or 0.0


def test_a_histogram_is_gathered_as_cumulative_buckets_sum_and_count(own_histogram: Histogram) -> None:
    own_histogram.labels(z="1", a="2").observe(0.7)
    found = [
        sample for sample in gather(now_ms=7, instance="n:4000") if sample.name.startswith("tsdb_test_export_seconds")
    ]
    first, last = (("a", "2"), ("instance", "n:4000")), (("z", "1"),)
    labels = (*first, *last)
    assert found == [
        Sample("tsdb_test_export_seconds_bucket", (*first, ("le", "0.5"), *last), 0.0, 7),
        Sample("tsdb_test_export_seconds_bucket", (*first, ("le", "1.0"), *last), 1.0, 7),
        Sample("tsdb_test_export_seconds_bucket", (*first, ("le", "+Inf"), *last), 1.0, 7),
        Sample("tsdb_test_export_seconds_count", labels, 1.0, 7),
        Sample("tsdb_test_export_seconds_sum", labels, 0.7, 7),
    ]


def test_an_encoded_request_is_what_googles_library_reads() -> None:
    samples = [Sample("m", (("b", "ü" * 200), ("a", "")), -1.5, 1_700_000_000_123), Sample("n", (), 0.0, 0)]
    read = _write_request_class().FromString(encode_write_request(samples))
    assert [[(label.name, label.value) for label in each.labels] for each in read.timeseries] == [
        [("__name__", "m"), ("a", ""), ("b", "ü" * 200)],
        [("__name__", "n")],
    ]
    points = [(each.samples[0].value, each.samples[0].timestamp) for each in read.timeseries]
    assert points == [(-1.5, 1_700_000_000_123), (0.0, 0)]


def test_a_receiver_gets_all_samples_with_the_headers_of_remote_write(receiver: Receiver, own_counter: Counter) -> None:
    clock = ManualClock(5_000_000)
    send = remote_write(receiver.url, {"Authorization": "Bearer x"})
    before = _exports("ok")
    MetricsExporter(send, Duration.of_seconds(1), "n:4000", clock).export()
    assert _exports("ok") == before + 1
    ((headers, body),) = receiver.requests
    assert headers["content-encoding"] == "snappy"
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["x-prometheus-remote-write-version"] == "0.1.0"
    assert headers["authorization"] == "Bearer x"
    size, shift, position = 0, 0, 0
    while True:
        byte = body[position]
        size |= (byte & 0x7F) << shift
        shift, position = shift + 7, position + 1
        if byte < 0x80:
            break
    read = _write_request_class().FromString(pa.Codec("snappy").decompress(body, size).to_pybytes())
    names = {label.value for each in read.timeseries for label in each.labels if label.name == "__name__"}
    assert {"tsdb_test_export_total", "process_start_time_seconds"} <= names
    assert {each.samples[0].timestamp for each in read.timeseries} == {5}
    told = [{label.name: label.value for label in each.labels} for each in read.timeseries]
    assert {labels.get("instance") for labels in told} == {"n:4000"}


def test_a_receiver_that_refuses_or_is_not_there_is_counted_and_does_no_harm() -> None:
    refusing = Receiver(500)
    before = _exports("error")
    MetricsExporter(remote_write(refusing.url, {}), Duration.of_seconds(1), "n").export()
    refusing.close()
    MetricsExporter(remote_write(refusing.url, {}), Duration.of_seconds(1), "n").export()
    assert _exports("error") == before + 2


def test_imported_metrics_are_ordinary_tables(tmp_path: Path, own_counter: Counter) -> None:
    opened = open_directory(tmp_path, options=LocalOptions(has_housekeeping=False))
    try:
        session = Session()
        write = self_import("public", _not_called, _importer(opened.database))
        own_counter.inc(3)
        MetricsExporter(write, Duration.of_seconds(1), "n:4000", ManualClock(9_000_000_000)).export()
        text = "SELECT tsdb_value, CAST(tsdb_timestamp AS BIGINT) AS t FROM tsdb_test_export_total"
        assert read_all(opened.database.run(text, session)).to_pylist() == [{"tsdb_value": 3.0, "t": 9000}]  # type: ignore[arg-type]
    finally:
        opened.close()


def test_nodes_that_write_at_the_same_time_into_one_database_do_not_replace_each_other(
    tmp_path: Path, own_counter: Counter
) -> None:
    """Also in tables of an earlier version, which do not have the label yet."""
    opened = open_directory(tmp_path, options=LocalOptions(has_housekeeping=False))
    try:
        write = self_import("public", _not_called, _importer(opened.database))
        write([Sample("tsdb_test_export_total", (), 7.0, 9000)])
        for instance in ("one:4000", "2"):
            own_counter.inc()
            MetricsExporter(write, Duration.of_seconds(1), instance, ManualClock(9_000_000_000)).export()
        text = "SELECT instance, tsdb_value FROM tsdb_test_export_total ORDER BY tsdb_value"
        found = read_all(opened.database.run(text, Session())).to_pylist()  # type: ignore[arg-type]
        assert [tuple(row.values()) for row in found] == [("one:4000", 1.0), ("2", 2.0), (None, 7.0)]
    finally:
        opened.close()


@pytest.mark.parametrize(
    ("component", "environment", "expected"),
    [
        (Component.STANDALONE, {"TSDB_STANDALONE__HTTP__ADDR": "0.0.0.0:4711"}, f"{socket.gethostname()}:4711"),
        (Component.METASRV, {}, f"{socket.gethostname()}:4000"),
        (Component.DATANODE, {"TSDB_DATANODE__NODE_ID": "42"}, "42"),
    ],
)
def test_an_instance_is_the_id_of_a_datanode_or_where_a_process_is_found(
    component: Component, environment: dict[str, str], expected: str
) -> None:
    assert instance_of(load_config(component, environment=environment).config) == expected


def test_a_database_that_is_not_there_is_told_with_the_key_that_names_it_and_not_created(tmp_path: Path) -> None:
    opened = open_directory(tmp_path, options=LocalOptions(has_housekeeping=False))
    try:
        send = self_import("nowhere", _not_called, _importer(opened.database))
        with pytest.raises(ExportFailed, match=r"not found: nowhere; export_metrics.self_import.db must name"):
            send([Sample("m", (), 1.0, 1)])
    finally:
        opened.close()


def _importer(database: Database) -> Callable[[list[TableRows], str], object]:
    return lambda rows, name: database.ingest(rows, Session(database=name), SELF_IMPORT_TABLES, protocol="self")


def _not_called(name: str) -> None:
    raise AssertionError(f"{name} is not to be created")


def _wait_for_rows(server: ServerProcess, text: str) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        answer = httpx.post(server.url + "/v1/sql", data={"sql": text}, timeout=10)
        if answer.status_code == 200 and answer.json()["output"][0]["records"]["rows"] != [[0]]:
            return
        time.sleep(0.05)
    raise AssertionError(f"no rows: {answer.text}\n{server.output}")


def test_a_server_imports_its_metrics_and_takes_lines_by_telnet(tmp_path: Path) -> None:
    prefix = "TSDB_STANDALONE__EXPORT_METRICS"
    environment = {
        f"{prefix}__ENABLE": "true",
        f"{prefix}__WRITE_INTERVAL": "1s",
        f"{prefix}__SELF_IMPORT__DB": "public",
    }
    with running("standalone", tmp_path, environment=environment) as server:
        found = re.search(r"^  OpenTSDB +(\S+):(\d+)$", server.output, flags=re.MULTILINE)
        assert found is not None
        with socket.create_connection((found[1], int(found[2])), timeout=10) as connection:
            connection.sendall(b"put telnet.x 1667898896 1 h=a\nquit\n")
            assert connection.recv(100) == b""
        _wait_for_rows(server, 'SELECT count(*) FROM "telnet.x"')
        _wait_for_rows(server, "SELECT count(*) FROM tsdb_app_version")
        assert server.stop() == 0
    assert "Traceback" not in server.output


def test_with_its_default_a_server_imports_its_metrics_into_a_database_of_its_own(tmp_path: Path) -> None:
    config = tmp_path / "tsdb.toml"
    config.write_text('[export_metrics]\nenable = true\nwrite_interval = "1s"\n[export_metrics.self_import]\n')
    with running("standalone", tmp_path, "-c", str(config)) as server:
        _wait_for_rows(server, "SELECT count(*) FROM tsdb_metrics.tsdb_app_version")
        assert server.stop() == 0
    assert "the export of metrics failed" not in server.output


def test_telnet_is_not_served_when_it_is_switched_off(tmp_path: Path) -> None:
    with running("standalone", tmp_path, environment={"TSDB_STANDALONE__OPENTSDB__ENABLE": "false"}) as server:
        assert "OpenTSDB" not in server.output
        assert httpx.post(server.url + "/v1/opentsdb/api/put", content=b"[]").status_code == 404

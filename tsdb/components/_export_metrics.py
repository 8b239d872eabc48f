"""Exports the process's own metrics, every interval, into its own database or to a receiver of remote write.

    registry ─▶ samples, as /metrics shows them ─▶ rows of ordinary tables, or one remote-write request

Every sample has the label `instance`, which names the process, because several nodes may write into one database.
An export that fails is logged and not retried: metrics of a minute ago are not worth a backlog. The first one comes
after one whole interval.
"""

from __future__ import annotations

import asyncio
import struct
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from http.client import HTTPException
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from tsdb.clock import Clock, SystemClock
from tsdb.errors import Status, TsdbError
from tsdb.ingest import NewTable, TableRows, single_value_rows
from tsdb.ingest.protobuf import encode_field, encode_varint
from tsdb.telemetry import REGISTRY, counter, get_logger
from tsdb.units import Duration

SEND_SECONDS_MAX = 10.0
"""How long a receiver may take."""
READ_ONLY_DATABASE, METRICS_DATABASE = "information_schema", "tsdb_metrics"
"""The database that is configured unless another one is, and the one in which its metrics are stored."""
SELF_IMPORT_TABLES = NewTable(time_unit="ms", single_value=True)
"""How the tables of imported metrics look."""

_EXPORTS = counter(
    "tsdb_export_metrics_exports_total",
    "Exports of the process's own metrics; outcome is ok or error.",
    labels=("outcome",),
)
_log = get_logger("tsdb.export_metrics")


class Sample(NamedTuple):
    """One value of one series."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    time_ms: int


Send: TypeAlias = Callable[[list[Sample]], None]


class ExportFailed(TsdbError):
    """The receiver did not take the metrics."""

    status = Status.EXTERNAL


class MetricsExporter:
    """Gathers and sends metrics until it is stopped."""

    facts: Mapping[str, str] = {}

    def __init__(self, send: Send, interval: Duration, instance: str, clock: Clock | None = None) -> None:
        self._send = send
        self._interval = interval
        self._instance = instance
        self._clock = clock or SystemClock()
        self._task: asyncio.Task[None] | None = None

    def probe(self) -> None:
        """Nothing has to be claimed."""

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="tsdb-export-metrics")

    async def stop(self, grace_seconds: float) -> None:
        """Stop; an export under way is not waited for longer than the grace period."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=grace_seconds)

    async def _run(self) -> None:
        with suppress(asyncio.CancelledError):
            while True:
                await asyncio.sleep(self._interval.seconds)
                await asyncio.to_thread(self.export)

    def export(self) -> None:
        """Export once; what goes wrong is logged."""
        try:
            self._send(list(gather(now_ms=self._clock.now_ns() // 1_000_000, instance=self._instance)))
        except TsdbError as error:
            _EXPORTS.labels("error").inc()
            _log.error("the export of metrics failed", error=error)
        except Exception:  # noqa: BLE001 - a bug in one export must not end all later ones
            _EXPORTS.labels("error").inc()
            _log.exception("the export of metrics failed unexpectedly")
        else:
            _EXPORTS.labels("ok").inc()


def gather(*, now_ms: int, instance: str) -> Iterator[Sample]:
    """Yield all samples of the registry with a label for the process; families without a type are left out."""
    for family in REGISTRY.collect():
        if family.type in ("unknown", "untyped"):
            continue
        for sample in family.samples:
            labels = {**sample.labels, "instance": instance}
            yield Sample(sample.name, tuple(sorted(labels.items())), float(sample.value), now_ms)


def self_import(
    configured: str, create: Callable[[str], object], write: Callable[[list[TableRows], str], object]
) -> Send:
    """Return what writes samples as rows, one table for each name.

    A database that the user names has to be there. The one that is configured by default shows what the server is made
    of and cannot be written: it stands for a database of the server's own, which `create` makes when it is missing.
    """
    is_own = configured == READ_ONLY_DATABASE
    database = METRICS_DATABASE if is_own else configured

    def send(samples: list[Sample]) -> None:
        try:
            if is_own:
                create(database)
            write(single_value_rows(samples), database)
        except TsdbError as error:
            hint = "export_metrics.self_import.db must name a database that exists and can be written"
            raise ExportFailed(f"the metrics were not imported: {error}", hint=hint) from error

    return send


def remote_write(url: str, headers: Mapping[str, str]) -> Send:
    """Return what sends samples by Prometheus remote write."""
    said = {
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "snappy",
        "User-Agent": "tsdb",
        "X-Prometheus-Remote-Write-Version": "0.1.0",
        **headers,
    }

    def send(samples: list[Sample]) -> None:
        body = pa.Codec("snappy").compress(encode_write_request(samples)).to_pybytes()
        request = urllib.request.Request(url, data=body, headers=said, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=SEND_SECONDS_MAX) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(500).decode("utf-8", "replace")
            raise ExportFailed(f"{url} answered {error.code}: {text}") from None
        except (OSError, HTTPException) as error:
            raise ExportFailed(f"{url} cannot be reached: {error}") from error

    return send


def encode_write_request(samples: Iterable[Sample]) -> bytes:
    """Encode a WriteRequest of Prometheus remote write 1, one series for each sample."""
    return b"".join(encode_field(1, _time_series(sample)) for sample in samples)


def _time_series(sample: Sample) -> bytes:
    labels = sorted([("__name__", sample.name), *sample.labels])
    encoded = [
        encode_field(1, encode_field(1, name.encode()) + encode_field(2, value.encode())) for name, value in labels
    ]
    # Value: field 1, eight bytes. Time: field 2, a varint.
    point = b"\x09" + struct.pack("<d", sample.value) + b"\x10" + encode_varint(sample.time_ms)
    return b"".join([*encoded, encode_field(2, point)])

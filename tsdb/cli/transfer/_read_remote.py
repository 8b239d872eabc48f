"""A running Prometheus, by remote read: metric by metric and window by window.

A `QueryResult` of remote read and a `WriteRequest` of remote write both have a list of `TimeSeries` in field 1, so
series go from one server to the other as the bytes they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa

from tsdb._kernels import RemoteWriteParser
from tsdb.cli.server import ServerAddress, ServerError, send
from tsdb.cli.transfer._batches import RejectedRow, SeriesBatch, WriteBatch
from tsdb.cli.transfer._blocks import UnreadableSource
from tsdb.cli.transfer._progress import SizeUnit
from tsdb.cli.transfer._source import Piece
from tsdb.cli.transfer._windows import TimeWindows
from tsdb.ingest.protobuf import encode_field, encode_varint
from tsdb.model import Matcher, MatchOp
from tsdb.promql import parse_selector

_ANSWER_BYTES_MAX = 1 << 30
_NAMES_BYTES_MAX = 64 << 20
_BATCH_BYTES = 2 << 20
_BAD_REQUEST = 400
_OPERATORS: dict[MatchOp, int] = {"=": 0, "!=": 1, "=~": 2, "!~": 3}


class PrometheusServerSource:
    """A running Prometheus, or anything else that has its HTTP API and remote read."""

    unit: SizeUnit = "steps"

    def __init__(
        self, address: ServerAddress, *, database: str, match: str | None, windows: TimeWindows, read_path: str
    ) -> None:
        self.name = f"{address.url}{read_path}"
        self._address = address
        self._read_path = read_path
        self._database = database
        self._match = match
        self._windows = windows
        self._metrics: list[str] = []
        found = parse_selector(match).matchers if match else ()
        self._matchers = [each for each in found if each.name != "__name__"]
        self._parser = RemoteWriteParser(is_strict=False, series_max=100_000, bytes_max=64 << 20)

    @property
    def size(self) -> int | None:
        return len(self._windows) * len(self._metrics)

    def identity(self) -> list[object] | None:
        return [self.name, self._match, self._windows.identity()]

    def prepare(self, extra: dict[str, Any]) -> dict[str, Any]:
        """The list of metrics is kept with the state: one that appears later must not shift the others."""
        self._windows = self._windows.kept(extra)
        self._metrics = extra.get("metrics") or self._ask_metrics()
        return {**self._windows.to_extra(), "metrics": self._metrics}

    def _ask_metrics(self) -> list[str]:
        params = {
            "start": f"{self._windows.start_ms / 1000:.3f}",
            "end": f"{self._windows.end_ms / 1000:.3f}",
            **({"match[]": self._match} if self._match else {}),
        }
        prefix = self._read_path.removesuffix("/read")
        api = prefix if prefix.endswith("/api/v1") else f"{prefix}/api/v1"
        with send(self._address, "GET", f"{api}/label/__name__/values", params=params) as answer:
            found = orjson.loads(answer.read(_NAMES_BYTES_MAX))
        return sorted(found["data"])

    def pieces(self, position: dict[str, Any]) -> Iterator[Piece]:
        total = len(self._windows) * len(self._metrics)
        for part in range(position.get("part", 0), total):
            window, metric = divmod(part, len(self._metrics))
            start_ms, end_ms = self._windows[window]
            batches, rejected = self._read_or_reject(self._metrics[metric], start_ms, end_ms)
            yield Piece(batches, {"part": part + 1}, part + 1, rejected)

    def _read_or_reject(self, metric: str, start_ms: int, end_ms: int) -> tuple[list[WriteBatch], list[RejectedRow]]:
        """A metric that the server cannot be asked for is reported like a row that cannot be written."""
        try:
            return self._read(metric, start_ms, end_ms), []
        except ServerError as error:
            if error.http_status != _BAD_REQUEST:
                raise
            return [], [RejectedRow(f"{self.name} {metric}", str(error))]

    def _read(self, metric: str, start_ms: int, end_ms: int) -> list[WriteBatch]:
        query = _varint_field(1, start_ms) + _varint_field(2, end_ms)
        chosen = [Matcher("__name__", "=", metric), *self._matchers]
        query += b"".join(encode_field(3, _encode_matcher(each)) for each in chosen)
        body = pa.Codec("snappy").compress(encode_field(1, query) + _varint_field(2, 0), asbytes=True)
        headers = {
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "snappy",
            "X-Prometheus-Remote-Read-Version": "0.1.0",
        }
        with send(self._address, "POST", self._read_path, body=body, headers=headers) as answer:
            packed = answer.read(_ANSWER_BYTES_MAX)
        try:
            message = pa.Codec("snappy").decompress(packed, _unpacked_size(packed), asbytes=True)
            series = [each for result in fields_of(message, 1) for each in fields_of(result, 1)]
        except (pa.ArrowException, OSError, ValueError, IndexError) as error:
            raise UnreadableSource(f"the answer of {self.name} for {metric} cannot be read: {error}") from error
        return self._batches(series, metric)

    def _batches(self, series: list[bytes], metric: str) -> list[WriteBatch]:
        found: list[WriteBatch] = []
        waiting: list[bytes] = []
        size = 0
        for each in series:
            waiting.append(each)
            size += len(each)
            if size >= _BATCH_BYTES:
                found.append(self._batch(waiting, metric))
                waiting, size = [], 0
        if waiting:
            found.append(self._batch(waiting, metric))
        return found

    def _batch(self, series: list[bytes], metric: str) -> SeriesBatch:
        counts = [len(pa.array(self._parser.parse(encode_field(1, each), version=1).times)) for each in series]
        return SeriesBatch(self._database, series, counts, [f"{self.name} {metric}"] * len(series))


def _encode_matcher(matcher: Matcher) -> bytes:
    name, value = matcher.name.encode(), matcher.value.encode()
    return _varint_field(1, _OPERATORS[matcher.op]) + encode_field(2, name) + encode_field(3, value)


def _varint_field(number: int, value: int) -> bytes:
    return bytes([number << 3]) + encode_varint(value)


def _unpacked_size(packed: bytes) -> int:
    size, _ = _read_varint(packed, 0)
    return size


def fields_of(message: bytes, wanted: int) -> Iterator[bytes]:
    """Yield the contents of a field of a protobuf message that has messages."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        kind = key & 7
        if kind == 0:
            _, at = _read_varint(message, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            length, at = _read_varint(message, at)
            if at + length > len(message):
                raise ValueError("a field is longer than its message")
            if key >> 3 == wanted:
                yield message[at : at + length]
            at += length
        else:
            raise ValueError(f"a field of the wire type {kind}")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7

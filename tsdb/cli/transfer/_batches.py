"""Rows on their way to the server: what one request writes, and how it is divided when the server refuses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.cli.transfer._literals import insert_text
from tsdb.ingest.protobuf import encode_field


class WriteBody(NamedTuple):
    """A request that writes."""

    path: str
    params: dict[str, str]
    headers: dict[str, str]
    body: bytes


class RejectedRow(NamedTuple):
    """A row that was not written, and why."""

    place: str
    reason: str


class WriteBatch(Protocol):
    """Rows that one request writes."""

    @property
    def rows(self) -> int: ...

    @property
    def units(self) -> int:
        """Into how many parts it can be divided: rows, lines or series."""

    def place(self) -> str:
        """Where its first row comes from: a file and a line."""

    def to_request(self) -> WriteBody: ...

    def part(self, start: int, stop: int) -> Self:
        """Return some of its parts."""


@dataclass(frozen=True)
class RowsBatch:
    """Rows of a table, written by INSERT."""

    table: str
    database: str
    batch: pa.RecordBatch
    source: str
    lines: npt.NDArray[np.int64]
    """The line, or the number, of each row in its source."""

    @property
    def rows(self) -> int:
        return int(self.batch.num_rows)

    units = rows

    def place(self) -> str:
        return f"{self.source}:{self.lines[0]}"

    def to_request(self) -> WriteBody:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        body = b"sql=" + form_value(insert_text(self.table, self.batch))
        return WriteBody("/v1/sql", {"db": self.database, "format": "tsdb_v1"}, headers, body)

    def part(self, start: int, stop: int) -> RowsBatch:
        rows = self.batch.slice(start, stop - start)
        return RowsBatch(self.table, self.database, rows, self.source, self.lines[start:stop])


def form_value(text: str) -> bytes:
    """Encode a value of a form: only what a form gives a meaning has to be escaped."""
    found = text.encode("utf-8", "surrogatepass").replace(b"%", b"%25").replace(b"&", b"%26").replace(b"+", b"%2B")
    return found.replace(b"=", b"%3D")


@dataclass(frozen=True)
class LinesBatch:
    """Lines of line protocol, sent as they are."""

    database: str
    precision: str
    texts: Sequence[bytes]
    source: str
    lines: Sequence[int]

    @property
    def rows(self) -> int:
        return len(self.texts)

    units = rows

    def place(self) -> str:
        return f"{self.source}:{self.lines[0]}"

    def to_request(self) -> WriteBody:
        params = {"db": self.database, "precision": self.precision}
        return WriteBody("/v1/influxdb/write", params, {"Content-Type": "text/plain"}, b"\n".join(self.texts) + b"\n")

    def part(self, start: int, stop: int) -> LinesBatch:
        return LinesBatch(self.database, self.precision, self.texts[start:stop], self.source, self.lines[start:stop])


@dataclass(frozen=True)
class SeriesBatch:
    """Series of Prometheus remote write, each an encoded `TimeSeries`."""

    database: str
    series: Sequence[bytes]
    samples: Sequence[int]
    """How many samples each has."""
    places: Sequence[str]

    @property
    def rows(self) -> int:
        return sum(self.samples)

    @property
    def units(self) -> int:
        return len(self.series)

    def place(self) -> str:
        return self.places[0]

    def to_request(self) -> WriteBody:
        message = b"".join(encode_field(1, each) for each in self.series)
        body = pa.Codec("snappy").compress(message, asbytes=True)
        headers = {
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "snappy",
            "X-Prometheus-Remote-Write-Version": "0.1.0",
        }
        return WriteBody("/v1/prometheus/write", {"db": self.database}, headers, body)

    def part(self, start: int, stop: int) -> SeriesBatch:
        return SeriesBatch(self.database, self.series[start:stop], self.samples[start:stop], self.places[start:stop])

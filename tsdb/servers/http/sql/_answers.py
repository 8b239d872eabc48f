"""The answer to a query: its body in a format, and the headers that describe it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from time import perf_counter
from typing import Literal, NamedTuple

from tsdb.query import Records
from tsdb.servers.http.sql._formats import Encoder, Epoch, FormatOptions
from tsdb.servers.http.sql._parameters import Format


class AnswerEncoder(NamedTuple):
    """Encodes the rows of one query in a format; it can travel to a process of this machine."""

    encode: Encoder
    started: float
    """On the clock that all processes share."""
    limit: int | None
    epoch: Epoch | None
    compression: Literal["zstd", "lz4"] | None
    time_zone: str
    table_bytes_max: int

    @classmethod
    def of(cls, chosen: Format, options: FormatOptions, started: float) -> AnswerEncoder:
        return cls(
            chosen.encode,
            started,
            options.limit,
            options.epoch,
            options.compression,
            options.time_zone,
            options.table_bytes_max,
        )

    def __call__(self, records: Records) -> Iterator[bytes]:
        options = FormatOptions(
            lambda: round((perf_counter() - self.started) * 1000),
            self.limit,
            self.epoch,
            self.compression,
            self.time_zone,
            self.table_bytes_max,
        )
        return self.encode(iter([records]), options)


def answer_headers(chosen: Format, elapsed_ms: int) -> list[tuple[str, str]]:
    return [
        ("x-tsdb-format", chosen.name),
        ("x-greptime-format", chosen.older_name),
        ("x-tsdb-execution-time", str(elapsed_ms)),
        ("x-greptime-execution-time", str(elapsed_ms)),
    ]


def raw_answer_headers(chosen: Format, elapsed_ms: int) -> list[tuple[bytes, bytes]]:
    """Return the same headers, encoded, and the type of the body."""
    fixed, names = _encoded_headers(chosen)
    elapsed = b"%d" % elapsed_ms
    return [*fixed, *((name, elapsed) for name in names)]


@cache
def _encoded_headers(chosen: Format) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
    """Return the headers that are always the same, and the names of those that tell how long it took."""
    encoded = [(name.encode(), value.encode()) for name, value in answer_headers(chosen, 0)]
    timed = [name for name, _ in encoded if name.endswith(b"-execution-time")]
    content_type = b"content-type", chosen.content_type.encode()
    return [*((name, value) for name, value in encoded if name not in timed), content_type], timed

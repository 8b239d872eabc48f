"""The InfluxDB line protocol: a body of lines into rows per measurement.

One parser serves all requests of the process. It numbers the series it has seen, so that the database need not look at
the tags of one it knows (`TableRows.known`); tags are decoded on demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.arrays import as_numpy
from tsdb.errors import InvalidArguments, InvalidSyntax
from tsdb.ingest.rows import NumberedSeries, ParsedTags, TableRows
from tsdb.memory import MemoryUse

KEYS_MAX = 1_000_000
"""How many keys (measurement and tags as written) are kept between requests; beyond that it starts over."""
KEYS_BYTES_MAX = 128 << 20

PRECISIONS = {
    "n": 1,
    "ns": 1,
    "u": 1_000,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
"""Nanoseconds of one unit of a timestamp."""

_NEAR_CHARACTERS = 40
"""How much of a line an error shows."""

_parser = _kernels.LineParser(KEYS_MAX, KEYS_BYTES_MAX)


class LineReader:
    """`parse_lines` with a parser of its own, which keeps so many bytes of keys. For any thread."""

    def __init__(self, keys_bytes_max: int) -> None:
        self._parser = _kernels.LineParser(KEYS_MAX, keys_bytes_max)
        self._full_bytes = self._bytes_max = keys_bytes_max

    def __call__(self, body: bytes, *, precision: str = "ns", now_ns: int) -> list[TableRows]:
        if self._bytes_max < self._full_bytes:
            self._forget_if_full()
        return parse_lines(body, precision=precision, now_ns=now_ns, parser=self._parser)

    def memory_use(self) -> Iterator[MemoryUse]:
        yield MemoryUse("line_protocol_series", self._parser.nbytes, self._bytes_max)

    def limit_memory(self, share: float) -> None:
        self._bytes_max = int(self._full_bytes * share)
        self._forget_if_full()

    def _forget_if_full(self) -> None:
        if self._parser.nbytes > self._bytes_max:
            self._parser.reset()


def parse_lines(
    body: bytes, *, precision: str = "ns", now_ns: int, parser: _kernels.LineParser = _parser
) -> list[TableRows]:
    """Read a body; the tables come in the order in which the body names them, times in nanoseconds.

    Raises InvalidSyntax with line and column at the first place that is not in order.
    """
    factor = PRECISIONS.get(precision)
    if factor is None:
        raise InvalidArguments(f"unknown precision {precision!r}", hint=f"one of {', '.join(PRECISIONS)}")
    try:
        tables = parser.parse(body, factor=factor, default_time=now_ns)
    except _kernels.MalformedLine as error:
        _refuse(body, error)
    return [_to_rows(table) for table in tables]


def _to_rows(rows: _kernels.LineRows) -> TableRows:
    names, numbers = tuple(rows.tag_names), as_numpy(rows.series)
    return TableRows(
        table=rows.name,
        tags=None,
        series_index=as_numpy(rows.index),
        times=as_numpy(rows.times),
        unit="ns",
        fields=_fields_of(rows),
        columns=tuple(rows.columns),
        places=as_numpy(rows.lines),
        known=NumberedSeries(rows.source, numbers, rows.series_bound, names, _LineTags(rows.tags)),
    )


class _LineTags(ParsedTags):
    """The tags of lines. Holds no rows: a memtable keeps it as long as the series."""

    def __init__(self, tags: _kernels.LineTags) -> None:
        self._tags = tags

    def read_tags(self, numbers: npt.NDArray[np.uint32]) -> pa.RecordBatch:
        named = self._tags.read(pa.array(numbers, pa.uint32()))
        if not named:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(numbers), pa.struct([])))
        return pa.RecordBatch.from_arrays([pa.array(column) for _, column in named], names=[name for name, _ in named])

    def pack_tags(self, numbers: npt.NDArray[np.uint32], names: list[str]) -> pa.Buffer:
        return pa.array(self._tags.pack(pa.array(numbers, pa.uint32()), names)).buffers()[1]


def _fields_of(rows: _kernels.LineRows) -> dict[str, pa.Array]:
    fields = pa.array(rows.fields)
    return {field.name: fields.field(at) for at, field in enumerate(fields.type)}


def _refuse(body: bytes, error: _kernels.MalformedLine) -> NoReturn:
    line, column = error.line, error.column
    text = body.split(b"\n", line)[line - 1].decode(errors="replace")[column - 1 : column - 1 + _NEAR_CHARACTERS]
    raise InvalidSyntax(str(error), line=line, column=column, near=repr(text.rstrip("\r"))) from None

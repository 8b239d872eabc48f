"""Series of VictoriaMetrics: JSON lines of `/api/v1/export`, from a file or from a running server.

A line is a series, or a part of it: `{"metric":{"__name__":"up"},"values":[1],"timestamps":[1700000000000]}`.
A running server is asked for one window of time after the other; a window is done when all of it was acknowledged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson

from tsdb.cli.server import ServerAddress, send
from tsdb.cli.transfer._batches import RejectedRow, WriteBatch
from tsdb.cli.transfer._blocks import RECORD_BYTES_MAX, UnreadableSource, open_source, read_blocks, split_lines
from tsdb.cli.transfer._progress import SizeUnit
from tsdb.cli.transfer._samples import Floats, Times, batches_of, encode_labels
from tsdb.cli.transfer._source import FileSource, Piece
from tsdb.cli.transfer._windows import TimeWindows

_LINES_PER_PIECE = 500
_BARE_WORD = re.compile(rb"[+-]?(?:Infinity|Inf|NaN)\b")
_NAMED = {"NaN": float("nan"), "Infinity": float("inf"), "+Infinity": float("inf"), "Inf": float("inf"),
          "+Inf": float("inf"), "-Infinity": float("-inf"), "-Inf": float("-inf"), "null": float("nan")}  # fmt: skip

_Series = tuple[bytes, Times, Floats, str]


class VictoriaFileSource(FileSource):
    """A file with what `/api/v1/export` returned."""

    def __init__(self, name: str, *, database: str, source: str) -> None:
        super().__init__(name)
        self._database = database
        self._source = source

    def pieces(self, position: dict[str, Any]) -> Iterator[Piece]:
        with open_source(self.name) as stream:
            if position:
                stream.seek(position["offset"])
            for block in read_blocks(stream, offset=position.get("offset", 0), line=position.get("line", 1)):
                texts = [(f"{self._source}:{number}", text) for number, text in split_lines(block)]
                batches, rejected = read_series(texts, self._database)
                after = {"offset": block.end, "line": block.first_line + block.lines}
                yield Piece(batches, after, block.end, rejected)


def read_series(texts: Sequence[tuple[str, bytes]], database: str) -> tuple[list[WriteBatch], list[RejectedRow]]:
    """Read lines, each with its place."""
    found: list[_Series] = []
    rejected = []
    for place, text in texts:
        try:
            found.append((*_read_line(text), place))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            rejected.append(RejectedRow(place, f"not a series of /api/v1/export: {error}"))
    return list(batches_of(database, found)), rejected


def _read_line(text: bytes) -> tuple[bytes, Times, Floats]:
    line = _parse(text)
    labels = line["metric"]
    if not isinstance(labels, dict) or "__name__" not in labels:
        raise ValueError("metric has no __name__")
    values = line["values"]
    if any(not isinstance(value, int | float) for value in values):
        values = [_NAMED[str(value or "null")] if not isinstance(value, int | float) else value for value in values]
    times = np.array(line["timestamps"], dtype=np.int64)
    floats = np.array(values, dtype=np.float64)
    if len(times) != len(floats):
        raise ValueError(f"{len(floats)} values and {len(times)} timestamps")
    return encode_labels({str(name): str(value) for name, value in labels.items()}), times, floats


def _parse(text: bytes) -> Any:
    """Read JSON, also with infinities that are written as bare words, as VictoriaMetrics 1.79 does."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        # A quote inside of a label is escaped, so this is the list and no part of a label.
        before, start, after = text.partition(b'"values":[')
        values, end, rest = after.partition(b"]")
        return orjson.loads(before + start + _BARE_WORD.sub(rb'"\g<0>"', values) + end + rest)


class VictoriaServerSource:
    """A running VictoriaMetrics."""

    unit: SizeUnit = "steps"

    def __init__(self, address: ServerAddress, *, database: str, match: str, windows: TimeWindows) -> None:
        self.name = f"{address.url}/api/v1/export"
        self._address = address
        self._database = database
        self._match = match
        self._windows = windows

    @property
    def size(self) -> int | None:
        return len(self._windows)

    def identity(self) -> list[object] | None:
        return [self.name, self._match, self._windows.identity()]

    def prepare(self, extra: dict[str, Any]) -> dict[str, Any]:
        self._windows = self._windows.kept(extra)
        return self._windows.to_extra()

    def pieces(self, position: dict[str, Any]) -> Iterator[Piece]:
        for number in range(position.get("window", 0), len(self._windows)):
            start_ms, end_ms = self._windows[number]
            params = {
                "match[]": self._match,
                "start": f"{start_ms / 1000:.3f}",
                "end": f"{end_ms / 1000:.3f}",
                "reduce_mem_usage": "1",
            }
            with send(self._address, "GET", "/api/v1/export", params=params) as answer:
                waiting: list[tuple[str, bytes]] = []
                while line := answer.readline(RECORD_BYTES_MAX):
                    if len(line) >= RECORD_BYTES_MAX:
                        raise UnreadableSource(f"a line of {self.name} is longer than {RECORD_BYTES_MAX} bytes")
                    if line.strip():
                        waiting.append((self.name, line))
                    if len(waiting) == _LINES_PER_PIECE:
                        # The window is not done yet: an interrupted import begins it again.
                        batches, rejected = read_series(waiting, self._database)
                        yield Piece(batches, {"window": number}, number, rejected)
                        waiting = []
            batches, rejected = read_series(waiting, self._database)
            yield Piece(batches, {"window": number + 1}, number + 1, rejected)

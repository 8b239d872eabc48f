"""The text formats of Prometheus: a line for each sample.

    prometheus     name{label="value"} 1.5 1700000000000     milliseconds
    openmetrics    name{label="value"} 1.5 1700000000.25     seconds; exemplars and created times are left out

A sample without a time gets the time at which the import began, which its state remembers. Comments (HELP, TYPE, UNIT)
are ignored. Lines are taken apart by one regular expression over the whole block; the labels of a series are read
once for each distinct text.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.cli.transfer._batches import RejectedRow, WriteBatch
from tsdb.cli.transfer._blocks import SourceBlock, open_source, read_blocks, split_lines
from tsdb.cli.transfer._columns import TimeReading, read_times
from tsdb.cli.transfer._samples import Floats, Times, batches_of, encode_labels
from tsdb.cli.transfer._source import FileSource, Piece
from tsdb.model import cast_or_null

_LINE = (
    r"^(?P<series>[a-zA-Z_:][a-zA-Z0-9_:]*(?:\s*\{(?:[^\"{}]|\"(?:[^\"\\]|\\.)*\")*\})?)"
    r"\s+(?P<value>[^\s#]+)(?:\s+(?P<time>[^\s#]+))?(?:\s+#.*)?\s*$"
)
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}
KNOWN_SERIES_MAX = 100_000


class PrometheusTextSource(FileSource):
    """A file of Prometheus' text format or of OpenMetrics."""

    def __init__(self, name: str, *, database: str, source: str, dialect: Literal["prometheus", "openmetrics"]) -> None:
        super().__init__(name)
        self._database = database
        self._source = source
        self._times = TimeReading("ms" if dialect == "prometheus" else "s")
        self._now_ms = 0
        self._labels: dict[str, bytes | None] = {}

    def prepare(self, extra: dict[str, Any]) -> dict[str, Any]:
        self._now_ms = extra.get("now_ms") or time.time_ns() // 1_000_000
        return {"now_ms": self._now_ms}

    def pieces(self, position: dict[str, Any]) -> Iterator[Piece]:
        with open_source(self.name) as stream:
            if position:
                stream.seek(position["offset"])
            for block in read_blocks(stream, offset=position.get("offset", 0), line=position.get("line", 1)):
                batches, rejected = self._read(block)
                after = {"offset": block.end, "line": block.first_line + block.lines}
                yield Piece(batches, after, block.end, rejected)

    def _read(self, block: SourceBlock) -> tuple[list[WriteBatch], list[RejectedRow]]:
        found = [(number, text) for number, text in split_lines(block) if not text.startswith(b"#")]
        numbers = np.array([number for number, _ in found], np.int64)
        texts = pa.array([text.decode("utf-8", "replace") for _, text in found], pa.string())
        parts = pc.extract_regex(texts, _LINE)
        is_line = pc.is_valid(parts).to_numpy(zero_copy_only=False)
        names, times, values = (parts.field(at) for at in (0, 2, 1))
        times = pc.if_else(pc.equal(times, ""), pa.scalar(None, pa.string()), times)
        at_ms = read_times(times, "ms", self._times).cast(pa.int64())
        floats = cast_or_null(values, pa.float64())
        is_time = pc.or_(pc.is_null(times), pc.is_valid(at_ms)).to_numpy(zero_copy_only=False)
        encoded = names.dictionary_encode()
        known = [self._known_labels(text) if text else None for text in encoded.dictionary.to_pylist()]
        has_labels = np.array([each is not None for each in known] or [False])
        series = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        is_good = is_line & is_time & pc.is_valid(floats).to_numpy(zero_copy_only=False)
        is_good &= has_labels[series] if len(known) else False
        rejected = [
            RejectedRow(f"{self._source}:{numbers[at]}", f"not a sample: {texts[int(at)].as_py()[:80]!r}")
            for at in np.flatnonzero(~is_good)
        ]
        chosen = np.flatnonzero(is_good)
        at_all: Times = at_ms.fill_null(self._now_ms).to_numpy(zero_copy_only=False)
        values_all: Floats = floats.fill_null(0).to_numpy(zero_copy_only=False)
        groups = self._groups(chosen, series, known, at_all, values_all, numbers)
        return list(batches_of(self._database, groups)), rejected

    def _groups(
        self, chosen: Times, series: Times, known: list[bytes | None], times: Times, values: Floats, numbers: Times
    ) -> Iterator[tuple[bytes, Times, Floats, str]]:
        """Yield the samples of each series, in the order of the file."""
        order = chosen[np.argsort(series[chosen], kind="stable")]
        cuts = np.flatnonzero(np.diff(series[order])) + 1
        for rows in np.split(order, cuts):
            if len(rows):
                labels = known[int(series[rows[0]])]
                assert labels is not None
                yield labels, times[rows], values[rows], f"{self._source}:{numbers[rows[0]]}"

    def _known_labels(self, text: str) -> bytes | None:
        if text not in self._labels:
            if len(self._labels) >= KNOWN_SERIES_MAX:
                self._labels.clear()
            self._labels[text] = _read_labels(text)
        return self._labels[text]


def _read_labels(text: str) -> bytes | None:
    """Read `name{a="b"}`; None if that is not what it is."""
    name, brace, rest = text.partition("{")
    labels = {"__name__": name.strip()}
    if brace:
        inner, at = rest.rstrip()[:-1].strip(), 0
        while at < len(inner):
            match = _LABEL.match(inner, at)
            if match is None:
                return None
            labels[match[1]] = _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[0]), match[2])
            at = match.end()
    return encode_labels(labels)

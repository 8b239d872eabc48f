"""JSON lines: one object per line, read by Arrow as a whole where values fit, and line by line where they do not."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.json

from tsdb.cli.transfer._batches import RejectedRow
from tsdb.cli.transfer._blocks import SourceBlock, UnreadableSource, open_source, read_blocks, split_lines
from tsdb.cli.transfer._columns import TimeReading, infer_type
from tsdb.cli.transfer._rows import Lines, RowMaker
from tsdb.cli.transfer._source import FileSource, Piece
from tsdb.model import DataType, Kind

_FAST_KINDS = frozenset(
    {Kind.BOOLEAN, Kind.INT64, Kind.UINT64, Kind.FLOAT64, Kind.STRING, Kind.INT32, Kind.FLOAT32, Kind.DATE}
)
_KEYS_MAX = 2000


class JsonSource(FileSource):
    """A file of JSON lines, or JSON lines on the standard input."""

    def __init__(self, name: str, maker: RowMaker, columns: Sequence[str] = ()) -> None:
        super().__init__(name)
        self._maker = maker
        self._wanted = columns
        self._columns: list[str] = []

    def pieces(self, position: dict[str, Any]) -> Iterator[Piece]:
        with open_source(self.name) as stream:
            blocks = read_blocks(stream, offset=0, line=1)
            first = next(blocks, None)
            if first is None:
                return
            self._open_table(first)
            if position:
                stream.seek(position["offset"])
                rest = read_blocks(stream, offset=position["offset"], line=position["line"])
            else:
                rest = chain([first], blocks)
            for block in rest:
                columns, lines, rejected = self._read(block)
                batches, more = self._maker.make(columns, lines)
                after = {"offset": block.end, "line": block.first_line + block.lines}
                yield Piece(batches, after, block.end, [*rejected, *more])

    def _open_table(self, block: SourceBlock) -> None:
        """Take names and types from the objects of the first block, and from --types."""
        rows = [found for found in (_load(text) for _, text in split_lines(block)) if isinstance(found, dict)]
        names = dict.fromkeys(key for row in rows for key in row)
        for name in self._maker.options.types:
            names.setdefault(name)
        chosen = [name for name in names if not self._wanted or name in self._wanted]
        if not chosen or len(chosen) > _KEYS_MAX:
            raise UnreadableSource(f"the first lines of {self.name} have {len(chosen)} keys, expected 1 to {_KEYS_MAX}")
        inferred = {name: _infer([row.get(name) for row in rows], self._maker.times) for name in chosen}
        target = self._maker.open_table([name for name in chosen if name in inferred], inferred)
        # A key that only later lines have belongs to the import if the table has it.
        self._columns = list(dict.fromkeys([*chosen, *(name for name in target.columns if not self._wanted)]))

    def _read(self, block: SourceBlock) -> tuple[dict[str, pa.Array], Lines, list[RejectedRow]]:
        texts = list(split_lines(block))
        found = self._read_fast(block.data, len(texts))
        if found is not None:
            return found, np.array([number for number, _ in texts], np.int64), []
        return self._read_slow(texts)

    def _read_fast(self, data: bytes, count: int) -> dict[str, pa.Array] | None:
        """Let Arrow read everything at once; None if it cannot, or would read something else."""
        target = self._maker.target
        assert target is not None
        if any(target.columns[name].kind not in _FAST_KINDS and not self._is_text(name) for name in self._columns):
            return None
        schema = pa.schema([(name, self._json_type(name)) for name in self._columns])
        options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
        reading = pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        try:
            table = pa.json.read_json(io.BytesIO(data), reading, options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        if table.num_rows != count:
            return None
        return {name: table.column(name).combine_chunks() for name in self._columns}

    def _is_text(self, name: str) -> bool:
        kind = self._maker.target.columns[name]  # type: ignore[union-attr]
        return (kind.is_timestamp and self._maker.times.unit is None) or kind.kind in (Kind.DECIMAL, Kind.BINARY)

    def _json_type(self, name: str) -> pa.DataType:
        kind = self._maker.target.columns[name]  # type: ignore[union-attr]
        return pa.string() if self._is_text(name) or kind.kind is Kind.DATE else kind.arrow

    def _read_slow(self, texts: Sequence[tuple[int, bytes]]) -> tuple[dict[str, pa.Array], Lines, list[RejectedRow]]:
        """Read line by line: everything becomes text, which the columns then read."""
        rows: list[dict[str, str | None]] = []
        numbers: list[int] = []
        rejected = []
        for number, text in texts:
            found = _load(text)
            reason = self._problem(found)
            if reason is not None:
                rejected.append(RejectedRow(f"{self._maker.source}:{number}", reason))
                continue
            rows.append({name: self._text(name, found.get(name)) for name in self._columns})
            numbers.append(number)
        columns = {name: pa.array([row[name] for row in rows], pa.string()) for name in self._columns}
        return columns, np.array(numbers, np.int64), rejected

    def _problem(self, found: Any) -> str | None:
        if not isinstance(found, dict):
            return "the line is not a JSON object"
        unknown = [key for key in found if key not in self._columns and not self._wanted]
        if unknown:
            return f"the table has no column {unknown[0]}; add it with ALTER TABLE, or name it in --types"
        for name, value in found.items():
            if name in self._columns and not _fits(value, self._maker.target.columns[name]):  # type: ignore[union-attr]
                kind = self._maker.target.columns[name]  # type: ignore[union-attr]
                return f"column {name}: {orjson.dumps(value).decode()[:60]} is not a {kind.name}"
        return None

    def _text(self, name: str, value: Any) -> str | None:
        if value is None:
            return None
        if self._maker.target.columns[name].kind is Kind.JSON:  # type: ignore[union-attr]
            return orjson.dumps(value).decode()
        return value if isinstance(value, str) else orjson.dumps(value).decode()


def _fits(value: Any, kind: DataType) -> bool:
    """Whether a JSON value is of the right sort; its text is checked later."""
    if value is None or kind.kind is Kind.JSON:
        return True
    if isinstance(value, dict | list):
        return False
    if kind.kind is Kind.STRING:
        return isinstance(value, str)
    if isinstance(value, bool):
        return kind.kind is Kind.BOOLEAN
    return True


def _load(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _infer(values: Sequence[Any], times: TimeReading) -> DataType:
    """The type of the values of a key in the first lines."""
    known = [value for value in values if value is not None]
    if any(isinstance(value, dict | list) for value in known):
        return DataType(Kind.JSON)
    if known and all(isinstance(value, bool) for value in known):
        return DataType(Kind.BOOLEAN)
    if known and all(isinstance(value, int) and not isinstance(value, bool) for value in known):
        return DataType(Kind.INT64 if all(value < 2**63 for value in known) else Kind.UINT64)
    if known and all(isinstance(value, int | float) and not isinstance(value, bool) for value in known):
        return DataType(Kind.FLOAT64)
    texts = [value if isinstance(value, str) else orjson.dumps(value).decode() for value in known]
    found = infer_type(pa.array(texts, pa.string()), times)
    # A text that looks like a number is still a text.
    return found if found.is_timestamp or found.kind is Kind.DATE else DataType(Kind.STRING)

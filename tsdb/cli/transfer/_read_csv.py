"""CSV files: RFC 4180 with or without a line of names, in any delimiter; an empty field without quotes is a null."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from tsdb.cli.transfer._batches import RejectedRow
from tsdb.cli.transfer._blocks import Quotes, SourceBlock, UnreadableSource, open_source, read_blocks
from tsdb.cli.transfer._columns import infer_type
from tsdb.cli.transfer._rows import Lines, RowMaker
from tsdb.cli.transfer._source import FileSource, Piece


@dataclass(frozen=True)
class CsvOptions:
    """How a CSV file is written."""

    delimiter: str = ","
    has_header: bool = True
    nulls: Sequence[str] = ()
    """Texts without quotes that mean null, besides the empty one."""
    columns: Sequence[str] = ()
    """With a header the columns to import, without one the names of all."""


class CsvSource(FileSource):
    """A CSV file, or CSV on the standard input."""

    def __init__(self, name: str, maker: RowMaker, options: CsvOptions) -> None:
        super().__init__(name)
        self._maker = maker
        self._options = options

    def pieces(self, position: dict[str, Any]) -> Iterator[Piece]:
        with open_source(self.name) as stream:
            blocks = read_blocks(stream, offset=0, line=1, quotes=Quotes.DOUBLED)
            first = next(blocks, None)
            if first is None:
                return
            names, first = self._take_header(first)
            chosen = self._chosen(names)
            sample, _, _ = self._read(first, names)
            inferred = {name: infer_type(sample[name], self._maker.times) for name in chosen}
            self._maker.open_table(chosen, inferred)
            if position:
                stream.seek(position["offset"])
                rest = read_blocks(stream, offset=position["offset"], line=position["line"], quotes=Quotes.DOUBLED)
            else:
                rest = chain([first], blocks)
            for block in rest:
                yield self._piece(block, names, chosen)

    def _take_header(self, block: SourceBlock) -> tuple[list[str], SourceBlock]:
        end = int(block.starts[1]) if len(block.starts) > 1 else len(block.data)
        record = block.data[:end].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
        names = next(
            csv.reader(
                [record.rstrip("\r\n")] if "\n" not in record.rstrip("\r\n") else io.StringIO(record),
                delimiter=self._options.delimiter,
            ),
            [],
        )
        if not self._options.has_header:
            if len(names) != len(self._options.columns):
                raise UnreadableSource(
                    f"{self.name} has {len(names)} columns and --columns names {len(self._options.columns)}"
                )
            return list(self._options.columns), block
        if len(set(names)) != len(names) or not all(names):
            raise UnreadableSource(f"the first line of {self.name} has a duplicate or an empty name: {record.strip()}")
        lines = record.count("\n")
        data = block.data[end:]
        starts = block.starts[1:] - end
        return names, replace(
            block, data=data, first_line=block.first_line + lines, lines=block.lines - lines, starts=starts
        )

    def _chosen(self, names: Sequence[str]) -> list[str]:
        wanted = self._options.columns
        for name in wanted:
            if name not in names:
                raise UnreadableSource(f"--columns names {name}, which {self.name} does not have: {', '.join(names)}")
        return [name for name in names if not wanted or name in wanted]

    def _piece(self, block: SourceBlock, names: list[str], chosen: list[str]) -> Piece:
        columns, lines, rejected = self._read(block, names)
        batches, more = self._maker.make({name: columns[name] for name in chosen}, lines)
        position = {"offset": block.end, "line": block.first_line + block.lines}
        every = sorted([*rejected, *more], key=lambda row: int(row.place.rpartition(":")[2]))
        return Piece(batches, position, block.end, every)

    def _read(self, block: SourceBlock, names: list[str]) -> tuple[dict[str, pa.Array], Lines, list[RejectedRow]]:
        """Return the columns as text, the line of each row, and the records that have another number of fields."""
        records = _without_blank(block)
        lines = records.record_lines()
        try:
            table = self._parse(records.data, names)
            if table.num_rows == len(records.starts):
                return _columns(table), lines, []
        except pa.ArrowInvalid:
            pass
        good, rejected = self._sort_out(records, len(names))
        texts = [_record(records, at) for at in good]
        try:
            table = self._parse(b"".join(text if text.endswith(b"\n") else text + b"\n" for text in texts), names)
        except pa.ArrowInvalid as error:
            raise UnreadableSource(
                f"{self.name} cannot be read at line {block.first_line} and after: {error}"
            ) from error
        return _columns(table), lines[np.array(good, dtype=np.int64)], rejected

    def _parse(self, data: bytes, names: list[str]) -> pa.Table:
        if not data:
            return pa.table({name: pa.array([], pa.string()) for name in names})
        return pa.csv.read_csv(
            io.BytesIO(data),
            pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
            pa.csv.ParseOptions(delimiter=self._options.delimiter, newlines_in_values=True, ignore_empty_lines=False),
            pa.csv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                null_values=["", *self._options.nulls],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _sort_out(self, block: SourceBlock, count: int) -> tuple[list[int], list[RejectedRow]]:
        """Find the records that cannot be read, one by one."""
        good, rejected = [], []
        lines = block.record_lines()
        for at in range(len(block.starts)):
            reason = self._problem(_record(block, at), count)
            if reason is None:
                good.append(at)
            else:
                rejected.append(RejectedRow(f"{self._maker.source}:{lines[at]}", reason))
        return good, rejected

    def _problem(self, record: bytes, count: int) -> str | None:
        try:
            text = record.decode("utf-8")
        except UnicodeDecodeError as error:
            return f"the line is not UTF-8: {error.reason} at byte {error.start}"
        try:
            fields = next(csv.reader(io.StringIO(text), delimiter=self._options.delimiter, strict=True), [])
        except csv.Error as error:
            return f"the line is not CSV: {error}"
        return None if len(fields) == count else f"expected {count} fields, received {len(fields)}"


def _record(block: SourceBlock, at: int) -> bytes:
    stop = int(block.starts[at + 1]) if at + 1 < len(block.starts) else len(block.data)
    return block.data[int(block.starts[at]) : stop]


def _without_blank(block: SourceBlock) -> SourceBlock:
    """Leave blank lines out of the records; their bytes stay, so that lines keep their numbers."""
    if b"\n\n" not in block.data and b"\n\r\n" not in block.data and not block.data.startswith((b"\n", b"\r\n")):
        return block
    kept = [at for at in range(len(block.starts)) if _record(block, at).strip(b"\r\n")]
    lines = block.record_lines()[kept] if kept else np.empty(0, np.int64)
    texts = [_record(block, at) for at in kept]
    sizes = np.cumsum([0, *map(len, texts)])[:-1] if texts else np.empty(0, np.int64)
    return _NumberedBlock(b"".join(texts), block.end, block.first_line, block.lines, np.asarray(sizes), lines)


@dataclass(frozen=True)
class _NumberedBlock(SourceBlock):
    """A block whose records are not on lines that follow each other."""

    numbers: Lines

    def record_lines(self) -> Lines:
        return self.numbers


def _columns(table: pa.Table) -> dict[str, pa.Array]:
    return {name: table.column(name).combine_chunks() for name in table.column_names}

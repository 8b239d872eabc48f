"""Results as text: CSV, a table in a box, or only the number of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tsdb._kernels import UnsupportedType, encode_csv_rows, encode_table_rows, measure_table_cells
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.model import type_name
from tsdb.query import Affected, Output, Records
from tsdb.servers.http.sql._formats import TEXT_BYTES_MAX, FormatOptions, encode_rows, read_batches
from tsdb.servers.http.sql._shown_times import shown_times


def encode_csv(outputs: Iterator[Output], options: FormatOptions) -> Iterator[bytes]:
    """Yield lines that end with CR LF."""
    return _encode_csv(outputs, options, has_names=False, has_types=False)


def encode_csv_with_names(outputs: Iterator[Output], options: FormatOptions) -> Iterator[bytes]:
    """Yield a line of the columns' names before the rows."""
    return _encode_csv(outputs, options, has_names=True, has_types=False)


def encode_csv_with_names_and_types(outputs: Iterator[Output], options: FormatOptions) -> Iterator[bytes]:
    """Yield a line of the columns' names and one of their types before the rows."""
    return _encode_csv(outputs, options, has_names=True, has_types=True)


def _encode_csv(
    outputs: Iterator[Output], options: FormatOptions, *, has_names: bool, has_types: bool
) -> Iterator[bytes]:
    def encode(batch: Any, start: int, _: bool) -> tuple[bytes, int]:
        return encode_csv_rows(batch, start=start, bytes_max=TEXT_BYTES_MAX)

    def show(batch: pa.RecordBatch) -> pa.RecordBatch:
        return shown_times(batch, epoch=options.epoch, zone=options.time_zone)

    for output in outputs:
        if isinstance(output, Affected):
            yield b"%d\n" % output.rows
            continue
        if has_names:
            yield _csv_line(output.schema.names)
        if has_types:
            yield _csv_line([type_name(field) for field in output.schema])
        for text, _ in encode_rows(output, encode, options.limit, show):
            yield text


def _csv_line(fields: list[str]) -> bytes:
    names = [str(index) for index in range(len(fields))]
    line, _ = encode_csv_rows(pa.record_batch([pa.array([field], pa.string()) for field in fields], names))
    return line


def encode_table(outputs: Iterator[Output], options: FormatOptions) -> Iterator[bytes]:
    """Yield a box whose head has the columns' names; cells are JSON."""
    for output in outputs:
        if isinstance(output, Affected):
            yield b"%d\n" % output.rows
        else:
            yield from _encode_box(output, options)


def _encode_box(records: Records, options: FormatOptions) -> Iterator[bytes]:
    names, batches, size = records.schema.names, [], 0
    widths = [len(name) for name in names]
    for found in read_batches(records, options.limit):
        batch = shown_times(found, epoch=options.epoch, zone=options.time_zone)
        size += batch.nbytes
        if size > options.table_bytes_max:
            raise InvalidArguments(
                f"the result takes more than {options.table_bytes_max} bytes, too many for the format table",
                hint="ask for fewer rows or for the format csv",
            )
        batches.append(batch)
        widths = [max(pair) for pair in zip(widths, _measure(batch), strict=True)]

    def encode(batch: Any, start: int) -> tuple[bytes, int]:
        return encode_table_rows(batch, widths, start=start, bytes_max=TEXT_BYTES_MAX)

    head = "┬".join(f"─{name}{'─' * (width - len(name))}─" for name, width in zip(names, widths, strict=True))
    foot = "┴".join("─" * (width + 2) for width in widths)
    yield f"┌{head}┐\n".encode()
    for batch in batches:
        row = 0
        while row < batch.num_rows:
            text, row = encode(batch, row)
            yield text
    yield f"└{foot}┘\n".encode()


def _measure(batch: pa.RecordBatch) -> list[int]:
    try:
        return measure_table_cells(batch)
    except UnsupportedType as error:
        raise Unsupported(str(error)) from error


def encode_null(outputs: Iterator[Output], options: FormatOptions) -> Iterator[bytes]:
    """Yield how many rows there are, and how long it took."""
    for output in outputs:
        if isinstance(output, Affected):
            yield b"%d rows affected.\n" % output.rows
        else:
            yield b"%d rows in set.\n" % sum(batch.num_rows for batch in read_batches(output, None))
    yield b"Elapsed: %.3f sec.\n" % (options.elapsed_ms() / 1000)

"""Rows as a table or as records.

A table is printed page by page, so that a result of any size needs little memory: columns are as wide as the widest
cell so far, and the heads are repeated when a later page needs wider columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.types as pt

from tsdb.cli.shown._cells import NULL_TEXT, cell_texts
from tsdb.cli.shown._width import display_width, pad, printable

PAGE_ROWS = 1000
"""How many rows are laid out together."""

Write = Callable[[str], object]


def write_table(schema: pa.Schema, batches: Iterable[pa.RecordBatch], write: Write, *, zone: str) -> int:
    """Print a table; return the number of rows."""
    names = [printable(name) for name in schema.names]
    rights = [_is_number(field.type) for field in schema]
    widths = [display_width(name) for name in names]
    rows, has_head = 0, False
    for page in _pages(batches):
        columns = _texts(page, zone)
        needed = [max([width, *map(display_width, cells)]) for width, cells in zip(widths, columns, strict=True)]
        if not has_head or needed != widths:
            widths, has_head = needed, True
            write(_head(names, widths))
        write("".join(_line(cells, widths, rights) for cells in zip(*columns, strict=True)))
        rows += page.num_rows
    if not has_head:
        write(_head(names, widths))
    return rows


def _head(names: list[str], widths: list[int]) -> str:
    titles = " | ".join(pad(name, width, is_right=False) for name, width in zip(names, widths, strict=True))
    return f" {titles.rstrip()}\n-{'-+-'.join('-' * width for width in widths)}-\n"


def _line(cells: tuple[str, ...], widths: list[int], rights: list[bool]) -> str:
    padded = (pad(cell, width, is_right=right) for cell, width, right in zip(cells, widths, rights, strict=True))
    return f" {' | '.join(padded).rstrip()}\n"


def write_records(schema: pa.Schema, batches: Iterable[pa.RecordBatch], write: Write, *, zone: str) -> int:
    """Print each row as a block, one line for each column; return the number of rows."""
    names = [printable(name) for name in schema.names]
    width = max(map(display_width, names), default=0)
    titles = [pad(name, width, is_right=False) for name in names]
    rows = 0
    for page in _pages(batches):
        for cells in zip(*_texts(page, zone), strict=True):
            rows += 1
            lines = (f"{title} | {cell}".rstrip() + "\n" for title, cell in zip(titles, cells, strict=True))
            write(f"-[ {rows} ]{'-' * max(width, 10)}\n{''.join(lines)}")
    return rows


def _pages(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut large batches into pages and join small ones."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, PAGE_ROWS - sum(each.num_rows for each in waiting))
            start += part.num_rows
            waiting.append(part)
            if sum(each.num_rows for each in waiting) == PAGE_ROWS:
                yield _joined(waiting)
                waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _texts(page: pa.RecordBatch, zone: str) -> list[list[str]]:
    found = []
    for column in page.columns:
        texts = cell_texts(column, zone).to_pylist()
        found.append([NULL_TEXT if text is None else printable(text) for text in texts])
    return found


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))

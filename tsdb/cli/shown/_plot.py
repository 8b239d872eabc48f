"""A chart of a result in the terminal, in braille characters: each one holds a grid of 2 by 4 dots.

The first timestamp column is the x axis; every numeric column is a line, for each combination of the text columns one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tsdb.cli.shown._cells import TimeStyle, cell_texts, timestamps_as_text
from tsdb.cli.shown._width import printable
from tsdb.errors import InvalidArguments

LINES_MAX = 8
ROWS_MAX = 500_000
"""Of a larger result, the first rows are drawn."""
_COLORS = (36, 33, 35, 32, 31, 34, 96, 93)
_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], dtype=np.uint8)
_BLANK = 0x2800
_NAME_CHARS_MAX = 60

Floats = npt.NDArray[np.float64]


class PlotImpossible(InvalidArguments):
    """The result has nothing that could be drawn."""


@dataclass(frozen=True)
class PlottedLine:
    """The points of one line, in the order of x."""

    name: str
    x: Floats
    y: Floats


def draw_plot(rows: pa.Table, *, width: int, height: int, zone: str, has_colors: bool) -> str:
    """Return the chart as lines of text; raises PlotImpossible if there is no time or no number in it."""
    time = _time_column(rows.schema)
    lines, left_out = _lines(rows.slice(0, ROWS_MAX), time)
    if not lines:
        raise PlotImpossible("the result has no points to draw", hint="are all values NULL?")
    low, high = _bounds(np.concatenate([line.y for line in lines]))
    first, last = _x_bounds(lines)
    labels = [_number_text(value) for value in (high, (low + high) / 2, low)]
    margin = max(map(len, labels))
    columns, lines_high = max(width - margin - 3, 10), max(height, 4)
    canvas = _Canvas(columns, lines_high)
    for number, line in enumerate(lines):
        canvas.draw((line.x - first) / (last - first), (line.y - low) / (high - low), number)
    body = [
        f"{_axis_label(at, lines_high, labels):>{margin}} ┤{text}" for at, text in enumerate(canvas.rows(has_colors))
    ]
    kind = rows.schema.field(time).type
    ends = timestamps_as_text(pa.array([int(first), int(last)], pa.int64()).cast(kind), zone, TimeStyle.PLAIN)
    foot = _foot(ends.to_pylist(), columns, margin)
    return "\n".join([*body, *foot, *_legend(lines, left_out, has_colors)]) + "\n"


def _time_column(schema: pa.Schema) -> int:
    for at, field in enumerate(schema):
        if pt.is_timestamp(field.type):
            return at
    raise PlotImpossible("the result has no timestamp column for the x axis", hint="select the time column too")


def _lines(rows: pa.Table, time: int) -> tuple[list[PlottedLine], int]:
    """Divide the rows into lines; also return how many there were too many."""
    values = [at for at, field in enumerate(rows.schema) if _is_value(field.type)]
    if not values:
        raise PlotImpossible("the result has no numeric column to draw")
    x = rows.column(time).cast(pa.int64()).to_numpy().astype(np.float64) if rows.num_rows else np.empty(0)
    names, groups = _groups(rows, time, values)
    found: list[PlottedLine] = []
    for at in values:
        y = np.asarray(rows.column(at).cast(pa.float64()).to_numpy(), dtype=np.float64)
        for group, name in enumerate(names):
            chosen = np.flatnonzero((groups == group) & np.isfinite(y) & np.isfinite(x))
            chosen = chosen[np.argsort(x[chosen], kind="stable")]
            title = name if len(values) == 1 and name else " ".join(filter(None, [rows.schema.field(at).name, name]))
            if len(chosen):
                found.append(PlottedLine(printable(title)[:_NAME_CHARS_MAX], x[chosen], y[chosen]))
    return found[:LINES_MAX], max(0, len(found) - LINES_MAX)


def _groups(rows: pa.Table, time: int, values: Sequence[int]) -> tuple[list[str], npt.NDArray[Any]]:
    """Return the names of the combinations of all other columns, and which one each row belongs to."""
    others = [at for at in range(rows.num_columns) if at != time and at not in values]
    if not others:
        return [""], np.zeros(rows.num_rows, dtype=np.int64)
    texts = [
        pc.fill_null(cell_texts(rows.column(at).combine_chunks(), "UTC"), "")
        if rows.num_rows
        else pa.array([], pa.string())
        for at in others
    ]
    joined = pc.binary_join_element_wise(*texts, " ") if len(texts) > 1 else texts[0]
    encoded = joined.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)


def _is_value(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def _bounds(values: Floats) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    if low == high:
        room = abs(low) * 0.1 or 1.0
        return low - room, high + room
    return low, high


def _x_bounds(lines: Sequence[PlottedLine]) -> tuple[float, float]:
    first, last = min(line.x[0] for line in lines), max(line.x[-1] for line in lines)
    return float(first), float(last if last > first else first + 1)


class _Canvas:
    """Dots in two colours at most per character: the line that was drawn last gives its own."""

    def __init__(self, columns: int, lines: int) -> None:
        self._columns = columns
        self._lines = lines
        self._dots = np.zeros((lines, columns), dtype=np.uint8)
        self._owner = np.full((lines, columns), -1, dtype=np.int8)

    def draw(self, x: Floats, y: Floats, number: int) -> None:
        """Draw points, each in 0 to 1, and what lies between them."""
        across = x * (self._columns * 2 - 1)
        down = (1 - y) * (self._lines * 4 - 1)
        if len(across) > 1:
            across, down = _between(across, down)
        column, row = np.rint(across).astype(np.int64), np.rint(down).astype(np.int64)
        np.bitwise_or.at(self._dots, (row // 4, column // 2), _BITS[row % 4, column % 2])
        self._owner[row // 4, column // 2] = number

    def rows(self, has_colors: bool) -> Iterator[str]:
        for dots, owners in zip(self._dots, self._owner, strict=True):
            cells = [chr(_BLANK + int(each)) for each in dots]
            if has_colors:
                cells = [_colored(cell, int(owner)) for cell, owner in zip(cells, owners, strict=True)]
            yield "".join(cells)


def _between(across: Floats, down: Floats) -> tuple[Floats, Floats]:
    """Add points between neighbours, no further apart than a dot."""
    steps = np.maximum(np.abs(np.diff(across)), np.abs(np.diff(down)))
    counts = np.maximum(1, np.ceil(steps)).astype(np.int64)
    start = np.repeat(np.arange(len(counts)), counts)
    part = (np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)) / np.repeat(counts, counts)
    return (
        np.append(across[start] + part * np.diff(across)[start], across[-1]),
        np.append(down[start] + part * np.diff(down)[start], down[-1]),
    )


def _colored(text: str, owner: int) -> str:
    return text if owner < 0 else f"\x1b[{_COLORS[owner % len(_COLORS)]}m{text}\x1b[0m"


def _number_text(value: float) -> str:
    return f"{value:.4g}"


def _axis_label(row: int, rows: int, labels: Sequence[str]) -> str:
    return {0: labels[0], rows // 2: labels[1], rows - 1: labels[2]}.get(row, "")


def _foot(ends: Sequence[str], columns: int, margin: int) -> list[str]:
    room = columns - len(ends[0]) - len(ends[1])
    between = " " * room if room > 0 else " … "
    return [f"{'':>{margin}} └{'─' * columns}", f"{'':>{margin}}  {ends[0]}{between}{ends[1]}"]


def _legend(lines: Sequence[PlottedLine], left_out: int, has_colors: bool) -> list[str]:
    names = [f"{_colored('━', at) if has_colors else '━'} {line.name}" for at, line in enumerate(lines)]
    more = [f"… and {left_out} more lines that are not drawn"] if left_out else []
    return ["   ".join(names), *more]

"""Rows of PostgreSQL's binary COPY: what was packed comes out, in pieces too, and nothing else is taken for a row."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import parse_postgres_copy

_CELLS = st.none() | st.binary(max_size=12)


def _pack(row: Sequence[bytes | None]) -> bytes:
    cells = (b"\xff" * 4 if cell is None else struct.pack("!i", len(cell)) + cell for cell in row)
    return struct.pack("!h", len(row)) + b"".join(cells)


def _columns(body: bytes, width: int) -> tuple[list[list[bytes | None]], int, int, bool, str | None]:
    arrays, rows, end, is_ended, problem = parse_postgres_copy(body, width)
    return [pa.array(each).to_pylist() for each in arrays], rows, end, is_ended, problem


@given(st.integers(0, 4).flatmap(lambda width: st.lists(st.lists(_CELLS, min_size=width, max_size=width))), st.data())
def test_whole_rows_come_out_and_the_rest_waits(made: list[list[bytes | None]], data: st.DataObject) -> None:
    width = len(made[0]) if made else 2
    packed = [_pack(row) for row in made]
    body = b"".join(packed)
    cut = data.draw(st.integers(0, len(body)))
    whole, size = 0, 0
    while whole < len(packed) and size + len(packed[whole]) <= cut:
        size, whole = size + len(packed[whole]), whole + 1
    columns, rows, end, is_ended, problem = _columns(body[:cut], width)
    assert (rows, end, is_ended, problem) == (whole, size, False, None)
    assert columns == [[row[at] for row in made[:whole]] for at in range(width)]


def test_the_mark_of_the_end_is_taken_and_what_follows_is_not() -> None:
    body = _pack([b"a"]) + b"\xff\xff"
    assert _columns(body + b"more", 1) == ([[b"a"]], 1, len(body), True, None)


def test_a_row_of_another_number_of_cells_is_no_row() -> None:
    body = _pack([b"a", None])
    columns, rows, end, _, problem = _columns(body + _pack([b"b"]), 2)
    assert (columns, rows, end) == ([[b"a"], [None]], 1, len(body))
    assert problem == "row field count is 1, expected 2"
    assert _columns(struct.pack("!h", -2), 2)[4] == "row field count is -2, expected 2"


def test_a_length_below_that_of_a_null_is_refused() -> None:
    assert _columns(struct.pack("!hi", 1, -7), 1)[4] == "invalid field size -7"


@given(st.binary(max_size=64), st.integers(0, 5))
def test_any_bytes_are_answered(body: bytes, width: int) -> None:
    columns, rows, end, _, _ = _columns(body, width)
    assert all(len(column) == rows for column in columns)
    assert 0 <= end <= len(body)

"""Numerics that are read many at once are the same as those that are read one by one."""

from __future__ import annotations

import struct
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from psycopg.types.numeric import DecimalBinaryDumper

from tsdb.servers.postgres._numerics import read_numerics
from tsdb.servers.postgres._values import NUMERIC, decode_value

_EXACT = Context(prec=100)
_DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=4) | st.decimals(-(10**6), 10**6, places=2)
_HEADS = st.tuples(
    st.integers(-2, 6), st.integers(-6, 6), st.sampled_from([0, 0x4000, 0xC000, 0xF000, 1]), st.integers(0, 40)
)
_DIGITS = st.lists(st.sampled_from([0, 1, 10, 5000, 5500, 9999, 10_000, 65535]), max_size=6)


def _check(cells: list[bytes | None], scale: int) -> None:
    numbers, is_read = read_numerics(pa.array(cells, pa.binary()), scale)
    for cell, number, done in zip(cells, numbers.tolist(), is_read.tolist(), strict=True):
        if not done:
            assert number == 0
            continue
        assert cell is not None
        value = decode_value(cell, NUMERIC, is_binary=True)
        assert isinstance(value, Decimal)
        rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
        assert number == int(rounded.scaleb(scale, _EXACT))
        assert rounded == value


@given(st.lists(_DECIMALS | st.none(), max_size=20), st.integers(0, 12))
def test_what_a_client_sends_is_read_as_it_is(values: list[Decimal | None], scale: int) -> None:
    dumper = DecimalBinaryDumper(Decimal)
    _check([None if value is None else bytes(dumper.dump(value)) for value in values], scale)


@given(st.lists(st.tuples(_HEADS, _DIGITS, st.binary(max_size=3)), max_size=10), st.integers(0, 12))
def test_nothing_is_read_that_is_no_number(
    parts: list[tuple[tuple[int, int, int, int], list[int], bytes]], scale: int
) -> None:
    _check(
        [struct.pack("!hhHH", *head) + struct.pack(f"!{len(more)}H", *more) + end for head, more, end in parts], scale
    )


def test_the_usual_ones_are_read_at_once() -> None:
    dumper = DecimalBinaryDumper(Decimal)
    texts = ["0", "1.5", "-0.25", "12345678.99", "99999999999.9999", "100000000", "-1"]
    numbers, is_read = read_numerics(pa.array([bytes(dumper.dump(Decimal(each))) for each in texts]), 4)
    assert is_read.all()
    assert numbers.tolist() == [int(Decimal(each) * 10_000) for each in texts]

"""Casts of columns against what SQL's own casts make of the same values."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import datafusion
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tsdb.model import cast_or_null, is_castable

_SIZES = (8, 16, 32, 64)
INTS = [pa.type_for_alias(f"{sign}int{bits}") for sign in ("", "u") for bits in _SIZES]
FLOATS = [pa.float32(), pa.float64()]
DECIMALS = [pa.decimal128(5, 2), pa.decimal128(38, 0), pa.decimal128(38, 38), pa.decimal128(20, 10)]
STAMPS = [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")]
ALL = [pa.bool_(), *INTS, *FLOATS, *DECIMALS, pa.string(), pa.binary(), pa.date32(), *STAMPS]

TEXTS = [
    *("0", "1", "-1", "+7", "007", "300", "-129", "65536", "4294967296", "9223372036854775807", "9223372036854775808"),
    *("18446744073709551615", "18446744073709551616", "99999999999999999999999", "1.5", "-2.5", "0.005", "-0.005"),
    *(
        "999.994",
        "999.995",
        "1e3",
        "1E-3",
        ".5",
        "5.",
        ".",
        "-",
        "+",
        "",
        " ",
        " 12 ",
        "1 2",
        "abc",
        "nan",
        "NaN",
        "inf",
    ),
    *("-Infinity", "1e400", "1e39", "true", "FALSE", "t", "no", "on", "Y", "2", "true ", "ä", "\0"),
    *("2020-01-01", "2020-02-29", "2021-02-29", "2020-13-01", "2020-1-1", "1969-12-31", "0001-01-01", "9999-12-31"),
    *("2020-01-01 10:11:12", "2020-01-01T10:11:12", "2020-01-01 10:11:12.5", "2020-01-01T10:11:12.123456789"),
    *("1969-12-31 23:59:59.999", "2020-01-01T10:11:12Z", "2020-01-01T10:11:12+02:00", "2020-01-01T10:11:12.25-0130"),
    *("2020-01-01 25:00:00", "2020-01-01 10:61:00", "2020-06-30 10:11", "x2020-01-01", "2020-01-01x", "10:11:12"),
]
NUMBERS = [0, 1, -1, 7, 127, 128, 255, 256, -128, -129, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)]
REALS = [
    *(0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 1.005, 99.995, 999.995, 1e15, 1.5e15, 1e16, 123456789012345.6, 1e20, 1e39, 1e300),
    *(1e-5, 1e-6, 1.5e-6, 1e-7, 5e-324, math.nan, math.inf, -math.inf, 2.0**31, 2.0**63, -(2.0**63), 2.0**64, 0.1),
]
DECIMAL_TEXTS = ["0", "1", "-1", "1.5", "-2.5", "0.05", "-0.05", "99.99", "-99.99", "0.995", "0.1"]


def values_of(kind: pa.DataType) -> pa.Array:
    """Some values of a type, a null among them."""
    found: list[Any]
    if pa.types.is_boolean(kind):
        found = [True, False]
    elif pa.types.is_integer(kind):
        return pa.array([None, *(n for n in [*NUMBERS, 2**64 - 1] if _fits(n, kind))], kind)
    elif pa.types.is_floating(kind):
        return pa.array([None, *REALS], pa.float64()).cast(kind, safe=False)
    elif pa.types.is_decimal(kind):
        found = [Decimal(text) for text in DECIMAL_TEXTS if _holds(kind, Decimal(text))]
    elif pa.types.is_string(kind):
        found = TEXTS
    elif pa.types.is_binary(kind):
        found = [b"", b"abc", b"\xff", "ä".encode(), b"a\xff", b"1"]
    elif pa.types.is_date32(kind):
        return pa.array([None, 0, 1, -1, 18262, -719162, 2932896], pa.int32()).cast(kind)
    else:
        ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        seconds = [0, 1, -1, 1577873472, -86400, -86401]
        plain = [*(second * ticks for second in seconds), 1, -1, 1500, -1500, 1_500_000, 123_456_789]
        return pa.array([None, *plain], pa.int64()).cast(kind)
    return pa.array([None, *found], kind)


def _fits(number: int, kind: pa.DataType) -> bool:
    bits = kind.bit_width
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if pa.types.is_signed_integer(kind) else (0, 2**bits - 1)
    return low <= number <= high


def _holds(kind: pa.DataType, value: Decimal) -> bool:
    return (
        -value.as_tuple().exponent <= kind.scale
        and len(value.as_tuple().digits) <= kind.precision
        and (abs(value) < 10 ** (kind.precision - kind.scale))
    )


def by_sql(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """What DataFusion makes of the values, None if it has no such cast."""
    context = datafusion.SessionContext()
    context.from_arrow(pa.table({"x": values}), name="t")
    try:
        found = context.sql(f"SELECT arrow_try_cast(x, '{_rust_name(kind)}') AS x FROM t").to_arrow_table()
    except Exception:  # noqa: BLE001 - whatever says that there is no such cast
        return None
    return found.column("x").combine_chunks().cast(kind)


def _rust_name(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"Decimal128({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        unit = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}[kind.unit]
        return f"Timestamp({unit}, None)"
    names = {"bool": "Boolean", "string": "Utf8", "binary": "Binary", "date32[day]": "Date32", "float": "Float32"}
    names["double"] = "Float64"
    text = str(kind)
    return names.get(text) or text.replace("uint", "UInt").replace("int", "Int").replace("UInt", "UInt")


def comparable(values: pa.Array) -> list[str]:
    """Values as text: NaN equals NaN, and dates and times need not be ones that Python has."""
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    return [repr(value) for value in values.to_pylist()]


PAIRS = [(old, new) for old in ALL for new in ALL if is_castable(old, new)]


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=lambda kind: str(kind))
def test_a_cast_is_what_sql_makes_of_the_same_values(old: pa.DataType, new: pa.DataType) -> None:
    values = values_of(old)
    found = cast_or_null(values, new)
    assert found.type == new
    found.validate(full=True)
    expected = by_sql(values, new)
    assert expected is not None
    if pa.types.is_decimal(old) and pa.types.is_floating(new):
        # DataFusion divides, and is off in the last bit at times.
        assert found.to_pylist() == [None if x is None else pytest.approx(x) for x in expected.to_pylist()]
        return
    differing = [
        row for row in zip(comparable(values), comparable(found), comparable(expected), strict=True) if row[1] != row[2]
    ]
    assert differing == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.bool_(), pa.date32()),
        (pa.bool_(), pa.timestamp("ms")),
        (pa.bool_(), pa.decimal128(5, 2)),
        (pa.decimal128(5, 2), pa.bool_()),
        (pa.float64(), pa.date32()),
        (pa.date32(), pa.float64()),
        (pa.int16(), pa.date32()),
        (pa.date32(), pa.uint64()),
        (pa.binary(), pa.int64()),
        (pa.int64(), pa.binary()),
        (pa.list_(pa.int64()), pa.string()),
    ],
    ids=str,
)
def test_what_has_no_meaning_is_not_castable(old: pa.DataType, new: pa.DataType) -> None:
    assert not is_castable(old, new)


@given(
    texts=st.lists(
        st.none()
        | st.text(max_size=8)
        | st.text("0123456789+-.eE :TZnaif", max_size=24)
        | st.datetimes().map(str)
        | st.integers().map(str)
        | st.floats().map(str)
    ),
    kind=st.sampled_from(ALL),
)
@settings(max_examples=300, deadline=None)
@example(texts=["1" + "0" * 36, "0.5"], kind=pa.decimal128(38, 38))
def test_any_text_can_be_cast_and_each_value_as_if_it_were_alone(texts: list[str | None], kind: pa.DataType) -> None:
    values = pa.array(["first", *texts, None], pa.string())
    found = cast_or_null(values, kind)
    found.validate(full=True)
    assert len(found) == len(values)
    alone = [comparable(cast_or_null(values.slice(at, 1), kind))[0] for at in range(len(values))]
    assert comparable(found) == alone


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=str)
def test_a_slice_is_cast_like_the_whole_and_nothing_to_nothing(old: pa.DataType, new: pa.DataType) -> None:
    values = values_of(old)
    whole = cast_or_null(values, new)
    assert comparable(cast_or_null(values.slice(2), new)) == comparable(whole)[2:]
    assert cast_or_null(values.slice(0, 0), new).to_pylist() == []
    assert cast_or_null(pa.nulls(3, old), new).to_pylist() == [None] * 3

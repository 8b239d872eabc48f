"""`row_hash` against a plain Python definition of the series id."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import row_hash

EMPTY_KEY = xxhash.xxh3_64_intdigest(b"")
INTEGER_TYPES = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
]
TEXT_TYPES = [pa.string(), pa.large_string(), pa.string_view()]
TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def hashes(columns: Sequence[Any], names: Sequence[str], **options: int) -> list[int]:
    result = pa.array(row_hash(columns, names, **options), pa.uint64())
    result.validate(full=True)
    return cast("list[int]", result.to_pylist())


def reference(columns: Sequence[Any], names: Sequence[str], rows: int, seed: int = 0) -> list[int]:
    order = sorted(range(len(names)), key=lambda index: names[index].encode())
    values = [reference_values(columns[index]) for index in order]
    prefixes = [names[index].encode() + b"\xff" for index in order]
    keys = [
        b"".join(
            prefix + column[row] + b"\xff"
            for prefix, column in zip(prefixes, values, strict=True)
            if column[row] is not None
        )
        for row in range(rows)
    ]
    return [xxhash.xxh3_64_intdigest(key, seed=seed) for key in keys]


def reference_values(column: Any) -> list[Any]:
    """The bytes of every value, None for a null."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return [None if value is None else b"\xfeb" + bytes([value]) for value in column.to_pylist()]
    if pa.types.is_integer(kind):
        return [None if value is None else reference_integer(value) for value in column.to_pylist()]
    if pa.types.is_date(kind):
        days = column.cast(pa.int32()).to_pylist()
        return [None if day is None else b"\xfed" + day.to_bytes(4, "little", signed=True) for day in days]
    if pa.types.is_timestamp(kind):
        ticks = column.cast(pa.int64()).to_pylist()
        return [None if tick is None else reference_timestamp(tick, kind.unit) for tick in ticks]
    return [None if value is None else value.encode() for value in column.to_pylist()]


def reference_integer(value: int) -> bytes:
    if value >= 2**63:
        return b"\xfeu" + value.to_bytes(8, "little")
    return b"\xfei" + value.to_bytes(8, "little", signed=True)


def reference_timestamp(ticks: int, unit: str) -> bytes:
    seconds, rest = divmod(ticks, TICKS_PER_SECOND[unit])
    nanoseconds = rest * (10**9 // TICKS_PER_SECOND[unit])
    return b"\xfet" + seconds.to_bytes(8, "little", signed=True) + nanoseconds.to_bytes(4, "little")


def values_of(kind: Any, rows: int) -> st.SearchStrategy[list[Any]]:
    if pa.types.is_boolean(kind):
        element: st.SearchStrategy[Any] = st.booleans()
    elif pa.types.is_unsigned_integer(kind):
        element = st.integers(0, 2**kind.bit_width - 1)
    elif pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        element = st.integers(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    else:
        element = st.text(max_size=20)
    # A small pool makes repetitions between neighbouring rows likely.
    pool = st.lists(element, min_size=1, max_size=4)
    return pool.flatmap(lambda few: st.lists(st.sampled_from([None, *few]), min_size=rows, max_size=rows))


@st.composite
def plain_columns(draw: st.DrawFn, rows: int) -> Any:
    fixed = [pa.bool_(), pa.date32(), *INTEGER_TYPES, *(pa.timestamp(unit) for unit in TICKS_PER_SECOND)]
    kind = draw(st.sampled_from([*TEXT_TYPES, *fixed, pa.timestamp("ms", "Europe/Paris"), pa.null()]))
    if pa.types.is_null(kind):
        return pa.nulls(rows)
    values = draw(values_of(kind, rows))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.array(values, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)
    return pa.array(values, kind)


@st.composite
def dictionary_columns(draw: st.DrawFn, rows: int) -> Any:
    entries = draw(st.lists(st.none() | st.text(max_size=20), min_size=1, max_size=12))
    codes = draw(st.lists(st.none() | st.integers(0, len(entries) - 1), min_size=rows, max_size=rows))
    code_type: Any = draw(st.sampled_from(INTEGER_TYPES))
    text_type: Any = draw(st.sampled_from([pa.string(), pa.large_string()]))
    return pa.DictionaryArray.from_arrays(pa.array(codes, code_type), pa.array(entries, text_type))


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Any], list[str], int]:
    """Columns of one length, each cut out of a longer array, with distinct names."""
    rows = draw(st.integers(0, 20))
    names = draw(st.lists(st.text(max_size=6), unique=True, max_size=5))
    columns = []
    for _ in names:
        before, after = draw(st.integers(0, 9)), draw(st.integers(0, 3))
        whole = draw(st.one_of(plain_columns(before + rows + after), dictionary_columns(before + rows + after)))
        columns.append(whole.slice(before, rows))
    return columns, names, rows


@given(tables(), st.integers(0, 2**64 - 1), st.randoms())
def test_ids_agree_with_the_reference_in_any_order_of_columns(
    table: tuple[list[Any], list[str], int], seed: int, shuffle: random.Random
) -> None:
    columns, names, rows = table
    expected = reference(columns, names, rows, seed)
    order = list(range(len(names)))
    shuffle.shuffle(order)
    assert hashes([columns[i] for i in order], [names[i] for i in order], seed=seed, rows=rows) == expected


@given(values_of(pa.string(), 12))
def test_the_encoding_of_a_string_column_does_not_change_its_ids(values: list[str | None]) -> None:
    plain = pa.array(values, pa.string())
    encodings = [plain.cast(kind) for kind in TEXT_TYPES] + [
        plain.dictionary_encode().cast(pa.dictionary(code, text))
        for code in INTEGER_TYPES
        for text in (pa.string(), pa.large_string())
    ]
    expected = reference([plain], ["host"], 12)
    assert all(hashes([column], ["host"]) == expected for column in encodings)


def test_columns_longer_than_a_window_agree_with_the_reference() -> None:
    rows = 3000
    chooser = random.Random(7)
    hosts = [
        chooser.choice(["a", "b", None, "a rather long name of a host, longer than twelve bytes"]) for _ in range(rows)
    ]
    runs = [row // 700 for row in range(rows)]
    columns = [
        pa.array(hosts).dictionary_encode(),
        pa.array(hosts, pa.string_view()),
        pa.array(runs, pa.int16()),
        pa.array([str(run) for run in runs]).dictionary_encode(),
    ]
    names = ["host", "view", "run", "text"]
    assert hashes(columns, names, seed=5) == reference(columns, names, rows, seed=5)
    assert hashes(columns[2:], names[2:]) == reference(columns[2:], names[2:], rows)


def test_a_key_of_hundreds_of_bytes_agrees_with_the_reference() -> None:
    column = pa.array(["x" * length for length in range(0, 1200, 7)])
    for seed in (0, 1, 2**64 - 1):
        assert hashes([column], ["long"], seed=seed) == reference([column], ["long"], len(column), seed)


def test_the_id_of_a_known_row_never_changes() -> None:
    columns = [
        pa.array(["web-1"]),
        pa.array(["eu"]),
        pa.array([7], pa.int64()),
        pa.array([None], pa.string()),
    ]
    assert hashes(columns, ["host", "region", "rack", "zone"]) == [0x7C2FF10D1257053F]


def test_a_null_column_does_not_change_the_id() -> None:
    host = pa.array(["a", "b"])
    assert hashes([host, pa.nulls(2)], ["host", "new"]) == hashes([host], ["host"])
    assert hashes([host, pa.nulls(2, pa.int32())], ["host", "new"]) == hashes([host], ["host"])


def test_an_empty_string_is_a_value_and_differs_from_null() -> None:
    empty, null = hashes([pa.array(["", None])], ["host"])
    assert empty != null
    assert null == EMPTY_KEY


def test_a_boundary_between_name_and_value_cannot_be_moved() -> None:
    assert hashes([pa.array(["bc"])], ["a"]) != hashes([pa.array(["c"])], ["ab"])
    assert hashes([pa.array(["1"])], ["a"]) != hashes([pa.array([1])], ["a"])


def test_integers_of_equal_value_have_equal_ids_in_every_width() -> None:
    assert len({hashes([pa.array([100], kind)], ["n"])[0] for kind in INTEGER_TYPES}) == 1
    signed = [kind for kind in INTEGER_TYPES if pa.types.is_signed_integer(kind)]
    assert len({hashes([pa.array([-3], kind)], ["n"])[0] for kind in signed}) == 1


def test_an_unsigned_integer_differs_from_the_negative_one_with_the_same_bits() -> None:
    assert hashes([pa.array([2**64 - 1], pa.uint64())], ["n"]) != hashes([pa.array([-1], pa.int64())], ["n"])


def test_a_timestamp_has_the_same_id_in_every_unit_and_zone() -> None:
    kinds = [pa.timestamp(unit, zone) for unit in TICKS_PER_SECOND for zone in (None, "UTC", "Asia/Tokyo")]
    ticks = [pa.array([-5 * TICKS_PER_SECOND[kind.unit]]).cast(kind) for kind in kinds]
    assert len({hashes([column], ["t"])[0] for column in ticks}) == 1


def test_without_columns_every_row_has_the_id_of_the_empty_key() -> None:
    assert hashes([], [], rows=3) == [EMPTY_KEY] * 3
    assert hashes([], (), rows=0) == []
    with pytest.raises(ValueError, match="`rows` must say"):
        row_hash([], [])


@pytest.mark.parametrize("kind", [*TEXT_TYPES, pa.int8(), pa.bool_(), pa.dictionary(pa.int8(), pa.string())])
def test_columns_without_rows_have_no_ids(kind: Any) -> None:
    assert hashes([pa.array([], kind)], ["a"]) == []
    assert hashes([pa.nulls(5, kind).slice(5)], ["a"]) == []


def test_a_dictionary_far_larger_than_its_column_is_read_by_code() -> None:
    entries = pa.array([*(f"v{index}" for index in range(1000)), None])
    column = pa.DictionaryArray.from_arrays(pa.array([999, 3, 3, None, 1000], pa.int16()), entries)
    assert hashes([column], ["a"]) == reference([column], ["a"], 5)


def test_a_dictionary_without_entries_is_all_null() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], pa.string()))
    assert hashes([column], ["a"]) == [EMPTY_KEY] * 2


def test_a_null_code_may_stand_on_any_number() -> None:
    codes = pa.Array.from_buffers(pa.int8(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(bytes([0, 200, 1]))])
    column = pa.DictionaryArray.from_arrays(codes, pa.array(["x", "y"]), safe=False)
    assert hashes([column], ["a"]) == reference([column], ["a"], 3)


@pytest.mark.parametrize("code", [2, 100, -1])
@pytest.mark.parametrize("entries", [["x", "y"], ["x", "y"] * 8])
def test_a_code_outside_of_the_dictionary_is_refused_with_its_row(code: int, entries: list[str]) -> None:
    code = code if code < 0 else code + len(entries)
    codes = pa.array([0, 1, 1, code], pa.int8())
    column = pa.DictionaryArray.from_arrays(codes, pa.array(entries), safe=False)
    with pytest.raises(ValueError, match=f'column "host", row 3: dictionary code {code} is outside'):
        row_hash([column], ["host"])


def test_string_offsets_outside_of_the_buffer_are_refused() -> None:
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little", signed=True) for n in (0, 900, 2)))
    column = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
    with pytest.raises(ValueError, match='column "host", entry 0: the string lies outside of its buffer'):
        row_hash([column], ["host"])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.5]),
        pa.array([1.5], pa.float32()),
        pa.array([b"x"]),
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([1.5]).dictionary_encode(),
        pa.array([1]).dictionary_encode(),
        pa.record_batch({"x": [1]}),
    ],
    ids=lambda column: str(getattr(column, "type", "record batch")),
)
def test_a_type_that_cannot_be_a_tag_is_refused_with_the_name_of_the_column(column: Any) -> None:
    with pytest.raises(TypeError, match=r'column "temperature" of type .* cannot be a tag'):
        row_hash([column], ["temperature"])


@pytest.mark.parametrize(
    "column", [None, "text", [1, 2], pa.chunked_array([["a"]])], ids=lambda value: type(value).__name__
)
def test_what_is_not_an_arrow_array_is_refused(column: Any) -> None:
    with pytest.raises(TypeError, match="expected an Arrow array"):
        row_hash([column], ["a"])


@pytest.mark.parametrize("capsules", [None, (1, 2), (), (object(), object(), object())])
def test_an_object_that_breaks_the_arrow_protocol_is_refused(capsules: Any) -> None:
    class Liar:
        def __arrow_c_array__(self, requested_schema: object | None = None) -> Any:
            return capsules

    with pytest.raises((TypeError, ValueError)):
        row_hash([Liar()], ["a"])


def test_capsules_in_the_wrong_order_or_used_before_are_refused() -> None:
    class Fixed:
        def __init__(self, capsules: Any) -> None:
            self.capsules = capsules

        def __arrow_c_array__(self, requested_schema: object | None = None) -> Any:
            return self.capsules

    schema, array = pa.array(["a"]).__arrow_c_array__()
    with pytest.raises(ValueError, match="incorrect name"):
        row_hash([Fixed((array, schema))], ["a"])
    assert hashes([Fixed((schema, array))], ["a"]) == hashes([pa.array(["a"])], ["a"])
    with pytest.raises(ValueError, match="already consumed"):
        row_hash([Fixed((schema, array))], ["a"])


def test_disagreeing_arguments_are_refused() -> None:
    one, two = pa.array(["a"]), pa.array(["a", "b"])
    with pytest.raises(ValueError, match="2 columns but 1 names"):
        row_hash([one, one], ["a"])
    with pytest.raises(ValueError, match='column "b" has 2 rows, expected 1'):
        row_hash([one, two], ["a", "b"])
    with pytest.raises(ValueError, match='column "a" has 1 rows, expected 2'):
        row_hash([one], ["a"], rows=2)
    with pytest.raises(ValueError, match='column "a" is given twice'):
        row_hash([one, one], ["a", "a"])
    with pytest.raises(OverflowError):
        row_hash([one], ["a"], seed=-1)


def test_more_rows_than_memory_holds_is_an_error_and_not_the_end_of_the_process() -> None:
    with pytest.raises(MemoryError):
        row_hash([], [], rows=2**62)


def test_a_result_outlives_its_arguments_and_can_be_read_more_than_once() -> None:
    column = pa.array(["a", "b"])
    result = row_hash([column], ["host"])
    del column
    assert len(result) == 2
    assert pa.array(result, pa.uint64()).equals(pa.array(result, pa.uint64()))
    # A result is itself an Arrow array for the next kernel.
    assert hashes([result], ["id"]) == reference([pa.array(result, pa.uint64())], ["id"], 2)

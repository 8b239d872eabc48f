"""`LineParser` against a plain Python reader of the line protocol."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.kernels import line_reference as reference
from tsdb._kernels import LineParser, LineRows, MalformedLine

KINDS = {"double": "float", "int64": "int", "uint64": "uint", "bool": "bool", "string": "string"}
Outcome = tuple[str, Any]


def new_parser() -> LineParser:
    return LineParser(1000, 1 << 20)


def exact(kind: str, value: Any) -> Any:
    """Floats by their bits: -0.0 is not 0.0."""
    return struct.pack("<d", value) if kind == "float" else value


def named_fields(rows: LineRows) -> list[tuple[str, pa.Array]]:
    fields = pa.array(rows.fields)
    return list(zip(fields.type.names, fields.flatten(), strict=True))


def rows_of(tables: list[LineRows]) -> list[tuple[Any, ...]]:
    rows = []
    for table in tables:
        numbers = pa.array(table.series)
        columns = [(name, pa.array(column)) for name, column in table.tags.read(numbers)]
        fields = named_fields(table)
        for _, column in [*columns, *fields]:
            column.validate(full=True)
        series = [
            {name: column[at].as_py() for name, column in columns if column[at].is_valid} for at in range(len(numbers))
        ]
        assert len({tuple(sorted(tags.items())) for tags in series}) == len(series)
        assert {name for tags in series for name in tags} == set(table.tag_names)
        for row, (place, time, line) in enumerate(
            zip(*(pa.array(part).to_pylist() for part in (table.index, table.times, table.lines)), strict=True)
        ):
            given = {
                name: (KINDS[str(column.type)], exact(KINDS[str(column.type)], column[row].as_py()))
                for name, column in fields
                if column[row].is_valid
            }
            rows.append((line, table.name, series[place], given, time))
    return sorted(rows, key=lambda row: row[0])


def outcome(parser: LineParser, body: bytes, factor: int = 1, default_time: int = 0) -> Outcome:
    try:
        return "rows", rows_of(parser.parse(body, factor=factor, default_time=default_time))
    except MalformedLine as error:
        return "refused", (error.line, error.column)


def expected(body: bytes, factor: int = 1, default_time: int = 0) -> Outcome:
    try:
        rows = reference.parse(body, factor=factor, default_time=default_time)
    except reference.Refused as refused:
        return "refused", refused.args
    return "rows", [
        (
            row.line,
            row.measurement,
            row.tags,
            {name: (kind, exact(kind, value)) for name, (kind, value) in row.fields.items()},
            row.time,
        )
        for row in rows
    ]


WORD = st.text(st.sampled_from("abé\\,= \"'#\r\t🙂"), min_size=1, max_size=4)
ESCAPES = str.maketrans({",": "\\,", "=": "\\=", " ": "\\ "})
NAME = st.one_of(st.sampled_from(["a", "b", "c d"]), WORD).map(lambda name: name.translate(ESCAPES))
TEXT = st.text(st.sampled_from('ab\\"\n\r é,= '), max_size=5)
NUMBER = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"[+-]?[0-9]{0,25}\.?[0-9]{0,25}([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.integers(-(1 << 64), 1 << 65).map(lambda number: f"{number}i"),
    st.integers(-5, 1 << 65).map(lambda number: f"{number}u"),
    st.sampled_from(
        ["9223372036854775807i", "-9223372036854775808i", "18446744073709551615u", "-0u", "1e999", "5e-324"]
    ),
)
VALUE = st.one_of(
    NUMBER,
    st.sampled_from([*reference.TRUE, *reference.FALSE, "nan", "tRUE"]),
    TEXT.map(lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'),
    TEXT.map(lambda text: f'"{text}"'),
)
TIME = st.one_of(st.just(""), st.integers(-(1 << 64), 1 << 64).map(str), st.integers(0, 99).map(str), NAME)


@st.composite
def lines(draw: st.DrawFn) -> str:
    tags = draw(st.lists(st.tuples(NAME, NAME), max_size=3))
    fields = draw(st.lists(st.tuples(NAME, VALUE), min_size=1, max_size=3))
    key = draw(st.sampled_from(["m", "m\\ n", "m=", "#m", "é"])) + "".join(f",{name}={value}" for name, value in tags)
    gap, time = draw(st.sampled_from([" ", "   "])), draw(TIME)
    line = key + gap + ",".join(f"{name}={value}" for name, value in fields) + (gap + time if time else "")
    return draw(st.sampled_from(["", " ", "\n", "# a, comment\n"])) + line + draw(st.sampled_from(["", " ", "\r"]))


BODIES = st.lists(lines(), max_size=4).map(lambda many: "\n".join(many).encode())


@given(BODIES, st.sampled_from([1, 1000, 10**9]), st.booleans())
@example(b'm a="x\ny" 1\nm b=\n', 1, False)
def test_bodies_are_read_as_the_reference_reads_them_also_when_their_series_are_known(
    body: bytes, factor: int, knows: bool
) -> None:
    parser = new_parser()
    if knows:
        outcome(parser, body, factor)
    assert outcome(parser, body, factor, 7) == expected(body, factor, 7)


@given(BODIES, st.data())
def test_changed_bytes_are_read_or_refused_at_the_same_place(body: bytes, data: st.DataObject) -> None:
    changed = bytearray(body)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed)))
        piece = data.draw(st.one_of(st.binary(max_size=2), st.sampled_from([b" ", b",", b"=", b"\\", b'"', b"\n"])))
        changed[at : at + data.draw(st.integers(0, 2))] = piece
    assert outcome(new_parser(), bytes(changed)) == expected(bytes(changed))


@given(st.binary(max_size=40))
def test_random_bytes_do_no_harm(body: bytes) -> None:
    assert outcome(new_parser(), body) == expected(body)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 20))
@example(1.5e308, 0)
def test_floats_are_the_nearest_to_their_text(value: float, digits: int) -> None:
    written = (repr(value), f"{value:.{digits}e}", f"{value:.{digits}f}")
    # Rounded up, the greatest ones are infinite.
    for text in (text for text in written if abs(float(text)) < float("inf")):
        (rows,) = new_parser().parse(f"m v={text}".encode(), factor=1, default_time=0)
        (read,) = named_fields(rows)[0][1].to_pylist()
        assert struct.pack("<d", read) == struct.pack("<d", float(text))


def test_a_series_has_one_number_however_its_key_is_written() -> None:
    parser = new_parser()
    (first,) = parser.parse(b"m,a=1,b=2 v=1\nm,b=2,a=1 v=2\nm,a=1 v=3", factor=1, default_time=0)
    (second,) = parser.parse(b"m,a=1 v=1\nm,b=2,a=1 v=2", factor=1, default_time=0)
    assert pa.array(first.index).to_pylist() == [0, 0, 1]
    assert pa.array(first.series).to_pylist() == [0, 1]
    assert pa.array(second.series).to_pylist() == [1, 0]
    assert first.source == second.source
    assert parser.keys == 3


def test_columns_come_in_the_order_of_appearance_with_the_time_behind_the_first_line() -> None:
    parser = new_parser()
    parser.parse(b"m,z=1,y=2 q=1", factor=1, default_time=0)
    (rows,) = parser.parse(b"m,y=1 a=1\nm,y=1,x=2 b=2,a=1", factor=1, default_time=0)
    assert rows.columns == ["y", "a", "", "x", "b"]
    assert rows.tag_names == ["y", "x"]


def test_tables_come_in_the_order_of_the_body() -> None:
    tables = new_parser().parse(b"b v=1\na v=1\nb v=2", factor=1, default_time=0)
    assert [table.name for table in tables] == ["b", "a"]
    assert [len(table) for table in tables] == [2, 1]


def test_a_full_parser_starts_over_under_a_new_source_and_old_numbers_keep_their_tags() -> None:
    parser = LineParser(2, 1 << 20)
    (old,) = parser.parse(b"m,a=1 v=1\nm,a=2 v=1\nm,a=3 v=1", factor=1, default_time=0)
    (new,) = parser.parse(b"m,a=9 v=1", factor=1, default_time=0)
    assert parser.keys == 1
    assert old.source != new.source
    assert [pa.array(column).to_pylist() for _, column in old.tags.read(pa.array([2, 0], pa.uint32()))] == [["3", "1"]]


def test_the_bytes_of_a_parser_are_bounded() -> None:
    parser = LineParser(1_000_000, 100_000)
    for number in range(2000):
        parser.parse(f"m,a={'x' * 100}{number} v=1".encode(), factor=1, default_time=0)
        assert parser.nbytes < 102_000


def test_reset_forgets_all_keys() -> None:
    parser = new_parser()
    parser.parse(b"m,a=1 v=1", factor=1, default_time=0)
    parser.reset()
    assert parser.keys == 0


def test_a_number_that_was_never_given_is_refused() -> None:
    (rows,) = new_parser().parse(b"m,a=1 v=1", factor=1, default_time=0)
    with pytest.raises(ValueError, match="never given"):
        rows.tags.read(pa.array([1], pa.uint32()))


def test_many_threads_may_use_one_parser() -> None:
    parser = LineParser(10_000, 1 << 24)
    bodies = [
        "\n".join(f"m,host=h{(number * 7 + row) % 500} v={row}i {row}" for row in range(400)).encode()
        for number in range(40)
    ]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda body: rows_of(parser.parse(body, factor=1, default_time=0)), bodies))
    assert found == [expected(body)[1] for body in bodies]
    assert parser.keys == 500


def test_a_small_body_cannot_make_huge_columns_of_nothing() -> None:
    lines = [f"m f{number}=1" for number in range(20_000)]
    with pytest.raises(MalformedLine, match="too many different fields") as caught:
        new_parser().parse("\n".join(lines).encode(), factor=1, default_time=0)
    assert 8_000 < caught.value.line < 8_200


def test_a_small_body_cannot_make_huge_columns_of_tags() -> None:
    lines = [f"m,t{number}=1 f=1" for number in range(20_000)]
    with pytest.raises(ValueError, match="too many different fields or tags"):
        LineParser(1 << 20, 1 << 30).parse("\n".join(lines).encode(), factor=1, default_time=0)


def test_many_measurements_share_the_bound_of_a_body() -> None:
    wide = ",".join(f"f{number}=1" for number in range(4_000))
    lines = [line for table in range(40) for line in (*[f"m{table} a=1"] * 1_000, f"m{table} {wide}")]
    with pytest.raises(ValueError, match="too many different fields"):
        new_parser().parse("\n".join(lines).encode(), factor=1, default_time=0)


def test_a_body_with_more_new_series_than_can_be_kept_is_refused() -> None:
    lines = [f"m,a={number:0100} f=1" for number in range(1000)]
    with pytest.raises(ValueError, match="more new series than can be kept"):
        LineParser(1 << 20, 100_000).parse("\n".join(lines).encode(), factor=1, default_time=0)


def test_a_line_with_very_many_tags_and_fields_is_read_in_time() -> None:
    names = range(60_000)
    line = "m," + ",".join(f"t{name}=1" for name in names) + " " + ",".join(f"f{name}=1" for name in names)
    (rows,) = LineParser(1 << 20, 1 << 30).parse(line.encode(), factor=1, default_time=0)
    assert len(named_fields(rows)) == len(rows.tag_names) == len(names)

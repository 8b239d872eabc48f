"""Lines into rows per table: precision, order, the numbers of series, and what an error says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tsdb._kernels import LineParser
from tsdb.errors import InvalidArguments, InvalidSyntax
from tsdb.ingest import TableRows
from tsdb.ingest.influx import PRECISIONS, LineReader, parse_lines


def parse(body: str, *, parser: LineParser | None = None, precision: str = "ns", now_ns: int = 7) -> list[TableRows]:
    return parse_lines(body.encode(), precision=precision, now_ns=now_ns, parser=parser or LineParser(1000, 1 << 20))


def test_a_line_becomes_a_row_of_its_measurement() -> None:
    (rows,) = parse('m,host=a v=1.5,i=2i,u=3u,b=t,s="x" 1700000000000000000')
    assert rows.table == "m"
    assert rows.read_tags().to_pydict() == {"host": ["a"]}
    assert {name: values.to_pylist() for name, values in rows.fields.items()} == {
        "v": [1.5],
        "i": [2],
        "u": [3],
        "b": [True],
        "s": ["x"],
    }
    assert [str(values.type) for values in rows.fields.values()] == ["double", "int64", "uint64", "bool", "string"]
    assert rows.times.tolist() == [1_700_000_000_000_000_000]
    assert rows.unit == "ns"
    assert rows.columns == ("host", "v", "i", "u", "b", "s", "")


@pytest.mark.parametrize(("precision", "factor"), PRECISIONS.items())
def test_times_are_scaled_to_nanoseconds(precision: str, factor: int) -> None:
    (rows,) = parse("m v=1 12\nm v=1", precision=precision)
    assert rows.times.tolist() == [12 * factor, 7]


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="unknown precision 'days'"):
        parse("m v=1", precision="days")


def test_a_time_that_overflows_in_its_precision_is_refused() -> None:
    parse("m v=1 9223372036", precision="s")
    with pytest.raises(InvalidSyntax, match="is the precision right"):
        parse("m v=1 9223372037", precision="s")


def test_rows_of_one_table_have_a_null_where_a_line_lacks_a_field_or_tag() -> None:
    (rows,) = parse("m,a=1 f=1 1\nm,b=2 g=2 2\nm,a=1 f=3 3")
    assert rows.read_tags().to_pydict() == {"a": ["1", None], "b": [None, "2"]}
    assert rows.series_index.tolist() == [0, 1, 0]
    assert {name: values.to_pylist() for name, values in rows.fields.items()} == {
        "f": [1.0, None, 3.0],
        "g": [None, 2.0, None],
    }


def test_places_are_lines_of_the_body() -> None:
    (rows,) = parse('# one\nm s="a\nb"\n\nm s="c"')
    assert rows.places is not None
    assert rows.places.tolist() == [2, 5]


def test_an_empty_body_has_no_rows() -> None:
    assert parse("\n# nothing\n") == []


def test_tags_stand_in_the_order_of_the_request_whatever_came_before() -> None:
    parser = LineParser(1000, 1 << 20)
    parse("m,z=1,y=2 v=1", parser=parser)
    (rows,) = parse("m,y=1 v=1\nm,y=1,x=3,z=2 v=1", parser=parser)
    assert rows.tag_names == rows.read_tags().schema.names == ["y", "x", "z"]


def test_a_series_without_tags_has_no_columns_and_one_row() -> None:
    (rows,) = parse("m v=1\nm v=2")
    assert rows.read_tags().num_columns == 0
    assert rows.read_tags().num_rows == rows.series == 1


def test_numbers_of_series_last_over_requests_and_tell_their_tags() -> None:
    parser = LineParser(1000, 1 << 20)
    (first,) = parse("m,a=1 v=1\nm,a=2 v=1", parser=parser)
    (second,) = parse("m,a=3 v=1\nm,a=2 v=1", parser=parser)
    assert first.known is not None
    assert second.known is not None
    assert first.known.source == second.known.source
    assert second.known.numbers.tolist() == [2, 1]
    assert second.known.bound == 3
    assert first.known.keeper.read_tags(second.known.numbers).to_pydict() == {"a": ["3", "2"]}


def test_another_measurement_and_another_parser_are_other_sources() -> None:
    parser = LineParser(1000, 1 << 20)
    many = [*parse("m v=1\nn v=1", parser=parser), *parse("m v=1")]
    assert len({rows.known.source for rows in many if rows.known is not None}) == 3


@pytest.mark.parametrize(
    ("body", "message", "line", "column", "near"),
    [
        ("m,a=1", "expected a space and fields behind the tags", 1, 6, ""),
        ("m v=1\nm ", "expected a field", 2, 3, ""),
        ("m,a v=1", "expected '=' behind the name of a tag", 1, 4, " v=1"),
        ("m,a= v=1", "expected the value of a tag; leave the tag out if it has none", 1, 5, " v=1"),
        ("m,a=1,a=2 v=1", 'the tag "a" is here twice', 1, 7, "a=2 v=1"),
        ("m v=1,v=2", 'the field "v" is here twice', 1, 7, "v=2"),
        ("m v=NaN", "expected a value: a number, true or false, or text in double quotes", 1, 5, "NaN"),
        ("m v=1e", "expected a digit of the exponent", 1, 7, ""),
        ("m v=9223372036854775808i", "expected a number that fits its type", 1, 5, "9223372036854775808i"),
        ("m é=1x", "expected ',' or a space behind the value of a field", 1, 6, "x"),
        ('m v="x', "expected '\"' at the end of the text", 1, 5, '"x'),
        ("m v=1 soon\r\n", "expected a timestamp, an integer", 1, 7, "soon"),
        ("m v=1 1 2", "expected the end of the line behind the timestamp", 1, 9, "2"),
        ("m v=1\nm v=1i", 'the field "v" is a Int64 here and a Float64 before; send one type', 2, 5, "1i"),
        ("m,v=1 v=1", '"v" is a field here and a tag as well', 1, 7, "v=1"),
        ("m v=1\nm,v=1 w=1", '"v" is a tag here and a field before', 2, 1, "m,v=1 w=1"),
    ],
)
def test_an_error_says_where_and_what_was_expected(body: str, message: str, line: int, column: int, near: str) -> None:
    with pytest.raises(InvalidSyntax) as caught:
        parse(body)
    assert str(caught.value) == f"{message} (line: {line}, column: {column}, near: {near!r})"


def test_bytes_that_are_not_text_are_refused_with_their_place() -> None:
    with pytest.raises(InvalidSyntax, match=r"expected UTF-8, found the byte 0xFF \(line: 2, column: 5"):
        parse_lines(b"m v=1\nm \xc3\xa9=\xff", now_ns=0)


def test_packed_tags_are_empty_for_names_that_nobody_has() -> None:
    (rows,) = parse("m,a=1 v=1")
    assert rows.known is not None
    packed = rows.known.keeper.pack_tags(rows.known.numbers, ["none"])
    assert np.frombuffer(packed, np.uint32, 4).tolist() == [0, 0, 1, 0]
    assert pa.array(rows.known.numbers).to_pylist() == [0]


def test_a_reader_forgets_series_while_memory_is_short() -> None:
    reader = LineReader(1 << 20)
    body = b"\n".join(b"m,host=h%d v=1 1" % number for number in range(1000))

    def source() -> object:
        (rows,) = reader(body, now_ns=7)
        assert rows.known is not None
        return rows.known.source

    first = source()
    assert source() == first
    ((owner, held, most),) = reader.memory_use()
    assert (owner, most) == ("line_protocol_series", 1 << 20)
    assert 1000 < held <= most
    reader.limit_memory(held / 2 / most)
    assert next(iter(reader.memory_use())).bytes < held / 2
    second = source()
    assert second != first
    assert source() != second, "they do not fit"
    reader.limit_memory(1.0)
    third = source()
    assert source() == third

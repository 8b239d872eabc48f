"""Values of parameters: what bytes mean, what becomes of them in SQL, and which types a text gives its parameters."""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.postgres.running import RunningServer
from tsdb.model import DataType, Kind
from tsdb.servers.postgres._placeholders import infer_types, parse_template
from tsdb.servers.postgres._values import Moment, Value, decode_value, literal


def _columns(parts: Sequence[str]) -> Mapping[str, DataType] | None:
    if parts[-1] != "t":
        return None
    return {
        "host": DataType(Kind.STRING),
        "i": DataType(Kind.INT64),
        "f": DataType(Kind.FLOAT64),
        "ts": DataType(Kind.TIMESTAMP_MILLISECOND),
    }


@pytest.mark.parametrize(
    ("text", "oids"),
    [
        ("SELECT * FROM t WHERE i = $1 AND host <> $2 AND $3 < ts", [20, 1043, 1114]),
        ("SELECT * FROM a.t x WHERE x.f BETWEEN $1 AND $2 AND x.i NOT IN ($3, $4)", [701, 701, 20, 20]),
        ("SELECT * FROM t WHERE host LIKE $1 OR host ~ $2 LIMIT $3 OFFSET $4", [25, 25, 20, 20]),
        ("SELECT $1::timestamp, CAST($2 AS DOUBLE), $3::int[], $4 + 1, 1.5 * $5", [1114, 701, 1007, 20, 701]),
        ("SELECT * FROM t WHERE i = ANY($1) AND count(*) > $2", [1016, 20]),
        ("INSERT INTO t (ts, f, host) VALUES ($1, $2, $3), ($4, abs($5), $6)", [1114, 701, 1043, 1114, None, 1043]),
        ("INSERT INTO t VALUES ($1, $2, $3, $4)", [1043, 20, 701, 1114]),
        ("DELETE FROM t WHERE host = $1 AND ts = $2", [1043, 1114]),
        ("SELECT $1, $2 FROM nowhere WHERE x = $3", [None, None, None]),
        ("SELECT '$1', \"$2\", $3 -- $4", [None, None, None]),
    ],
)
def test_parameters_have_the_types_of_what_they_stand_with(text: str, oids: list[int | None]) -> None:
    template = parse_template(text)
    found = infer_types(template, _columns)
    assert [found[n].oid if n in found else None for n in range(template.count)] == oids


def test_a_text_is_filled_where_its_places_are() -> None:
    template = parse_template("SELECT $2, '$1', $1 /* $3 */ FROM t WHERE i=$1")
    assert template.fill(lambda place: f"<{place.number + 1}>") == "SELECT <2>, '$1', <1> /* $3 */ FROM t WHERE i=<1>"


def _sql(value: Value, oid: int) -> str:
    return literal(value, oid, is_cell=False, is_compared=False)


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_are_read_from_text_and_binary_alike(number: int) -> None:
    assert decode_value(str(number).encode(), 20, is_binary=False) == number
    assert decode_value(struct.pack("!q", number), 20, is_binary=True) == number


@given(st.floats(allow_nan=False))
def test_floats_are_read_from_text_and_binary_alike(number: float) -> None:
    assert decode_value(repr(number).encode(), 701, is_binary=False) == number
    assert decode_value(struct.pack("!d", number), 701, is_binary=True) == number


@given(st.binary(max_size=40))
def test_bytes_are_read_from_hex_and_binary_alike(raw: bytes) -> None:
    assert decode_value(b"\\x" + raw.hex().encode(), 17, is_binary=False) == raw
    assert decode_value(raw, 17, is_binary=True) == raw


@given(
    st.binary(max_size=60),
    st.sampled_from([16, 20, 21, 23, 700, 701, 1082, 1083, 1114, 1184, 1186, 1700, 1016, 2950, 3802]),
)
def test_bytes_that_are_no_value_raise_value_error_and_nothing_else(raw: bytes, oid: int) -> None:
    with contextlib.suppress(ValueError):
        decode_value(raw, oid, is_binary=True)
    with contextlib.suppress(ValueError):
        decode_value(raw, oid, is_binary=False)


@given(
    st.lists(
        st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)), max_size=6
    )
)
def test_arrays_of_text_are_read_as_they_were_written(items: list[str | None]) -> None:
    def write(item: str | None) -> str:
        return "NULL" if item is None else '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'

    text = "{" + ",".join(map(write, items)) + "}"
    assert decode_value(text.encode(), 1009, is_binary=False) == items


def test_numerics_are_read_from_binary() -> None:
    packed = struct.pack("!hhHh3h", 3, 0, 0x4000, 5, 12, 3400, 5000)
    assert decode_value(packed, 1700, is_binary=True) == Decimal("-12.34005")
    assert math.isnan(float(str(decode_value(struct.pack("!hhHh", 0, 0, 0xC000, 0), 1700, is_binary=True))))


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))
def test_timestamps_are_read_from_binary(moment: datetime) -> None:
    micros = (moment - datetime(2000, 1, 1)) // timedelta(microseconds=1)
    found = decode_value(struct.pack("!q", micros), 1114, is_binary=True)
    assert isinstance(found, Moment)
    assert datetime.fromisoformat(found.text) == moment


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30))
def test_text_cannot_leave_its_quotes(text: str) -> None:
    written = _sql(text, 25)
    assert written[0] == written[-1] == "'"
    assert written[1:-1].replace("''", "") == text.replace("'", "")


@pytest.mark.parametrize(
    ("value", "oid", "kind"),
    [
        (-5, 20, int),
        (-(2**63), 20, int),
        (1.5e300, 701, float),
        (-0.1, 701, float),
        (1e22, 701, float),
        (Decimal("-12.340"), 1700, Decimal),
        ('it\'s \\ "q"', 25, str),
        (b"\x00'\xff", 17, bytes),
        (True, 16, bool),
    ],
)
def test_values_come_back_as_they_were_sent(pg: RunningServer, value: Value, oid: int, kind: type) -> None:
    with pg.connect() as connection:
        found = connection.execute(f"SELECT 0 + 1, {_sql(value, oid)} AS v".encode()).fetchone()
    assert found is not None
    assert (type(found[1]), found[1]) == (kind, value)

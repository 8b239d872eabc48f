"""Points of OpenTSDB: how times are read, and that both forms mean the same."""

from __future__ import annotations

import math
from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.errors import InvalidSyntax
from tsdb.ingest.opentsdb import InvalidPoint, Point, make_rows, parse_body, parse_point, parse_put

_word = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("timestamp", "time_ms"),
    [
        (0, 0),
        (1_667_898_896, 1_667_898_896_000),
        (999_999_999_999, 999_999_999_999_000),
        (1_000_000_000_000, 1_000_000_000_000),
        (-5, -5000),
    ],
)
def test_fewer_than_thirteen_digits_are_seconds(timestamp: int, time_ms: int) -> None:
    point = {"metric": "m", "timestamp": timestamp, "value": 1, "tags": {}}
    assert parse_point(point).time_ms == time_ms
    assert parse_put(f"put m {timestamp} 1").time_ms == time_ms


@given(
    metric=_word,
    timestamp=st.integers(0, 2_000_000_000_000),
    value=st.floats(allow_nan=False, allow_infinity=False),
    tags=st.dictionaries(_word, _word, max_size=4),
)
def test_a_line_and_an_object_mean_the_same_point(
    metric: str, timestamp: int, value: float, tags: dict[str, str]
) -> None:
    found = {"metric": metric, "timestamp": timestamp, "value": value, "tags": tags}
    (each,) = parse_body(orjson.dumps(found))
    pairs = " ".join(f"{name}={text}" for name, text in tags.items())
    assert parse_point(each) == parse_put(f"put {metric} {timestamp} {value!r} {pairs}")


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-Infinity", "+.5", "5.", "1e3"])
def test_a_line_may_say_any_float(text: str) -> None:
    value = parse_put(f"put m 1 {text}").value
    assert math.isnan(value) or value == float(text)


@given(st.text())
def test_any_line_is_a_point_or_refused(line: str) -> None:
    with suppress(InvalidPoint):
        assert isinstance(parse_put(line), Point)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=5))
def test_any_json_is_a_point_or_refused(found: object) -> None:
    for value in (found, {"metric": found, "timestamp": found, "value": found, "tags": found}):
        with pytest.raises(InvalidPoint):
            parse_point(value)


@given(st.binary())
def test_any_bytes_are_json_or_refused(body: bytes) -> None:
    with suppress(InvalidSyntax):
        assert isinstance(parse_body(body), list)


def test_rows_of_one_metric_share_their_series() -> None:
    points = [Point("m", time, float(time), (("h", "ab"[time % 2]),)) for time in range(6)]
    (rows,) = make_rows(enumerate(points, 10))
    assert rows.read_tags().to_pylist() == [{"h": "a"}, {"h": "b"}]
    assert rows.series_index.tolist() == [0, 1, 0, 1, 0, 1]
    assert rows.places is not None
    assert rows.places.tolist() == [10, 11, 12, 13, 14, 15]


def test_a_metric_without_tags_has_one_series_without_columns() -> None:
    (rows,) = make_rows(enumerate([Point("m", 1, 1.0, ()), Point("m", 2, 2.0, ())]))
    assert rows.read_tags().num_columns == 0
    assert rows.read_tags().num_rows == 1

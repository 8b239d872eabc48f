"""Time zones and timestamps as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.model import (
    InvalidTimestamp,
    InvalidTimeZone,
    canonical_zone,
    check_range,
    parse_date,
    parse_timestamp,
    parse_timestamps,
    to_unit,
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("utc", "UTC"),
        ("SYSTEM", "UTC"),
        ("+8:00", "+08:00"),
        ("-08:00", "-08:00"),
        ("+0530", "+05:30"),
        ("asia/shanghai", "Asia/Shanghai"),
    ],
)
def test_a_zone_has_one_form(text: str, canonical: str) -> None:
    assert canonical_zone(text) == canonical


@pytest.mark.parametrize("text", ["", "Nowhere/City", "+25:00", "+08:99", "8"])
def test_a_zone_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(InvalidTimeZone):
        canonical_zone(text)


@pytest.mark.parametrize(
    ("text", "zone", "nanoseconds"),
    [
        ("1970-01-01 00:00:00", "UTC", 0),
        ("1970-01-01T00:00:00Z", "+08:00", 0),
        ("1970-01-01 08:00:00", "+08:00", 0),
        ("1970-01-01 08:00:00+08:00", "UTC", 0),
        ("1970-01-01 00:00:00+0000", "+08:00", 0),
        ("2024-1-3 1:2:3.5", "UTC", 1_704_243_723_500_000_000),
        ("1969-12-31 23:59:59.999999999", "UTC", -1),
        ("1970-01-02", "UTC", 86_400_000_000_000),
        ("2024-07-01 12:00:00", "Europe/Berlin", 1_719_828_000_000_000_000),
    ],
)
def test_a_timestamp_is_an_instant(text: str, zone: str, nanoseconds: int) -> None:
    assert parse_timestamp(text, zone) == nanoseconds


def test_years_beyond_four_digits_are_times_too() -> None:
    seconds = parse_timestamp("+234049-06-04 01:02:03") // 1_000_000_000
    assert seconds == np.datetime64("234049-06-04T01:02:03", "s").astype(int)


@pytest.mark.parametrize(
    "text", ["", "x", "2024-13-01 00:00:00", "2024-02-30 00:00:00", "2024-01-01 25:00:00", "24-01-01 00:00:00"]
)
def test_text_that_is_no_timestamp_is_refused(text: str) -> None:
    with pytest.raises(InvalidTimestamp):
        parse_timestamp(text)


def test_a_date_alone_is_its_midnight() -> None:
    assert parse_timestamp("2024-01-01", "Europe/Berlin") == 1_704_063_600 * 10**9


@given(st.datetimes(min_value=datetime(1700, 1, 1), max_value=datetime(2200, 1, 1)), st.sampled_from(["s", "ms", "us"]))
def test_columns_and_single_values_are_read_alike(moment: datetime, unit: str) -> None:
    text = moment.isoformat(sep=" ")
    wanted = to_unit(parse_timestamp(text), unit)
    assert parse_timestamps(pa.array([text, None]), unit).cast(pa.int64()).to_pylist() == [wanted, None]
    since = moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    assert parse_timestamp(text) == since // timedelta(microseconds=1) * 1_000


@pytest.mark.parametrize("texts", [["2024-07-01 10:00:00Z", None], ["2024-07-01T10:00:00.000Z", "2024-07-01 12:00:00"]])
def test_a_zone_in_a_column_of_texts_wins(texts: list[str | None]) -> None:
    column = parse_timestamps(pa.array(texts), "s", "Europe/Berlin").cast(pa.int64()).to_pylist()
    assert column == [None if text is None else 1_719_828_000 for text in texts]


def test_digits_are_counts_of_the_unit() -> None:
    column = parse_timestamps(pa.array(["1000", "-5", "2024-01-01 00:00:00"]), "ms")
    assert column.cast(pa.int64()).to_pylist() == [1000, -5, 1_704_067_200_000]


def test_a_finer_fraction_is_rounded_down() -> None:
    column = parse_timestamps(pa.array(["1969-12-31 23:59:59.9999"]), "ms")
    assert column.cast(pa.int64()).to_pylist() == [-1]


def test_counts_outside_of_the_calendar_are_refused() -> None:
    check_range((1 << 63) - 1, "ns")
    with pytest.raises(InvalidTimestamp):
        check_range(1 << 62, "s")
    with pytest.raises(InvalidTimestamp):
        to_unit(1 << 64, "ns")


def test_dates_have_no_time() -> None:
    assert parse_date("1970-01-11") == 10
    with pytest.raises(InvalidTimestamp):
        parse_date("1970-01-11 00:00:00")

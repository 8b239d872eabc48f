"""Dates and times: formats, zones, arithmetic."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.query.functions.asking import check, column, error, value
from tsdb.query.functions._strftime import compile_format
from tsdb.query.functions._time import format_times, unix_seconds

MOMENT = "arrow_cast('2024-03-05T07:08:09.012345678', 'Timestamp(ns)')"
FORMATS = [
    ("%Y-%m-%d %H:%M:%S", "2024-03-05 07:08:09"),
    ("%F %T", "2024-03-05 07:08:09"),
    ("%Y-%m-%d %H:%M:%S:%3f", "2024-03-05 07:08:09:012"),
    ("%6f|%9f|%f", "012345|012345678|012345678"),
    ("%.3f|%.6f|%.f", ".012|.012345|.012345678"),
    ("%y %C %e %j", "24 20  5 065"),
    ("%a %A %b %B %h", "Tue Tuesday Mar March Mar"),
    ("%I %l %k %p %P", "07  7  7 AM am"),
    ("%u %w %U %W %V %G %g", "2 2 09 10 10 2024 24"),
    ("%D %R %r %c", "03/05/24 07:08 07:08:09 AM Tue Mar  5 07:08:09 2024"),
    ("%s %z %:z %Z", "1709622489 +0000 +00:00 UTC"),
    ("%-d/%-m/%_m/%0e", "5/3/ 3/05"),
    ("%+", "2024-03-05T07:08:09.012345678+00:00"),
    ("100%% %n%t", "100% \n\t"),
    ("", ""),
]


@pytest.mark.parametrize(("form", "expected"), FORMATS)
def test_date_format_writes(form: str, expected: str) -> None:
    check(f"date_format({MOMENT}, '{form}')", expected)


CASES = [
    ("date_format(DATE '2024-02-29', '%d.%m.%Y %H:%M')", "29.02.2024 00:00"),
    ("date_format(arrow_cast(1, 'Timestamp(ms)'), '%.f')", ".001"),
    ("date_format(arrow_cast(-1, 'Timestamp(ms)'), '%F %T%.f')", "1969-12-31 23:59:59.999"),
    ("date_format(arrow_cast(0, 'Timestamp(s)'), '%T%.f')", "00:00:00"),
    ("date_format(arrow_cast(99999999999999, 'Timestamp(ms)'), '%F')", "5138-11-16"),
    ("date_format(arrow_cast(-99999999999999, 'Timestamp(ms)'), '%F')", "-1199-02-15"),
    ("date_format(NULL, '%F')", None),
    ("date_format(arrow_cast(0, 'Timestamp(s)'), NULL)", None),
    ("to_unixtime('2024-01-02 00:00:00')", 1704153600),
    ("to_unixtime('  2024-01-02T00:00:00Z ')", 1704153600),
    ("to_unixtime('2024-01-02 00:00:00.999+08:00')", 1704124800),
    ("to_unixtime('2024-1-2 3:4:5')", 1704164645),
    ("to_unixtime('2024-01-02')", 1704153600),
    ("to_unixtime('2024-02-30 00:00:00')", None),
    ("to_unixtime('2024-13-01')", None),
    ("to_unixtime('yesterday')", None),
    ("to_unixtime(NULL)", None),
    ("to_unixtime(arrow_cast(1999, 'Timestamp(ms)'))", 1),
    ("to_unixtime(arrow_cast(-1, 'Timestamp(ns)'))", -1),
    ("to_unixtime(DATE '1970-01-03')", 172800),
    ("to_unixtime(-42)", -42),
    ("to_unixtime(arrow_cast(7, 'UInt8'))", 7),
    ("to_unixtime(concat('1970-01-01', ' 00:01:00'))", 60),
    ("date_add(DATE '2024-01-31', INTERVAL '1 month')", date(2024, 2, 29)),
    ("date_add(DATE '2024-01-31', '1 month')", date(2024, 2, 29)),
    ("date_sub(DATE '2024-03-31', '1mon')", date(2024, 2, 29)),
    ("date_add(arrow_cast(0, 'Timestamp(s)'), '1y2mon3d4h')", datetime(1971, 3, 4, 4)),
    ("date_add(arrow_cast(0, 'Timestamp(ms)'), '1 day 1 second')", datetime(1970, 1, 2, 0, 0, 1)),
    ("date_sub(arrow_cast(0, 'Timestamp(us)'), '5m')", datetime(1969, 12, 31, 23, 55)),
    ("date_add('2024-01-31 10:00:00', '1 month')", datetime(2024, 2, 29, 10)),
    ("date_add(NULL, INTERVAL '1 day')", None),
]


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=[case[0] for case in CASES])
def test_time_function_gives(expression: str, expected: object) -> None:
    check(expression, expected)


ZONED = [
    ("+08:00", f"date_format({MOMENT}, '%F %T %z %Z')", "2024-03-05 15:08:09 +0800 +08:00"),
    ("-08:00", f"date_format({MOMENT}, '%F %T')", "2024-03-04 23:08:09"),
    ("America/New_York", f"date_format({MOMENT}, '%T %:z %Z')", "02:08:09 -05:00 EST"),
    ("+08:00", "date_format(DATE '2024-01-01', '%F %T')", "2024-01-01 08:00:00"),
    ("+08:00", "to_unixtime('2024-01-02 00:00:00')", 1704124800),
    ("-08:00", "to_unixtime('2024-01-02 00:00:00')", 1704182400),
    ("+08:00", "to_unixtime('2024-01-02 00:00:00Z')", 1704153600),
    ("Europe/Berlin", "to_unixtime('2024-07-01 00:00:00')", 1719784800),
    ("Europe/Berlin", "to_unixtime('2024-7-1 0:0:0')", 1719784800),
    ("+08:00", "to_unixtime(arrow_cast(5, 'Timestamp(s)'))", 5),
    ("+08:00", "to_unixtime(DATE '1970-01-02')", 86400),
    ("+08:00", "timezone()", "+08:00"),
    ("Europe/Berlin", "timezone()", "Europe/Berlin"),
]


@pytest.mark.parametrize(("zone", "expression", "expected"), ZONED)
def test_the_zone_of_the_session_counts(zone: str, expression: str, expected: object) -> None:
    check(expression, expected, zone=zone)


@pytest.mark.parametrize("form", ["%", "%Q", "%5f", "%Y-%!"])
def test_date_format_names_the_specifier_it_does_not_know(form: str) -> None:
    assert f"'{form}'" in error(f"date_format({MOMENT}, '{form}')")


def test_date_format_refuses_what_is_no_time() -> None:
    assert "'soon'" in error("date_format('soon', '%F')")


def test_to_unixtime_refuses_a_number_with_a_fraction() -> None:
    assert "Float64" in error("to_unixtime(1.5)")


def test_the_format_may_differ_from_row_to_row() -> None:
    times = pa.array([0, 1500, None, 2000], pa.timestamp("ms"))
    table = pa.table({"ts": times, "form": ["%S", "%S%.3f", "%S", None]})
    assert column("date_format(ts, form)", table) == ["00", "01.500", None, None]


def test_to_unixtime_of_a_string_column_gives_null_where_there_is_no_time() -> None:
    table = pa.table({"s": ["1970-01-01 00:00:05", "never", None, "1970-01-01T08:00:00+08:00"]})
    assert column("to_unixtime(s)", table) == [5, None, None, 0]
    assert column("to_unixtime(s)", table, zone="+01:00") == [-3595, None, None, 0]


def test_arithmetic_keeps_the_unit_of_the_column() -> None:
    table = pa.table({"ts": pa.array([0], pa.timestamp("s"))})
    assert column("date_add(ts, INTERVAL '1 hour')", table) == [datetime(1970, 1, 1, 1)]
    assert value("arrow_typeof(date_add(arrow_cast(0, 'Timestamp(s)'), '1 hour'))") == "Timestamp(s)"


_MOMENTS = st.datetimes(datetime(1680, 1, 1), datetime(2260, 1, 1))
_FORM = "%Y-%m-%d %H:%M:%S.%f %j %a %b %p %I %U %W %u %w %G %V %y"


@given(st.lists(_MOMENTS, min_size=1))
def test_formats_agree_with_the_standard_library(moments: list[datetime]) -> None:
    texts = format_times(
        pa.array(moments, pa.timestamp("us")).cast(pa.string()), compile_format(_FORM.replace("%f", "%6f")), "UTC", "f"
    )
    # The library does not pad years, and these have four digits.
    assert texts.to_pylist() == [moment.strftime(_FORM) for moment in moments]


@given(
    st.lists(st.datetimes(datetime(1971, 1, 1), datetime(2037, 1, 1)), min_size=1),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]),
)
def test_zones_agree_with_the_standard_library(moments: list[datetime], zone: str) -> None:
    texts = pa.array([moment.isoformat() for moment in moments])
    shown = [moment.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).strftime("%F %T %z") for moment in moments]
    assert format_times(texts, compile_format("%F %T %z"), zone, "f").to_pylist() == shown
    for moment, seconds in zip(moments, unix_seconds(texts, zone).to_pylist(), strict=True):
        local = moment.replace(tzinfo=ZoneInfo(zone))
        if (local.astimezone(UTC).astimezone(ZoneInfo(zone))).replace(tzinfo=None) == moment:
            assert seconds == (local - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)

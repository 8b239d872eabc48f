"""Formats of PostgreSQL's to_char and MySQL's date_format and str_to_date, by tables of what these servers answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.query.functions import FunctionError
from tsdb.query.functions._patterns import check_format, compile_mysql, compile_to_char, read_by_format
from tsdb.query.functions._strftime import Moments, Piece, format_moments

# 2024-02-03 04:05:06.078901 UTC, a Saturday.
MOMENT_S, MOMENT_NS = 1_706_933_106, 78_901_000


def show(pieces: tuple[Piece, ...], zone: str = "UTC", seconds: int = MOMENT_S) -> str:
    moments = Moments(np.array([seconds]), np.array([MOMENT_NS]), zone)
    return str(format_moments(moments, pieces)[0].as_py())


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("YYYY-MM-DD HH24:MI:SS", "2024-02-03 04:05:06"),
        ("YYYY-MM-DD HH24:MI:SS.MS", "2024-02-03 04:05:06.078"),
        ("US", "078901"),
        ("FF1 FF3 FF6", "0 078 078901"),
        ("YY YYY Y Y,YYY", "24 024 4 2,024"),
        ("HH12:MI AM", "04:05 AM"),
        ("hh:mi p.m.", "04:05 a.m."),
        ("Mon DD", "Feb 03"),
        ("MON mon", "FEB feb"),
        ("Month|", "February |"),
        ("FMMonth FMDD, YYYY", "February 3, 2024"),
        ("Day|Dy|DY", "Saturday |Sat|SAT"),
        ("FMDay", "Saturday"),
        ("DDD D ID", "034 7 6"),
        ("DDth FMDDth", "03rd 3rd"),
        ("WW W IW IYYY", "05 1 05 2024"),
        ("Q CC J", "1 21 2460344"),
        ("RM", "II"),
        ("SSSSS", "14706"),
        ("AD", "AD"),
        ('"on" YYYY \\Y', "on 2024 Y"),
        ("TZ OF TZH:TZM", "UTC +00 +00:00"),
        ("%Y/%m", "2024/02"),
        ("", ""),
    ],
)
def test_to_char(form: str, text: str) -> None:
    assert show(compile_to_char(form)) == text


def test_to_char_in_a_zone() -> None:
    assert show(compile_to_char("HH24:MI TZ OF"), "Europe/Berlin") == "05:05 CET +01"
    assert show(compile_to_char("HH24:MI OF TZH:TZM"), "Asia/Kolkata") == "09:35 +05:30 +05:30"
    assert show(compile_to_char("HH24 PM"), "Asia/Tokyo") == "13 PM"


@pytest.mark.parametrize("form", ["hello", "...", "?"])
def test_to_char_refuses_a_format_without_a_time(form: str) -> None:
    with pytest.raises(FunctionError):
        compile_to_char(form)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("%Y-%m-%d %H:%i:%s", "2024-02-03 04:05:06"),
        ("%T.%f", "04:05:06.078901"),
        ("%r", "04:05:06 AM"),
        ("%W %M %D %y", "Saturday February 3rd 24"),
        ("%a %b %e %c", "Sat Feb 3 2"),
        ("%k %l %h %I %p", "4 4 04 04 AM"),
        ("%j %w %U %u", "034 6 04 05"),
        ("%X %V %x %v", "2024 04 2024 05"),
        ("100%%", "100%"),
    ],
)
def test_date_format_of_mysql(form: str, text: str) -> None:
    assert show(compile_mysql(form)) == text


def test_weeks_of_mysql_at_the_start_of_a_year() -> None:
    # 2023-01-01 was a Sunday, 2024-01-01 a Monday, 2021-01-01 a Friday.
    assert show(compile_mysql("%U %u %X-%V %x-%v"), seconds=1_672_531_200) == "01 00 2023-01 2022-52"
    assert show(compile_mysql("%U %u %X-%V %x-%v"), seconds=1_704_067_200) == "00 01 2023-53 2024-01"
    assert show(compile_mysql("%U %u %X-%V %x-%v"), seconds=1_609_459_200) == "00 00 2020-52 2020-53"


@pytest.mark.parametrize("form", ["%Q", "%", "%Y-%z"])
def test_letters_that_mysql_does_not_know_are_refused(form: str) -> None:
    with pytest.raises(FunctionError):
        compile_mysql(form)


def test_a_format_without_percent_signs_is_refused() -> None:
    with pytest.raises(FunctionError):
        check_format("YYYY-MM-DD")


@pytest.mark.parametrize(
    ("text", "form", "wanted"),
    [
        ("2024-02-03 04:05:06.5", "%Y-%m-%d %H:%i:%s.%f", "2024-02-03 03:05:06.500000"),
        ("3rd Feb 2024", "%D %b %Y", "2024-02-02 23:00:00"),
        ("February 3, 24", "%M %e, %y", "2024-02-02 23:00:00"),
        ("04:05:06 PM 03/02/2024", "%r %d/%m/%Y", "2024-02-03 15:05:06"),
        ("2024 34", "%Y %j", "2024-02-02 23:00:00"),
        ("2024-02-30", "%Y-%m-%d", None),
        ("soon", "%Y-%m-%d", None),
        (None, "%Y-%m-%d", None),
    ],
)
def test_str_to_date(text: str | None, form: str, wanted: str | None) -> None:
    (found,) = read_by_format(pa.array([text], pa.string()), form, "Europe/Berlin").to_pylist()
    assert (None if found is None else str(found)) == wanted


def test_str_to_date_refuses_formats_that_cannot_be_read() -> None:
    for form in ("%Q", "YYYY"):
        with pytest.raises(FunctionError):
            read_by_format(pa.array(["2024"]), form, "UTC")


@given(st.datetimes())
def test_what_date_format_writes_str_to_date_reads(moment: object) -> None:
    form = "%Y-%m-%d %H:%i:%s.%f"
    at = pa.array([moment], pa.timestamp("us"))
    seconds, micros = np.divmod(at.cast(pa.int64()).to_numpy(), 1_000_000)
    text = format_moments(Moments(seconds, micros * 1000, "UTC"), compile_mysql(form))
    assert read_by_format(text, form, "UTC").equals(at)

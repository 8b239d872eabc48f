"""Calendar expressions in a zone against Python's own calendar, in both ways a query is answered."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tsdb

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = ["Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Monrovia", "Pacific/Apia"]
UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
CHANGES = [
    datetime(2024, 3, 31, 1, tzinfo=UTC),
    datetime(2024, 10, 27, 1, tzinfo=UTC),
    datetime(2018, 11, 4, 3, tzinfo=UTC),
    datetime(2019, 2, 17, 2, tzinfo=UTC),
    datetime(2024, 4, 6, 15, tzinfo=UTC),
    datetime(2024, 10, 5, 15, 30, tzinfo=UTC),
    datetime(2011, 12, 30, 10, tzinfo=UTC),
]
moments = st.one_of(
    st.builds(
        lambda at, seconds: at + timedelta(seconds=seconds), st.sampled_from(CHANGES), st.integers(-90_000, 90_000)
    ),
    st.datetimes(datetime(1850, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)).map(
        lambda each: each.replace(microsecond=0)
    ),
)


@pytest.fixture(scope="module", params=list(UNITS))
def connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, object]]:
    with tsdb.connect(tmp_path_factory.mktemp("calendar")) as made:
        made.sql(f"CREATE TABLE t (ts TIMESTAMP({UNITS[request.param]}) TIME INDEX, v INT)")
        yield request.param, made


def start_of(moment: datetime, zone: ZoneInfo, unit: str) -> datetime:
    """The first instant of the local day, week, month or year; of an hour with the offset of the moment itself."""
    local = moment.astimezone(zone)
    if unit in ("hour", "minute"):
        cut = timedelta(minutes=local.minute if unit == "hour" else 0, seconds=local.second)
        return moment - cut
    day = local.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    if unit == "week":
        day -= timedelta(days=day.weekday())
    elif unit == "month":
        day = day.replace(day=1)
    elif unit == "year":
        day = day.replace(day=1, month=1)
    found = day.replace(tzinfo=zone).astimezone(UTC)
    if found.astimezone(zone).replace(tzinfo=None) != day:
        # Left out: what is wanted is the change itself, the first second of the new offset.
        offset = found.astimezone(zone).utcoffset()
        low, high = found - timedelta(days=2), found
        while high - low > timedelta(seconds=1):
            middle = low + (high - low) // 2 // timedelta(seconds=1) * timedelta(seconds=1)
            low, high = (low, middle) if middle.astimezone(zone).utcoffset() == offset else (middle, high)
        found = high
    return found


def count(moment: datetime, unit: str) -> int:
    return (moment - EPOCH) // timedelta(seconds=1) * PER_SECOND[unit]


@pytest.mark.parametrize("zone", ZONES)
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(instants=st.lists(moments, min_size=1, max_size=30, unique=True))
def test_calendar_functions_follow_the_zone(
    connection: tuple[str, object], zone: str, instants: list[datetime]
) -> None:
    unit, made = connection
    known = ZoneInfo(zone)
    instants.sort()
    made.sql("TRUNCATE TABLE t")  # type: ignore[attr-defined]
    made.sql("SET time_zone = 'UTC'")  # type: ignore[attr-defined]
    values = ", ".join(f"({count(each, unit)}, 1)" for each in instants)
    made.sql(f"INSERT INTO t VALUES {values}")  # type: ignore[attr-defined]
    made.sql(f"SET time_zone = '{zone}'")  # type: ignore[attr-defined]

    def column(text: str) -> list[object]:
        rows: pa.Table = made.sql(text).arrow()  # type: ignore[attr-defined]
        found = rows.column(0)
        return found.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(found.type) else found.to_pylist()

    local = [each.astimezone(known) for each in instants]
    for field in ("minute", "hour", "day", "week", "month", "year"):
        wanted = [count(start_of(each, known, field), unit) for each in instants]
        assert column(f"SELECT date_trunc('{field}', ts) FROM t ORDER BY ts") == wanted
        grouped = column(f"SELECT date_trunc('{field}', ts) AS k, count(*) FROM t GROUP BY k ORDER BY k")
        assert grouped == sorted(set(wanted)), field
    last = count(instants[-1], unit)
    days = column(f"SELECT date_bin(INTERVAL '1 day', ts) AS k, sum(v) FROM t WHERE ts <= {last} GROUP BY k ORDER BY k")
    assert days == sorted({count(start_of(each, known, "day"), unit) for each in instants})
    assert column("SELECT extract(hour FROM ts) FROM t ORDER BY ts") == [each.hour for each in local]
    assert column("SELECT date_part('day', ts) FROM t ORDER BY ts") == [each.day for each in local]
    assert column("SELECT ts::date FROM t ORDER BY ts") == [each.date() for each in local]
    shown = [each.replace(tzinfo=None).isoformat() for each in local]
    assert column("SELECT ts::text FROM t ORDER BY ts") == shown
    assert column("SELECT x::text FROM (SELECT ts AS x FROM t) ORDER BY x") == shown
    assert column(f"SELECT date_trunc('day', ts, '{zone}') FROM t ORDER BY ts") == [
        count(start_of(each, known, "day"), unit) for each in instants
    ]

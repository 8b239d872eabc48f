"""Offsets of zones against those of `zoneinfo`, which asks for one time at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsdb.model import InvalidTimestamp, InvalidTimeZone, canonical_zone, instants_of, local_times, offsets_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = [
    "Europe/Berlin",  # summer time by a rule without an end; seconds in its first offset
    "America/New_York",
    "Australia/Lord_Howe",  # half an hour of summer time
    "Asia/Kolkata",  # half an hour, and no rule
    "America/Sao_Paulo",  # clocks were changed at midnight
    "Africa/Casablanca",  # changes listed for decades ahead
    "Europe/Dublin",  # summer time is the standard one
    "Pacific/Apia",  # left out a day
    "Africa/Monrovia",  # an offset with seconds until 1972
    "Asia/Gaza",
    "Antarctica/Troll",  # two hours of summer time
    "+14:00",
    "-23:59",
]
seconds_of_any_year = st.integers(-5_000_000_000, 250_000_000_000)


def zone_of(name: str) -> ZoneInfo | None:
    return ZoneInfo(name) if name[0] not in "+-" else None


@pytest.mark.parametrize("name", [each for each in ZONES if each[0] not in "+-"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_offsets_are_those_of_zoneinfo(name: str, data: st.DataObject) -> None:
    zone, offsets = ZoneInfo(name), offsets_of(name)
    near = [int(each) + step for each in offsets._starts[1:400] for step in (-1, 0)]
    seconds = data.draw(st.lists(st.one_of(seconds_of_any_year, st.sampled_from(near)), min_size=1, max_size=40))
    moments = [EPOCH + timedelta(seconds=each) for each in seconds]
    wanted = [each.astimezone(zone).utcoffset() // timedelta(seconds=1) for each in moments]  # type: ignore[operator]
    assert offsets.at(np.array(seconds)).tolist() == wanted

    naive = [each.replace(tzinfo=None) for each in moments]
    back = [(each.replace(tzinfo=zone) - EPOCH) // timedelta(seconds=1) for each in naive]
    assert offsets.instants(np.array(seconds)).tolist() == back


@pytest.mark.parametrize("name", ZONES)
@given(seconds=st.lists(seconds_of_any_year, min_size=1, max_size=20))
@settings(max_examples=30, deadline=None)
def test_the_start_of_something_is_never_after_what_a_clock_shows(name: str, seconds: list[int]) -> None:
    offsets, instants = offsets_of(name), np.array(seconds)
    local = instants + offsets.at(instants)
    days = offsets.instants(local // 86_400 * 86_400, is_start=True)
    assert (days <= instants).all()
    shown = days + offsets.at(days)
    # A day may begin late, when its midnight is left out, but not on another date.
    assert (shown // 86_400 == local // 86_400).all()


def test_a_local_time_left_out_is_read_with_the_offset_before_or_is_the_change_itself() -> None:
    berlin = offsets_of("Europe/Berlin")
    left_out = np.array([int(datetime(2024, 3, 31, 2, 30, tzinfo=UTC).timestamp())])
    assert berlin.instants(left_out)[0] == datetime(2024, 3, 31, 1, 30, tzinfo=UTC).timestamp()
    assert berlin.instants(left_out, is_start=True)[0] == datetime(2024, 3, 31, 1, tzinfo=UTC).timestamp()
    twice = np.array([int(datetime(2024, 10, 27, 2, 30, tzinfo=UTC).timestamp())])
    assert berlin.instants(twice)[0] == datetime(2024, 10, 27, 0, 30, tzinfo=UTC).timestamp()


def test_offsets_in_use_between_two_instants() -> None:
    berlin = offsets_of("Europe/Berlin")

    def between(start: datetime, end: datetime) -> set[int]:
        return set(berlin.between(int(start.timestamp()), int(end.timestamp())))

    assert between(datetime(2024, 6, 1, tzinfo=UTC), datetime(2024, 7, 1, tzinfo=UTC)) == {7200}
    assert between(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 7, 1, tzinfo=UTC)) == {3600, 7200}
    assert between(datetime(2900, 1, 1, tzinfo=UTC), datetime(2900, 1, 2, tzinfo=UTC)) == {3600, 7200}
    assert set(offsets_of("+05:30").between(-(2**62), 2**62)) == {19800}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_columns_of_every_unit_are_shown_and_read_back(unit: str) -> None:
    times = pa.array([0, None, 1_720_000_000], pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    shown = local_times(times, "Europe/Berlin")
    assert shown.cast(pa.timestamp("s")).cast(pa.int64()).to_pylist() == [3600, None, 1_720_007_200]
    assert instants_of(shown, "Europe/Berlin").equals(times)


def test_a_local_time_beyond_the_range_of_its_unit_is_refused() -> None:
    last = pa.array([2**63 - 1]).cast(pa.timestamp("ns"))
    with pytest.raises(InvalidTimestamp):
        local_times(last, "Europe/Berlin")


def test_offsets_of_less_than_a_day_are_zones() -> None:
    assert canonical_zone("+23:00") == "+23:00"
    with pytest.raises(InvalidTimeZone):
        canonical_zone("+24:00")

"""Sizes and durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.units import Duration, DurationTooLong, Size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("17", 17),
        ("17B", 17),
        ("1K", 1024),
        ("1kb", 1024),
        ("64M", 64 << 20),
        ("64MB", 64 << 20),
        ("64MiB", 64 << 20),
        ("64 mib", 64 << 20),
        ("1.5GiB", 3 << 29),
        ("4GB", 4 << 30),
        ("2TB", 2 << 40),
        ("1PiB", 1 << 50),
    ],
)
def test_size_units_are_binary_in_every_spelling(text: str, size: int) -> None:
    assert Size.parse(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "1XB", "1MBit", "1e3MB", "one", "1 000", "0x10"])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        Size.parse(text)


@given(st.integers(min_value=0, max_value=(1 << 63) - 1))
def test_a_printed_size_reads_back(size: int) -> None:
    assert Size.parse(str(Size(size))) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("500ms", 0.5),
        ("30s", 30),
        ("10m", 600),
        ("1h30m", 5400),
        ("1h 30min", 5400),
        ("2 days 6 hours", 194_400),
        ("1w", 604_800),
        ("1.5h", 5400),
        ("250us", 0.00025),
        ("250µs", 0.00025),
        ("7ns", 7e-9),
    ],
)
def test_duration_is_a_sum_of_terms(text: str, seconds: float) -> None:
    assert Duration.parse(text).seconds == seconds


@pytest.mark.parametrize("text", ["", "s", "30", "-1s", "30 parsecs", "1h-5m", "1h5", "300000000y"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        Duration.parse(text)


@given(st.integers(min_value=0, max_value=(1 << 63) - 1))
def test_a_printed_duration_reads_back(duration: int) -> None:
    assert Duration.parse(str(Duration(duration))) == duration


@pytest.mark.parametrize("text", ["293y", "300 years", "99999999999999999999s"])
def test_a_duration_past_the_limit_has_a_class_of_its_own(text: str) -> None:
    with pytest.raises(DurationTooLong, match="292 years"):
        Duration.parse(text)


@pytest.mark.parametrize("text", ["too long", "1 too long", ""])
def test_a_text_that_is_no_duration_is_not_too_long(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration") as caught:
        Duration.parse(text)
    assert not isinstance(caught.value, DurationTooLong)

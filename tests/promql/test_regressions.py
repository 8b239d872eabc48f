"""Answers that once differed from those of Prometheus: one test for each, found by the differential test."""

from __future__ import annotations

import math

from tests.promql.memory_series import MemorySeries


def test_a_value_cannot_be_kept_in_a_label_that_goes() -> None:
    source = MemorySeries()
    for zone, value in (("1", 5.0), ("2", 5.0), ("3", 6.0)):
        source.add({"__name__": "a", "x": "y", "zone": zone}, [value])
    assert source.vector('count_values without (zone) ("zone", a)') == {(("x", "y"),): 3}
    assert source.vector('count_values by (zone) ("zone", a)') == {(("zone", "5"),): 2, (("zone", "6"),): 1}
    assert source.vector('count_values without (x) ("zone", a)') == {(("zone", "5"),): 2, (("zone", "6"),): 1}


def test_values_are_counted_by_what_they_look_like() -> None:
    source = MemorySeries()
    for x, value in enumerate((0.0, -0.0, math.nan, -math.nan, math.inf)):
        source.add({"__name__": "a", "x": str(x)}, [value])
    found = source.vector('count_values("v", a)')
    assert found == {(("v", "0"),): 1, (("v", "-0"),): 1, (("v", "NaN"),): 2, (("v", "+Inf"),): 1}


def test_counting_many_values_takes_one_pass() -> None:
    source = MemorySeries()
    for x in range(3000):
        source.add({"__name__": "a", "x": str(x)}, [x + step / 10 for step in range(10)])
    found = source.matrix('count_values("v", a)', end_s=90, step_s=10)
    assert len(found) == 30_000


def test_an_absent_series_has_the_labels_that_are_asked_for_by_value() -> None:
    source = MemorySeries()
    assert source.vector('absent(a{x=~"1|2", x="1"})') == {(("x", "1"),): 1}
    assert source.vector('absent(a{x="1", x=~"1|2"})') == {(): 1}
    assert source.vector('absent(a{x="1", x="2", y="3"})') == {(("y", "3"),): 1}


def test_infinities_win_against_limits_that_are_no_numbers() -> None:
    source = MemorySeries()
    source.add({"__name__": "a"}, [math.inf])
    assert source.vector("clamp_min(a, NaN)") == {(): math.inf}
    assert source.vector("clamp_max(-a, NaN)") == {(): -math.inf}
    assert math.isnan(source.vector("clamp_max(a, NaN)")[()])
    assert source.vector("clamp(a, -1, 5)") == {(): 5}
    assert source.vector("clamp_min(a - a, 3)").keys() == {()}

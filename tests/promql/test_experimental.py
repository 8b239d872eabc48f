"""Experimental PromQL as Prometheus 3.15 answers it: duration expressions, `info`, fill modifiers, extended ranges."""

from __future__ import annotations

import math

import pytest

from tests.promql.memory_series import MemorySeries
from tsdb.errors import TsdbError
from tsdb.promql import format_query, parse_promql


@pytest.fixture
def ticks() -> MemorySeries:
    source = MemorySeries()
    source.add({"__name__": "ticks"}, [float(i) for i in range(101)], every_s=1)
    return source


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("count_over_time(ticks[min_of(step() + 1, 1h)])", [6, 6, 6]),
        ("count_over_time(ticks[max_of(min_of((step() + 1), ((1h))), 1ms)])", [6, 6, 6]),
        ("count_over_time(ticks[min(step() + 1, 1h)])", [6, 6, 6]),
        ("count_over_time(ticks[range()])", [10, 10, 10]),
        ("count_over_time(ticks[range() / 2])", [5, 5, 5]),
        ("last_over_time(ticks[1m:MIN_OF(range(), 7s)] offset range())", [35, 42, 49]),
        ("ticks offset min_of(step(), 1s)", [49, 54, 59]),
        ("ticks offset min_of(range(), 8s)", [42, 47, 52]),
        ("ticks offset -min_of(step(), 1s) + 8000", [8051, 8056, 8061]),
        ("ticks offset -(min_of(step(), 2s) - 5) + 8000", [8047, 8052, 8057]),
        ("ticks offset max_of(3s, min_of(step(), 1s)) ^ 0", [1, 1, 1]),
    ],
)
def test_durations_are_computed(ticks: MemorySeries, query: str, expected: list[float]) -> None:
    found = ticks.matrix(query, start_s=50, end_s=60, step_s=5)
    assert list(found.values()) == [expected]
    printed = format_query(parse_promql(query))
    assert ticks.matrix(printed, start_s=50, end_s=60, step_s=5) == found, printed


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("count_over_time(ticks[range()])", "duration must be greater than 0"),
        ("count_over_time(ticks[min_of(1s, -1s)])", "duration must be greater than 0"),
        ("ticks offset (1s / 0)", "division by zero"),
        ("ticks offset min_of(1s)", "unexpected"),
        ("ticks[range(1)]", "unexpected"),
    ],
)
def test_a_wrong_duration_is_refused(ticks: MemorySeries, query: str, message: str) -> None:
    with pytest.raises(TsdbError, match=message):
        ticks.instant(query, 50)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([4.0, 6.0, 2.0, 1.0, 999.0, 1.0, 2.0], 1.0),
        ([4.0, 6.0, math.nan, 1.0], math.nan),
        ([math.nan], math.nan),
        ([7.0], 0.0),
    ],
)
def test_the_deviation_from_the_median_is_nan_with_a_nan(values: list[float], expected: float) -> None:
    source = MemorySeries()
    source.add({"__name__": "m"}, values)
    (found,) = source.vector("mad_over_time(m[5m])", 100).values()
    assert found == expected or (math.isnan(found) and math.isnan(expected))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        # Behind group_right the fill values follow the swapped sides, as in Prometheus.
        ("one * on(i) group_right fill_left(1) many", {"a0": 100, "a1": 100, "c": 300}),
        ("one * on(i) group_right fill_right(2) many", {"a0": 100, "a1": 100, "b0": 2}),
        ("one * on(i) group_right fill(3) many", {"a0": 100, "a1": 100, "b0": 3, "c": 900}),
        ("one - on(i) group_right fill_left(7) fill_right(5) many", {"a0": 99, "a1": 99, "b0": 4, "c": 293}),
        ("many * on(i) group_left fill_left(1) one", {"a0": 100, "a1": 100, "c": 300}),
        ("many * on(i) group_left fill_right(2) one", {"a0": 100, "a1": 100, "b0": 2}),
    ],
)
def test_missing_series_are_filled_on_the_side_of_many_or_of_one(query: str, expected: dict[str, float]) -> None:
    source = MemorySeries()
    for name, labels, value in (
        ("many", {"i": "a", "cpu": "0"}, 1.0),
        ("many", {"i": "a", "cpu": "1"}, 1.0),
        ("many", {"i": "b", "cpu": "0"}, 1.0),
        ("one", {"i": "a"}, 100.0),
        ("one", {"i": "c"}, 300.0),
    ):
        source.add({"__name__": name, **labels}, [value])
    found = source.vector(query)
    assert {dict(key)["i"] + dict(key).get("cpu", ""): value for key, value in found.items()} == expected


@pytest.fixture
def services() -> MemorySeries:
    source = MemorySeries()
    identity = {"instance": "a", "job": "1"}
    source.add({"__name__": "metric", **identity}, [0.0, 1.0, 2.0], every_s=300)
    source.add({"__name__": "target_info", **identity, "data": "info"}, [1.0, 1.0, 1.0], every_s=300)
    source.add({"__name__": "build_info", **identity, "build": "7"}, [1.0, 1.0, 1.0], every_s=300)
    source.add({"__name__": "target_build", **identity, "build": "8", "kind": "x"}, [1.0, 1.0, 1.0], every_s=300)
    return source


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("info(metric)", [{"data": "info"}]),
        ('info(metric, {__name__!~".+_info", data=~".+"})', []),
        ('info(metric, {__name__!~".+_info", data=~".*"})', [{}]),
        ('info(metric, {__name__!="target_info"})', [{"build": "7"}]),
        ('info(metric, {__name__!="target_info", __name__!~"build.*"})', [{}]),
        ('info(metric, {__name__=~"target_.+", __name__=~".+_info"})', [{"data": "info"}]),
        ('info(metric, {__name__=~".+_info", __name__!~".*build.*"})', [{"data": "info"}]),
        ('info(metric, {__name__=~".+_info"})', [{"data": "info", "build": "7"}]),
        ('info(build_info, {__name__=~"target_.+", __name__=~".+_info"})', [{"build": "7", "data": "info"}]),
        ('info(build_info, {__name__!="target_info"})', [{"build": "7"}]),
        ('info(target_info, {data=~".+"})', [{"data": "info"}]),
        ('info(metric, {__name__="none", data=~".+"})', []),
    ],
)
def test_info_metrics_are_chosen_by_all_matchers_of_their_name(
    services: MemorySeries, query: str, expected: list[dict[str, str]]
) -> None:
    found = [dict(labels) for labels in services.vector(query, 600)]
    for labels in found:
        for name in ("__name__", "instance", "job"):
            labels.pop(name)
    assert found == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("info(metric)", "new"),
        ("info(metric offset 20m)", "old"),
        ("info(metric @ 300)", "old"),
        ("info(sum_over_time(metric[5m:1m] offset 20m))", "old"),
        ("info(sum_over_time((metric offset 10m)[5m:1m] offset 10m))", "old"),
        ("info(sum_over_time(metric[5m:1m] @ 300))", "old"),
        ("info(sum_over_time((metric @ 300)[5m:1m] @ 1800))", "old"),
        ("last_over_time(info(metric)[5m:1m] offset 20m)", "old"),
    ],
)
def test_info_series_are_read_at_the_time_of_the_first_selector(query: str, expected: str) -> None:
    source = MemorySeries()
    identity = {"instance": "a", "job": "1"}
    source.add({"__name__": "metric", **identity}, [1.0] * 31, every_s=60)
    source.add({"__name__": "target_info", **identity, "version": "old"}, [1.0] * 15, every_s=60)
    source.add({"__name__": "target_info", **identity, "version": "new"}, [None] * 20 + [1.0] * 11, every_s=60)
    ((labels, _),) = source.vector(query, 1800).items()
    assert dict(labels)["version"] == expected


@pytest.mark.parametrize(
    ("query", "at_s", "expected"),
    [
        ("increase(m[15s] smoothed)", 30, [0]),
        ("increase(m[15s] smoothed)", 60, [0]),
        ("increase(m[15s] smoothed)", 67.5, [0.5]),
        ("rate(m[15s] smoothed)", 67.5, [0.5 / 15]),
        ("increase(m[15s] anchored)", 30, []),
        ("increase(m[15s] anchored)", 60, [0]),
        ("increase(m[15s] anchored)", 75, [1]),
        ("changes(m[15s] anchored)", 60, [0]),
        ("m smoothed", 59.9, []),
        ("m smoothed", 60, [1]),
        ("m smoothed", 67.5, [1.5]),
        ("m smoothed", 120, [5]),
    ],
)
def test_extended_ranges_around_the_first_sample(query: str, at_s: float, expected: list[float]) -> None:
    source = MemorySeries()
    source.add({"__name__": "m"}, [None, None, None, None, 1.0, 2.0, 3.0, 5.0], every_s=15)
    assert list(source.vector(query, at_s).values()) == pytest.approx(expected)

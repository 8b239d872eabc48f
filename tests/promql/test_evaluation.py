"""The evaluation of PromQL over series in memory."""

from __future__ import annotations

import math

import pytest

from tests.promql.memory_series import STALE, MemorySeries
from tsdb.errors import TsdbError
from tsdb.promql import PromqlFailure, PromqlTooLarge, parse_promql
from tsdb.promql.evaluation import EvaluationOptions, Limits, Scalar, SeriesSet, StringValue, run_range


@pytest.fixture
def series() -> MemorySeries:
    source = MemorySeries()
    source.add({"__name__": "requests_total", "job": "a", "path": "/"}, [float(10 * i) for i in range(61)])
    source.add({"__name__": "requests_total", "job": "b", "path": "/"}, [float(20 * i) for i in range(61)])
    source.add({"__name__": "limit", "job": "a"}, [100.0] * 61)
    source.add({"__name__": "gone"}, [1.0, 2.0, STALE, 4.0])
    return source


def test_a_selector_takes_the_last_sample_that_is_not_too_old(series: MemorySeries) -> None:
    key = (("__name__", "limit"), ("job", "a"))
    assert series.vector("limit", 600) == {key: 100}
    assert series.vector("limit", 600 + 299) == {key: 100}
    assert series.vector("limit", 600 + 300) == {}


def test_a_stale_series_has_no_value_until_it_comes_back(series: MemorySeries) -> None:
    key = (("__name__", "gone"),)
    assert series.matrix("gone", end_s=40, step_s=10) == {key: [1, 2, None, 4, 4]}
    assert series.vector("count_over_time(gone[40s])", 30) == {(): 3}


def test_rate_is_extrapolated_to_the_edges_of_the_window(series: MemorySeries) -> None:
    assert series.vector('rate(requests_total{job="a"}[1m])', 300) == {(("job", "a"), ("path", "/")): 1}


def test_offset_and_at_move_the_time_of_a_selector(series: MemorySeries) -> None:
    key = (("__name__", "requests_total"), ("job", "a"), ("path", "/"))
    assert series.vector('requests_total{job="a"} offset 1m', 300)[key] == 240
    assert series.vector('requests_total{job="a"} @ 100 offset 50s', 300)[key] == 50
    found = series.matrix('requests_total{job="a"} @ end()', end_s=60, step_s=30)
    assert found[key] == [60, 60, 60]


def test_groups_are_aggregated_and_names_are_gone(series: MemorySeries) -> None:
    assert series.vector("sum by (path) (requests_total)", 100) == {(("path", "/"),): 300}
    assert series.vector("sum without (path) (rate(requests_total[1m]))", 300) == {
        (("job", "a"),): 1,
        (("job", "b"),): 2,
    }


def test_sides_are_matched_on_their_common_labels(series: MemorySeries) -> None:
    assert series.vector("requests_total / on(job) limit", 100) == {(("job", "a"),): 1}
    found = series.vector("requests_total * on(path) group_left sum by (path) (requests_total)", 10)
    assert found == {(("job", "a"), ("path", "/")): 300, (("job", "b"), ("path", "/")): 600}


def test_two_series_on_the_side_of_one_are_refused(series: MemorySeries) -> None:
    with pytest.raises(PromqlFailure, match="many-to-many matching not allowed"):
        series.vector("limit / on(x) requests_total", 100)
    with pytest.raises(PromqlFailure, match="many-to-one matching must be explicit"):
        series.vector("requests_total > on(x) limit", 100)


def test_missing_sides_are_filled(series: MemorySeries) -> None:
    found = series.vector("requests_total + on(job) fill_right(1000) limit", 100)
    assert found == {(("job", "a"),): 200, (("job", "b"),): 1200}


def test_sets_keep_series_whole(series: MemorySeries) -> None:
    assert set(series.vector("requests_total and on(job) limit", 100)) == {
        (("__name__", "requests_total"), ("job", "a"), ("path", "/"))
    }
    assert len(series.vector("requests_total unless on(job) limit", 100)) == 1
    assert len(series.vector("limit or requests_total", 100)) == 3


def test_the_largest_come_first(series: MemorySeries) -> None:
    answer = series.instant("topk(1, requests_total)", 100)
    assert not isinstance(answer.value, Scalar | StringValue | SeriesSet)
    assert answer.value.labels.dicts()[0]["job"] == "b"
    found = series.matrix("count(topk(scalar(limit) / 100, requests_total))", end_s=20, step_s=10)
    assert found == {(): [1, 1, 1]}


def test_subqueries_step_on_multiples_of_their_step(series: MemorySeries) -> None:
    assert series.vector("sum_over_time(limit[95s:30s])", 100) == {(("job", "a"),): 300}


def test_quantiles_outside_of_their_range_are_answered_with_a_warning(series: MemorySeries) -> None:
    answer = series.instant("quantile(2, requests_total)", 100)
    assert answer.warnings == ["PromQL warning: quantile value should be between 0 and 1, got 2 (1:10)"]


def test_metrics_that_do_not_look_like_counters_get_a_remark(series: MemorySeries) -> None:
    assert series.instant("rate(requests_total[1m])", 100).infos == []
    assert "might not be a counter" in series.instant("rate(limit[1m])", 100).infos[0]


def test_classic_histograms_have_quantiles_and_fractions() -> None:
    source = MemorySeries()
    for bound, count in (("0.1", 5.0), ("0.2", 7.0), ("1", 11.0), ("+Inf", 12.0)):
        source.add({"__name__": "h_bucket", "le": bound}, [count])
    assert source.vector("histogram_quantile(0.5, h_bucket)")[()] == pytest.approx(0.15)
    assert source.vector("histogram_fraction(0, 0.2, h_bucket)")[()] == pytest.approx(7 / 12)


def test_labels_are_replaced_by_what_matched() -> None:
    source = MemorySeries()
    source.add({"__name__": "m", "src": "host-12"}, [1.0])
    found = source.vector('label_replace(m, "n", "$2-${1}", "src", "(.*)-(.*)")')
    assert list(found) == [(("__name__", "m"), ("n", "12-host"), ("src", "host-12"))]


def test_series_that_become_the_same_are_refused() -> None:
    source = MemorySeries()
    source.add({"__name__": "a", "x": "1"}, [1.0])
    source.add({"__name__": "b", "x": "1"}, [2.0])
    with pytest.raises(PromqlFailure, match="same labelset"):
        source.vector('-{x="1"}')


def test_info_adds_the_labels_of_the_target() -> None:
    source = MemorySeries()
    source.add({"__name__": "m", "instance": "i", "job": "j"}, [1.0, 1.0])
    source.add({"__name__": "target_info", "instance": "i", "job": "j", "version": "2"}, [1.0, 1.0])
    key = (("__name__", "m"), ("instance", "i"), ("job", "j"), ("version", "2"))
    assert source.vector("info(m)", 10) == {key: 1}


def test_strings_and_numbers_are_answers_too(series: MemorySeries) -> None:
    text, number = series.instant('"x"').value, series.instant("1 + 2").value
    assert isinstance(text, StringValue)
    assert text.value == "x"
    assert isinstance(number, Scalar)
    assert number.values.tolist() == [3]


def test_a_range_vector_is_answered_with_its_samples(series: MemorySeries) -> None:
    value = series.instant("limit[30s]", 100).value
    assert isinstance(value, SeriesSet)
    assert value.times.tolist() == [80_000, 90_000, 100_000]


def test_a_query_that_holds_too_much_is_refused(series: MemorySeries) -> None:
    with pytest.raises(PromqlTooLarge, match="samples"):
        series.instant("requests_total", 100, EvaluationOptions(limits=Limits(samples_max=10)))
    with pytest.raises(PromqlTooLarge, match="series"):
        series.instant("requests_total", 100, EvaluationOptions(limits=Limits(series_max=1)))
    with pytest.raises(PromqlTooLarge):
        series.instant("sum_over_time(limit[1000y:1ms])", 100)
    with pytest.raises(PromqlTooLarge):
        run_range(parse_promql("1"), "1", series, start_ms=0, end_ms=10**12, step_ms=1)


def test_long_chains_of_operators_do_not_exhaust_the_stack(series: MemorySeries) -> None:
    value = series.instant(" + ".join(["1"] * 4000)).value
    assert isinstance(value, Scalar)
    assert value.values.tolist() == [4000]
    assert series.vector(" or ".join(["limit"] * 1000), 100) == {(("__name__", "limit"), ("job", "a")): 100}


def test_a_query_that_is_not_wanted_any_more_stops(series: MemorySeries) -> None:
    def stop() -> None:
        raise TsdbError("stop")

    with pytest.raises(TsdbError, match="stop"):
        series.instant("limit", 100, EvaluationOptions(check=stop))


def test_dates_come_from_seconds(series: MemorySeries) -> None:
    assert series.vector("year(vector(1136239445))") == {(): 2006}
    assert series.vector("days_in_month(vector(1454284800))") == {(): 29}
    assert math.isnan(series.vector("hour(vector(NaN))")[()])


def test_windows_can_be_anchored_and_smoothed() -> None:
    source = MemorySeries()
    source.add({"__name__": "c_total"}, [float(i) for i in range(8)])
    assert source.vector("increase(c_total[30s] anchored)", 60) == {(): 3}
    assert source.vector("increase(c_total[30s] smoothed)", 55) == {(): 3}
    samples = source.instant("c_total[25s] anchored", 40).value
    assert isinstance(samples, SeriesSet)
    assert samples.times.tolist() == [15_000, 20_000, 30_000, 40_000]
    assert samples.values.tolist() == [1, 2, 3, 4]
    smooth = source.instant("c_total[25s] smoothed", 40).value
    assert isinstance(smooth, SeriesSet)
    assert smooth.values.tolist() == [1.5, 2, 3, 4]
    with pytest.raises(PromqlFailure, match="anchored modifier can only be used with"):
        source.vector("sum_over_time(c_total[30s] anchored)", 60)

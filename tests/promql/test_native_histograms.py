"""PromQL over native histograms: functions, operators and aggregations, and what is said where they do not fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

from tests.kernels.histogram_reference import CUSTOM, GAUGE, Hist
from tests.promql.memory_series import STALE, MemorySeries, read_natives
from tsdb.promql import PromqlFailure, parse_promql
from tsdb.promql.evaluation import EvaluationOptions, Limits, SeriesSet, Vector, run_range

_FLOAT, _HIST = (("__name__", "f"),), (("__name__", "h"),)


def steps(count: int, *, hint: int = 0) -> list[Hist]:
    """Counters that grow by 2 in bucket (1,2] and 1 in (2,4]."""
    return [Hist(3.0 * i, 5.0 * i, {1: 2.0 * i, 2: 1.0 * i}, hint=hint) for i in range(1, count + 1)]


def custom(bounds: Sequence[float], buckets: Sequence[float], *, hint: int = 0) -> Hist:
    return Hist(sum(buckets), 1.0, dict(enumerate(buckets)), {}, CUSTOM, bounds=tuple(bounds), hint=hint)


@pytest.fixture
def series() -> MemorySeries:
    source = MemorySeries()
    source.add({"__name__": "h"}, list(steps(7)))
    source.add({"__name__": "g"}, list(steps(7, hint=GAUGE)))
    source.add({"__name__": "f"}, [2.0] * 7)
    source.add({"__name__": "mixed"}, [1.0, 2.0, 3.0, *steps(4)])
    source.add({"__name__": "c"}, [custom([5, 10], [i, 2.0 * i, i]) for i in range(1, 8)])
    source.add({"__name__": "schemas"}, [steps(1)[0], custom([5], [9, 9]), steps(9)[-1]])
    return source


def only(source: MemorySeries, query: str, at_s: float = 60) -> Hist | float | None:
    """Return the value of the one series of a result without warnings and infos, None if there is no series."""
    answer = source.instant(query, at_s)
    assert (answer.warnings, answer.infos) == ([], [])
    found = read_natives(answer)
    assert len(found) <= 1
    return next(iter(found.values()), None)


def remarks(source: MemorySeries, query: str, at_s: float = 60) -> tuple[list[str], list[str], bool]:
    """Return warnings and infos without their heads, and whether there is a result."""
    answer = source.instant(query, at_s)
    warnings = [each.removeprefix("PromQL warning: ") for each in answer.warnings]
    return warnings, [each.removeprefix("PromQL info: ") for each in answer.infos], bool(read_natives(answer))


# Selectors


def test_a_selector_finds_the_last_sample_whatever_it_is(series: MemorySeries) -> None:
    assert series.natives("h", 25)[_HIST] == steps(3)[-1]
    assert series.natives("mixed", 20) == {(("__name__", "mixed"),): 3}
    assert series.natives("mixed", 30) == {(("__name__", "mixed"),): steps(1)[0]}
    series.add({"__name__": "gone"}, [steps(1)[0], STALE])
    assert series.natives("gone", 10) == {}


def test_a_range_vector_is_answered_with_its_histograms(series: MemorySeries) -> None:
    value = series.instant("mixed[25s]", 40).value
    assert isinstance(value, SeriesSet)
    assert value.histograms is not None
    assert [None if blob is None else Hist.decode(blob) for blob in value.histograms.to_pylist()] == [None, *steps(2)]
    smooth = series.instant("h[20s] smoothed", 45).value
    assert isinstance(smooth, SeriesSet)
    assert smooth.histograms is not None
    counts = [Hist.decode(blob).count for blob in smooth.histograms.to_pylist()]
    assert (smooth.times.tolist(), counts) == ([25_000, 30_000, 40_000, 45_000], [10.5, 12, 15, 16.5])


def test_smoothed_selectors_lie_between_their_neighbours(series: MemorySeries) -> None:
    assert series.natives("h smoothed", 15)[_HIST] == Hist(7.5, 12.5, {1: 5.0, 2: 2.5})
    assert series.natives("h smoothed", 65)[_HIST] == steps(7)[-1]
    warnings, _, has = remarks(series, "mixed smoothed", 25)
    assert (warnings, has) == (['encountered a mix of histograms and floats for metric name "mixed" (1:1)'], False)


def test_bytes_that_are_no_histogram_fail_the_query(series: MemorySeries) -> None:
    class Broken(Hist):
        def encode(self) -> bytes:
            return b"?"

    series.add({"__name__": "broken"}, [Broken()])
    with pytest.raises(PromqlFailure, match="no native histogram"):
        series.instant("broken", 0)


# Functions of histograms


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("histogram_count(h)", 21),
        ("histogram_sum(h)", 35),
        ("histogram_avg(h)", 35 / 21),
        ("histogram_quantile(0.5, h)", 2**0.75),
        ("histogram_quantile(0, h)", 1),
        ("histogram_quantile(1, h)", 4),
        ("histogram_fraction(1, 2, h)", 2 / 3),
        ("histogram_fraction(-Inf, 2 ^ 0.5, h)", 1 / 3),
        ("histogram_quantile(0.5, c)", 7.5),
        ("histogram_quantile(1, c)", 10),
        ("histogram_fraction(5, 10, c)", 0.5),
        ("histogram_stdvar(c)", math.inf),
        ("histogram_quantile(0.5, rate(h[1m]))", 2**0.75),
    ],
)
def test_histograms_are_looked_into(series: MemorySeries, query: str, value: float) -> None:
    assert only(series, query) == pytest.approx(value)


def test_numbers_are_no_histograms(series: MemorySeries) -> None:
    assert only(series, "histogram_count(f)") is None
    assert only(series, "histogram_stddev(f)") is None


def test_the_deviation_is_that_of_the_middles_of_buckets(series: MemorySeries) -> None:
    mean, middles = 35 / 21, {2**0.5: 14, 8**0.5: 7}
    variance = sum(count * (middle - mean) ** 2 for middle, count in middles.items()) / 21
    assert only(series, "histogram_stdvar(h)") == pytest.approx(variance)
    assert only(series, "histogram_stddev(h)") == pytest.approx(math.sqrt(variance))


def test_several_quantiles_become_several_series(series: MemorySeries) -> None:
    found = series.natives('histogram_quantiles(h, "q", 0, 1)', 60)
    assert found == {(("q", "0.0"),): 1, (("q", "1.0"),): 4}


def test_observations_of_nan_are_remarked_upon() -> None:
    source = MemorySeries()
    source.add({"__name__": "n"}, [Hist(15, math.nan, {0: 12.0})])
    skewed = 'input to histogram_quantile has NaN observations, result is skewed higher for metric name "n" (1:20)'
    assert remarks(source, "histogram_quantile(0.4, n)", 0) == ([], [skewed], True)
    nothing = 'input to histogram_quantile has NaN observations, result is NaN for metric name "n" (1:20)'
    assert remarks(source, "histogram_quantile(0.9, n)", 0) == ([], [nothing], True)
    assert math.isnan(source.vector("histogram_quantile(0.9, n)")[()])
    _, infos, _ = remarks(source, "histogram_fraction(0, 1, n)", 0)
    assert infos == [
        "input to histogram_fraction has NaN observations, which are excluded from all fractions "
        'for metric name "n" (1:20)'
    ]


def test_classic_and_native_histograms_of_one_name_cancel_each_other() -> None:
    source = MemorySeries()
    source.add({"__name__": "s"}, list(steps(1)))
    source.add({"__name__": "s", "x": "1"}, list(steps(1)))
    for bound in ("1", "+Inf"):
        source.add({"__name__": "s", "le": bound}, [2.0])
    warnings, _, _ = remarks(source, "histogram_quantile(0.5, s)", 0)
    assert warnings == ['vector contains a mix of classic and native histograms for metric name "s" (1:25)']
    assert list(source.natives("histogram_quantile(0.5, s)")) == [(("x", "1"),)]


# Functions of ranges


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("rate(h[1m])", Hist(0.3, 0.5, {1: 0.2, 2: 0.1}, hint=GAUGE)),
        ("increase(h[1m])", Hist(18, 30, {1: 12.0, 2: 6.0}, hint=GAUGE)),
        ("delta(g[1m])", Hist(18, 30, {1: 12.0, 2: 6.0}, hint=GAUGE)),
        ("irate(h[1m])", Hist(0.3, 0.5, {1: 0.2, 2: 0.1}, hint=GAUGE)),
        ("idelta(g[1m])", Hist(3, 5, {1: 2.0, 2: 1.0}, hint=GAUGE)),
        ("sum_over_time(h[20s])", Hist(39, 65, {1: 26.0, 2: 13.0})),
        ("avg_over_time(h[20s])", Hist(19.5, 32.5, {1: 13.0, 2: 6.5})),
        ("increase(h[20s] anchored)", Hist(6, 10, {1: 4.0, 2: 2.0}, hint=GAUGE)),
        ("increase(h[10s] smoothed @ 45)", Hist(3, 5, {1: 2.0, 2: 1.0}, hint=GAUGE)),
        ("increase(c[1m])", Hist(24, 0, {0: 6.0, 1: 12.0, 2: 6.0}, {}, CUSTOM, bounds=(5, 10), hint=GAUGE)),
    ],
)
def test_windows_of_histograms_become_histograms(series: MemorySeries, query: str, found: Hist) -> None:
    value = only(series, query)
    assert isinstance(value, Hist)
    assert value.is_close(found)
    assert value.hint == found.hint


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("count_over_time(mixed[1m])", 6),
        ("present_over_time(mixed[1m])", 1),
        ("changes(mixed[1m])", 5),
        ("resets(mixed[1m])", 1),
        ("ts_of_first_over_time(mixed[1m])", 10),
        ("ts_of_last_over_time(mixed[1m])", 60),
        ("absent_over_time(mixed[1m])", None),
        ("deriv(h[1m])", None),
        ("max_over_time(h[1m])", None),
        ("quantile_over_time(2, h[1m])", None),
        ("changes(h[1m] anchored)", 6),
        ("resets(h[1m:10s])", 0),
        ("count_over_time(h[30s:10s])", 3),
    ],
)
def test_windows_of_histograms_become_numbers(series: MemorySeries, query: str, value: float | None) -> None:
    assert only(series, query) == value


def test_the_first_and_the_last_are_taken_as_they_are(series: MemorySeries) -> None:
    assert series.natives("last_over_time(mixed[1m])", 60) == {(("__name__", "mixed"),): steps(4)[-1]}
    assert series.natives("first_over_time(mixed[1m])", 60) == {(("__name__", "mixed"),): 2}


def test_a_reset_adds_what_was_lost() -> None:
    source = MemorySeries()
    source.add({"__name__": "r"}, [*steps(3), *steps(3)])
    value = only(source, "increase(r[50s])", 50)
    assert isinstance(value, Hist)
    assert value.is_close(Hist(15, 25, {1: 10.0, 2: 5.0}))
    assert only(source, "resets(r[1m])", 50) == 1
    assert only(source, "histogram_count(increase(r[50s]))", 50) == pytest.approx(15)


@pytest.mark.parametrize(
    ("query", "warning"),
    [
        ("rate(mixed[1m])", 'encountered a mix of histograms and floats for metric name "mixed" (1:6)'),
        ("sum_over_time(mixed[1m])", 'encountered a mix of histograms and floats for metric name "mixed" (1:15)'),
        ("increase(mixed[1m] anchored)", 'encountered a mix of histograms and floats for metric name "mixed" (1:10)'),
        (
            "rate(schemas[25s] @ 20)",
            "vector contains a mix of histograms with exponential and custom buckets schemas for metric name "
            '"schemas" (1:6)',
        ),
        (
            "avg_over_time(schemas[25s] @ 20)",
            "vector contains a mix of histograms with exponential and custom buckets schemas for metric name "
            '"schemas" (1:15)',
        ),
    ],
)
def test_samples_that_do_not_go_together_have_no_result(series: MemorySeries, query: str, warning: str) -> None:
    assert remarks(series, query) == ([warning], [], False)


@pytest.mark.parametrize(
    ("query", "warning"),
    [
        ("rate(g[1m])", 'this native histogram metric is not a counter: "g" (1:6)'),
        ("irate(g[1m])", 'this native histogram metric is not a counter: "g" (1:7)'),
        ("delta(h[1m])", 'this native histogram metric is not a gauge: "h" (1:7)'),
        ("idelta(h[1m])", 'this native histogram metric is not a gauge: "h" (1:8)'),
    ],
)
def test_counters_and_gauges_are_told_apart(series: MemorySeries, query: str, warning: str) -> None:
    assert remarks(series, query) == ([warning], [], True)


@pytest.mark.parametrize(
    ("query", "column", "value"),
    [("min_over_time(mixed[1m])", 15, 2), ("deriv(mixed[1m])", 7, 0.1), ("quantile_over_time(1, mixed[1m])", 20, 3)],
)
def test_functions_of_numbers_leave_histograms_out(series: MemorySeries, query: str, column: int, value: float) -> None:
    ignored = "ignored histograms in a range containing both floats and histograms for metric name"
    assert remarks(series, query) == ([], [f'{ignored} "mixed" (1:{column})'], True)
    assert series.natives(query, 60) == {(): pytest.approx(value)}


def test_custom_bounds_that_changed_are_reconciled() -> None:
    source = MemorySeries()
    source.add({"__name__": "b"}, [custom([5], [1, 1]), custom([5, 10], [2, 2, 2])])
    note = "mismatched custom buckets were reconciled during"
    assert remarks(source, "increase(b[20s])", 10) == ([], [f"{note} subtraction (1:10)"], True)
    assert remarks(source, "sum_over_time(b[20s])", 10) == ([], [f"{note} aggregation (1:15)"], True)
    total = source.natives("sum_over_time(b[20s])", 10)[()]
    assert isinstance(total, Hist)
    assert (total.bounds, total.positive) == ((5,), {0: 3, 1: 5})


def test_sums_of_counters_with_and_without_a_reset_are_remarked_upon() -> None:
    source = MemorySeries()
    source.add({"__name__": "r", "x": "1"}, [*steps(3), *steps(1)])
    source.add({"__name__": "r", "x": "2"}, list(steps(4)))
    for query, column in (("sum(r)", 21), ("avg(r)", 21), ('sum_over_time(r{x="1"}[1m])', 31)):
        warnings, _, _ = remarks(source, f"histogram_count({query})", 30)
        assert warnings == [f"conflicting counter resets during histogram aggregation (1:{column})"]
        # Without the statistics nobody looks at what histograms know of their neighbours.
        assert remarks(source, query, 30) == ([], [], True)
    assert remarks(source, "histogram_count(sum(r))", 0) == ([], [], True)
    assert remarks(source, "histogram_count(sum_over_time(r[30s:10s]))", 30) == ([], [], True)


# Functions of vectors


@pytest.mark.parametrize(
    "query", ["abs(h)", "clamp(h, 1, 2)", "round(h)", "year(h)", "sort(h)", "sgn(h)", "deg(h)", "absent(h)"]
)
def test_functions_of_numbers_have_no_value_for_a_histogram(series: MemorySeries, query: str) -> None:
    assert only(series, query) is None


def test_functions_of_labels_and_times_take_histograms_too(series: MemorySeries) -> None:
    last = steps(7)[-1]
    assert series.natives('label_replace(h, "a", "b", "", "")', 60) == {(("__name__", "h"), ("a", "b")): last}
    assert series.natives('label_join(h, "a", "-", "__name__", "x")', 60) == {(("__name__", "h"), ("a", "h-")): last}
    assert series.natives('sort_by_label(h, "x")', 60) == {_HIST: last}
    assert only(series, "timestamp(h)", 65) == 60
    assert only(series, "timestamp(h * 1)", 65) == 65
    number = series.instant('scalar({__name__=~"h|f"})', 60).value
    assert not isinstance(number, SeriesSet)
    assert getattr(number, "values", None) == [2]


def test_infos_must_be_numbers() -> None:
    source = MemorySeries()
    source.add({"__name__": "m", "instance": "i", "job": "j"}, list(steps(1)))
    source.add({"__name__": "target_info", "instance": "i", "job": "j", "v": "1"}, [1.0])
    assert source.natives("info(m)") == {(("__name__", "m"), ("instance", "i"), ("job", "j"), ("v", "1")): steps(1)[0]}
    with pytest.raises(PromqlFailure, match="should be an info metric, with float samples"):
        source.instant('info(target_info, {__name__="m"})')


# Operators


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("h * 2", Hist(42, 70, {1: 28.0, 2: 14.0})),
        ("2 * h", Hist(42, 70, {1: 28.0, 2: 14.0})),
        ("h / f", Hist(10.5, 17.5, {1: 7.0, 2: 3.5})),
        ("-h", Hist(-21, -35, {1: -14.0, 2: -7.0}, hint=GAUGE)),
        ("h + h", Hist(42, 70, {1: 28.0, 2: 14.0})),
        ("h - h", Hist(0, 0, hint=GAUGE)),
        ("h == h", steps(7)[-1]),
        ("h != (h * 2)", steps(7)[-1]),
        ("h != h", None),
        ("h == bool h", 1),
        ("h and f", steps(7)[-1]),
        ("h unless f", None),
        ("h </ 2", Hist(14, 14 * 2**0.5, {1: 14.0})),
        ("h >/ 2", Hist(7, 7 * 8**0.5, {2: 7.0})),
    ],
)
def test_operators_of_histograms(series: MemorySeries, query: str, value: Hist | float | None) -> None:
    found = only(series, query)
    if not isinstance(value, Hist):
        assert found == value
        return
    assert isinstance(found, Hist)
    assert found.hint == value.hint
    assert found.is_close(value)


def test_of_a_division_by_zero_no_bucket_is_left(series: MemorySeries) -> None:
    found = only(series, "h / 0")
    assert isinstance(found, Hist)
    assert (found.count, found.sum, found.positive) == (math.inf, math.inf, {})


@pytest.mark.parametrize(
    ("query", "types"),
    [
        ("h * h", "histogram * histogram"),
        ("h > h", "histogram > histogram"),
        ("h + f", "histogram + float"),
        ("f - h", "float - histogram"),
        ("h == 1", "histogram == float"),
        ("1 == bool h", "float == histogram"),
        ("1 / h", "float / histogram"),
        ("h ^ 2", "histogram ^ float"),
        ("f </ 1", "float </ float"),
        ("h </ h", "histogram </ histogram"),
        ("h + on() fill_right(1) nothing", "histogram + float"),
    ],
)
def test_operators_that_histograms_do_not_have_say_so(series: MemorySeries, query: str, types: str) -> None:
    op = types.split()[1]
    message = f'incompatible sample types encountered for binary operator "{op}": {types} (1:1)'
    assert remarks(series, query) == ([], [message], False)


def test_operators_name_what_they_reconciled_or_could_not(series: MemorySeries) -> None:
    series.add({"__name__": "d"}, [custom([5, 20], [1, 1, 1])] * 7)
    note = "mismatched custom buckets were reconciled during"
    assert remarks(series, "c + d") == ([], [f"{note} addition (1:1)"], True)
    assert remarks(series, "c - d") == ([], [f"{note} subtraction (1:1)"], True)
    layout = "incompatible bucket layout encountered for binary operator + (1:1)"
    assert remarks(series, "c + h") == ([layout], [], False)


# Aggregations


@pytest.fixture
def groups() -> MemorySeries:
    source = MemorySeries()
    for number, histogram in enumerate(steps(3)):
        source.add({"__name__": "m", "kind": "h", "n": str(number)}, [histogram])
    source.add({"__name__": "m", "kind": "f", "n": "0"}, [1.0])
    source.add({"__name__": "m", "kind": "f", "n": "1"}, [4.0])
    return source


def test_histograms_are_added_up_by_group(groups: MemorySeries) -> None:
    found = groups.natives("sum by (kind) (m)")
    assert found == {(("kind", "h"),): Hist(18, 30, {1: 12.0, 2: 6.0}), (("kind", "f"),): 5}
    found = groups.natives("avg by (kind) (m)")
    assert found == {(("kind", "h"),): Hist(6, 10, {1: 4.0, 2: 2.0}), (("kind", "f"),): 2.5}
    assert groups.natives("count by (kind) (m)") == {(("kind", "h"),): 3, (("kind", "f"),): 2}
    assert groups.natives("group(m)") == {(): 1}
    assert len(groups.natives("limitk(5, m)")) == 5


def test_a_group_of_both_kinds_has_no_sum(groups: MemorySeries) -> None:
    warning = "encountered a mix of histograms and floats for aggregation (1:5)"
    assert remarks(groups, "sum(m)", 0) == ([warning], [], False)
    assert remarks(groups, "avg(m)", 0) == ([warning], [], False)


@pytest.mark.parametrize(
    ("query", "column"),
    [
        ("min(m)", 5),
        ("max(m)", 5),
        ("stddev(m)", 8),
        ("stdvar(m)", 8),
        ("quantile(0.5, m)", 15),
        ("topk(5, m)", 1),
        ("bottomk(5, m)", 1),
    ],
)
def test_aggregations_of_numbers_leave_histograms_out(groups: MemorySeries, query: str, column: int) -> None:
    op = query.partition("(")[0]
    assert remarks(groups, query, 0) == ([], [f"ignored histogram in {op} aggregation (1:{column})"], True)
    assert all(isinstance(value, float) for value in groups.natives(query).values())


def test_histograms_are_counted_by_their_text(groups: MemorySeries) -> None:
    found = groups.natives('count_values("v", m{n="0"})')
    assert found == {(("v", "1"),): 1, (("v", "{count:3, sum:5, (1,2]:2, (2,4]:1}"),): 1}


def test_exponential_and_custom_histograms_have_no_sum(groups: MemorySeries) -> None:
    groups.add({"__name__": "m", "kind": "h", "n": "9"}, [custom([5], [1, 1])])
    warning = "vector contains a mix of histograms with exponential and custom buckets schemas for metric name"
    assert remarks(groups, 'sum(m{kind="h"})', 0) == ([f'{warning} "m" (1:5)'], [], False)


def test_steps_of_a_range_query_mix_numbers_and_histograms(series: MemorySeries) -> None:
    found = series.matrix("histogram_count(mixed) or mixed * 10", end_s=40, step_s=10)
    assert found == {(): [10, 20, 30, 3, 6]}


# Ranges in stretches of steps

RANGES = (
    "rate(h[40s])",
    "increase(mixed[1m])",
    "sum_over_time(c[30s])",
    "avg_over_time(mixed[1m])",
    "avg_over_time(schemas[1m])",
    "last_over_time({__name__=~'h|f|mixed'}[30s])",
    "count_over_time(mixed[30s])",
    "delta(g[1m])",
    "rate(h[1m:10s])",
    "quantile_over_time(scalar(f) / 4, mixed[1m])",
)


def _cells(
    source: MemorySeries, query: str, options: EvaluationOptions | None = None
) -> tuple[object, list[str], list[str]]:
    """Every cell of a range query, histograms in their stored form, with warnings and infos."""
    answer = run_range(parse_promql(query), query, source, start_ms=0, end_ms=90_000, step_ms=5_000, options=options)
    vector = answer.value
    assert isinstance(vector, Vector)
    stored = None
    if vector.natives is not None:
        stored = pa.array(vector.natives.pool.encode(pa.array(vector.natives.cells.reshape(-1)))).to_pylist()
    numbers = np.where(vector.present, vector.values, -1.0).tolist()
    return (list(vector.labels.dicts()), numbers, stored), answer.warnings, answer.infos


@pytest.mark.parametrize("query", RANGES)
def test_ranges_are_computed_step_by_step_with_the_same_answer(series: MemorySeries, query: str) -> None:
    whole = _cells(series, query)
    assert repr(_cells(series, query, EvaluationOptions(limits=Limits(visits_max=1)))) == repr(whole)


def test_a_range_of_histograms_stops_between_steps(series: MemorySeries) -> None:
    """The deadline is checked before each range of steps, and nothing is computed after it."""
    calls = 0

    def checks_of(last: int, visits_max: int = 1) -> int:
        nonlocal calls
        calls = 0

        def check() -> None:
            nonlocal calls
            calls += 1
            if calls == last:
                raise TimeoutError

        with suppress(TimeoutError):
            _cells(series, "rate(h[1m])", EvaluationOptions(check=check, limits=Limits(visits_max=visits_max)))
        return calls

    few = checks_of(-1, Limits().visits_max)
    needed = checks_of(-1)
    assert needed >= few + 10
    assert checks_of(needed - 5) == needed - 5

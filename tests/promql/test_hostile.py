"""Queries that ask for far too much are refused before the memory or the time is taken."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
import pytest

from tests.promql.memory_series import MemorySeries
from tsdb.errors import Status
from tsdb.model import Matcher, _matcher
from tsdb.promql import PromqlFailure, PromqlSyntax, PromqlTooLarge, parse_promql
from tsdb.promql.evaluation import EvaluationOptions, Limits, PromqlBusy, SampleBudget, run_instant, run_range

FEW_VISITS = Limits(visits_max=1000)
SMALL = EvaluationOptions(limits=Limits(samples_max=10_000))


@contextmanager
def quickly(seconds: float = 8.0) -> Iterator[None]:
    """Let the process use no more time of the processor than that."""
    before = time.process_time()
    yield
    assert time.process_time() - before < seconds


@pytest.fixture(scope="module")
def source() -> MemorySeries:
    source = MemorySeries()
    for x in range(100):
        source.add({"__name__": "a", "x": str(x), "le": str(x % 5)}, [1])
        # One after the other, so that there is never more than one at a time.
        source.series[(("__name__", "turns"), ("x", str(x)))] = {x * 1000: 1.0, x * 1000 + 500: "stale"}
    return source


@pytest.mark.parametrize(
    "text",
    [
        "a" + "+a" * 100_000,
        "a" + " or a" * 100_000,
        "(" * 100_000 + "a" + ")" * 100_000,
        "-" * 100_000 + "a",
        "abs(" * 10_000 + "a" + ")" * 10_000,
        "a^" * 100_000 + "a",
        "a{" + ",".join(f'l{i}="x"' for i in range(60_000)) + "}",
        "sum by (" + ",".join(f"l{i}" for i in range(100_000)) + ") (a)",
        'label_join(a, "x", ""' + ', "y"' * 100_000 + ")",
        "a[" + "1m+" * 50_000 + "1m]",
        "a[" + "1m+" * 10_000 + "1m]",
        "a offset (" + "1m*" * 10_000 + "1m)",
        "a[" + "min_of(1m," * 1000 + "1m" + ")" * 1000 + "]",
        "a[" + "1d" * 200_000 + "]",
        "a" + "[1m:1s]" * 10_000,
        'a{x=~"(x{1000}){1000}"}',
        "\n" * 100_000 + "a{",
        "a" * (1 << 21),
        "unknown" + "x" * 500_000 + "()",
    ],
    ids=lambda text: text[:12],
)
def test_texts_that_are_too_large_are_refused_with_a_short_message(text: str) -> None:
    with quickly(), pytest.raises(PromqlSyntax) as caught:
        parse_promql(text)
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(.*)*(.*)*(.*)*x", "((((a*)*)*)*)*b", "a{0,200}" * 3 + "b"])
def test_no_regular_expression_takes_long(source: MemorySeries, pattern: str) -> None:
    long = MemorySeries()
    for x in range(50):
        long.add({"__name__": "a", "x": "a" * 500 + str(x)}, [1])
    with quickly():
        assert long.vector(f'a{{x=~"{pattern}"}}') == {}
        assert len(long.vector(f'label_replace(a, "y", "$1", "x", "{pattern}")')) == 50


@pytest.mark.parametrize(
    "query",
    [
        "sum_over_time(a[1000d:1ms])",
        "sum_over_time(sum_over_time(a[30d:1s])[30d:1s])",
        "max_over_time(vector(1)[100y:1ms])",
        'histogram_quantiles(a, "q"' + "".join(f", 0.{i:05}" for i in range(4000)) + ")",
    ],
)
def test_evaluations_that_are_too_large_are_refused(source: MemorySeries, query: str) -> None:
    with quickly(), pytest.raises(PromqlFailure):
        source.instant(query, 10, SMALL)


def test_series_that_take_turns_do_not_meet_all_others(source: MemorySeries) -> None:
    """100 series each meet 100 others at some time; that is 10,000 rows of 100 steps."""
    query = "a * on () group_left () last_over_time(turns[1s])"
    with quickly(), pytest.raises(PromqlFailure, match="too much for one query"):
        _range(source, query, SMALL)


def test_unions_do_not_grow_without_end(source: MemorySeries) -> None:
    query = " or ".join(f'label_replace(a, "y", "{i}", "", "")' for i in range(500))
    with quickly(), pytest.raises(PromqlFailure, match="too much for one query"):
        _range(source, query, SMALL)


def test_what_waits_for_the_other_side_counts_too(source: MemorySeries) -> None:
    """Each level of parentheses keeps its left side while the right one is computed."""
    assert _range(source, "a + a", SMALL) is not None
    query = "(a + " * 40 + "a" + ")" * 40
    with quickly(), pytest.raises(PromqlFailure, match="too much for one query"):
        _range(source, query, SMALL)


def _range(source: MemorySeries, query: str, options: EvaluationOptions) -> object:
    return run_range(parse_promql(query), query, source, start_ms=0, end_ms=9_000, step_ms=1000, options=options)


def test_queries_that_run_at_the_same_time_share_a_budget(source: MemorySeries) -> None:
    budget = SampleBudget(samples_max=1000)
    options = EvaluationOptions(budget=budget)
    expr = parse_promql("a + a")
    run_instant(expr, "a + a", source, 1000, options)
    assert budget.held == 0
    budget.take(999)
    with pytest.raises(PromqlBusy, match="at the same time would hold more than 1000 samples") as caught:
        run_instant(expr, "a + a", source, 1000, options)
    assert caught.value.status is Status.RUNTIME_RESOURCES_EXHAUSTED
    assert budget.held == 999
    budget.give(999)
    run_range(expr, "a + a", source, start_ms=0, end_ms=1000, step_ms=1000, options=options)
    assert budget.held == 0


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("label_join(", ', "x", "", "x", "x")'),
        ("label_join(", ', "x", "", "x", "x", "le")'),
        ("label_replace(", ', "x", "$0$0", "x", ".*")'),
        ("label_replace(", ', "x", "${1}${1}${1}", "x", "(.*)")'),
    ],
)
def test_labels_that_double_again_and_again_are_refused(source: MemorySeries, opening: str, closing: str) -> None:
    text = opening * 60 + "a" + closing * 60
    with quickly(), pytest.raises(PromqlTooLarge, match="write labels"):
        source.instant(text)
    few = opening * 5 + "a" + closing * 5
    assert len(source.vector(few)) == 100


WIDE = "quantile_over_time(0.5, a[1h:10s])", "rate(a[30m])", "max_over_time(a[10m:1s])", "deriv(a[30m:1m])"


@pytest.mark.parametrize("text", WIDE)
def test_windows_are_computed_in_ranges_of_steps_with_the_same_answer(source: MemorySeries, text: str) -> None:
    whole = source.matrix(text, end_s=600, step_s=7)
    assert source.matrix(text, end_s=600, step_s=7, options=EvaluationOptions(limits=FEW_VISITS)) == whole


class _Late(Exception):
    """The time is up."""


def test_a_query_stops_between_ranges_of_steps(source: MemorySeries) -> None:
    """However many samples windows hold together: the deadline is checked before the next range of steps."""

    def checks_of(last: int) -> int:
        """Run a query that is late at its check number `last`; return how many checks there were."""
        checks = 0

        def check() -> None:
            nonlocal checks
            checks += 1
            if checks == last:
                raise _Late

        text = WIDE[0]
        with suppress(_Late):
            options = EvaluationOptions(check=check, limits=FEW_VISITS)
            run_range(parse_promql(text), text, source, start_ms=0, end_ms=600_000, step_ms=7000, options=options)
        return checks

    needed = checks_of(-1)
    assert needed > 50
    assert checks_of(needed - 20) == needed - 20


def test_long_lists_of_values_are_kept_within_a_budget() -> None:
    for number in range(30):
        listed = "|".join(f"{number}{value}" for value in range(9000))
        assert len(listed) <= _matcher.REGEX_CHARS_MAX
        matcher = Matcher("host", "=~", listed)
        assert _matcher.match_values(matcher, pa.array([f"{number}7", "x"])).tolist() == [True, False]
        assert not _matcher.matches_empty(matcher)
    for cache in (_matcher.listed_values, _matcher.anchored, _matcher.matches_empty):
        assert cache.weight <= _matcher.KEPT_BYTES_MAX
    assert 0 < len(_matcher.listed_values) < 30

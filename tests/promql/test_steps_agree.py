"""A range query gives at each step what an instant query gives at that time."""

from __future__ import annotations

import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.promql.memory_series import STALE, Labels, MemorySeries
from tsdb.promql import PromqlFailure, ValueType, parse_promql
from tsdb.promql.evaluation import Scalar, Vector

_STEPS = [0, 15, 30, 45, 60]

_samples = st.lists(
    st.one_of(st.none(), st.just(STALE), st.integers(-5, 20).map(float), st.just(math.nan), st.just(math.inf)),
    min_size=1,
    max_size=8,
)
_labels = st.fixed_dictionaries(
    {"__name__": st.sampled_from(["a", "b_total"])},
    optional={"x": st.sampled_from(["1", "2"]), "y": st.sampled_from(["1", "2"])},
)
_data = st.lists(st.tuples(_labels, _samples), min_size=1, max_size=6)

_selectors = st.sampled_from(
    ["a", "b_total", '{x="1"}', 'a{y!="1"}', "a offset 10s", "a @ 30", "a @ start()", "b_total @ end() offset -5s"]
)
_ranges = st.one_of(
    st.sampled_from(["a[20s]", "b_total[35s] offset 5s", "a[1m] @ 40", "b_total[30s:10s]", "(a > 1)[40s:7s]"]),
)
_grouping = st.sampled_from(["", "by (x)", "without (y)", "by (x, y)"])
_range_functions = st.sampled_from(
    [
        "rate",
        "increase",
        "delta",
        "irate",
        "idelta",
        "changes",
        "resets",
        "deriv",
        "avg_over_time",
        "sum_over_time",
        "min_over_time",
        "max_over_time",
        "count_over_time",
        "last_over_time",
        "first_over_time",
        "stddev_over_time",
        "present_over_time",
        "mad_over_time",
        "ts_of_max_over_time",
        "absent_over_time",
    ]
)


def _combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "/", "%", "^", "==", ">", "<= bool", "and", "or", "unless"])
    matching = st.sampled_from(["", "on (x)", "ignoring (y)", "on ()"])
    filled = st.sampled_from(
        ["+ fill(1)", "- on (x) fill_left(2)", "* on (x) group_left ()", "/ on (x) group_right (y)"]
    )
    return st.one_of(
        st.tuples(inner, operators, matching, inner).map(lambda t: f"({t[0]}) {t[1]} {t[2]} ({t[3]})"),
        st.tuples(inner, filled, inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        st.tuples(inner, st.sampled_from(["+ 1", "> 2", "== bool 3", "^ 2"])).map(lambda t: f"({t[0]}) {t[1]}"),
        st.tuples(st.sampled_from(["sum", "avg", "min", "max", "count", "stddev", "group"]), _grouping, inner).map(
            lambda t: f"{t[0]} {t[1]} ({t[2]})"
        ),
        st.tuples(st.sampled_from(["topk", "bottomk", "quantile", "limitk"]), _grouping, inner).map(
            lambda t: f"{t[0]} {t[1]} (1, {t[2]})"
        ),
        st.tuples(st.sampled_from(["abs", "-", "sgn", "absent", "timestamp", "hour", "round"]), inner).map(
            lambda t: f"{t[0]}({t[1]})"
        ),
        inner.map(lambda each: f"clamp({each}, scalar(a), 5)"),
        inner.map(lambda each: f"vector(scalar({each}) + time())"),
        inner.map(lambda each: f'label_replace({each}, "x", "$1", "y", "(.*)")'),
        inner.map(lambda each: f"sum_over_time(({each})[30s:10s])"),
        inner.map(lambda each: f'count_values("v", {each})'),
    )


_queries = st.recursive(
    st.one_of(_selectors, st.tuples(_range_functions, _ranges).map(lambda t: f"{t[0]}({t[1]})")), _combine, max_leaves=4
)


def _instants(source: MemorySeries, query: str) -> dict[Labels, list[float | None]]:
    found: dict[Labels, list[float | None]] = {}
    for position, at in enumerate(_STEPS):
        for labels, value in source.vector(query, at).items():
            found.setdefault(labels, [None] * len(_STEPS))[position] = value
    return found


def _is_same(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return (math.isnan(left) and math.isnan(right)) or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_data, _queries)
def test_every_step_of_a_range_is_an_instant(
    data: list[tuple[dict[str, str], list[float | str | None]]], query: str
) -> None:
    # What `start()` and `end()` mean differs between the two kinds of query on purpose.
    query = query.replace("start()", "10").replace("end()", "50")
    if parse_promql(query).type is not ValueType.VECTOR:
        return
    # Which of several equal series is taken is not defined; filling in changes their order from step to step.
    if "fill" in query and any(name in query for name in ("topk", "bottomk", "limitk")):
        return
    source = MemorySeries()
    for labels, values in data:
        source.add(labels, values)
    try:
        instants = _instants(source, query)
    except PromqlFailure:
        return
    steps = source.matrix(query, end_s=_STEPS[-1], step_s=15)
    assert steps.keys() == instants.keys()
    for labels, values in steps.items():
        assert all(map(_is_same, values, instants[labels])), (labels, values, instants[labels])


def test_numbers_are_the_same_at_all_steps() -> None:
    source = MemorySeries()
    answer = source.instant("1 + 2 * time()", 30)
    assert isinstance(answer.value, Scalar)
    assert answer.value.values.tolist() == [61]
    assert source.matrix("1 + 2 * time()", end_s=30, step_s=15) == {(): [1, 31, 61]}
    assert Vector.empty(3).steps == 3

"""Answers of PromQL as JSON: 100,000 values, as many steps of few series and as few steps of many."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks import Measurement, measure
from tsdb.promql.evaluation import Answer, LabelColumn, LabelTable, Vector
from tsdb.servers._prometheus_json import encode_answer

VALUES = 100_000


def main() -> Iterator[Measurement]:
    for series in (100, 1000, 10_000):
        yield of_matrix(f"matrix of {series} series, 15 digits", series, digits=15)
    yield of_matrix("matrix of 1000 series, integers", 1000, digits=0)
    answer = make_answer(VALUES, 1, digits=15)
    yield measure("vector", lambda: encode_answer(answer, is_range=False), amount=VALUES, unit="values")


def of_matrix(what: str, series: int, *, digits: int) -> Measurement:
    answer = make_answer(series, VALUES // series, digits=digits)
    return measure(what, lambda: encode_answer(answer, is_range=True), amount=VALUES, unit="values")


def make_answer(series: int, steps: int, *, digits: int) -> Answer:
    random = np.random.default_rng(1)
    names = {"__name__": "cpu_usage", "region": "eu"}
    columns = {name: LabelColumn.constant(value, series) for name, value in names.items()}
    columns["host"] = LabelColumn.of_texts([f"host_{number}" for number in range(series)])
    values = (random.random((series, steps)) * 1000).round(digits)
    present = np.ones((series, steps), np.bool_)
    vector = Vector(LabelTable(series, columns), values, present, np.zeros(series, np.bool_), is_ordered=True)
    times = 1_700_000_000_000 + 15_000 * np.arange(steps, dtype=np.int64)
    return Answer(times, vector, [], [])

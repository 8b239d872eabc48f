"""Errors of kernels that a caller handles: classes with attributes, so that nobody reads their texts."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from tsdb import _kernels

UNION = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
BATCH = pa.RecordBatch.from_arrays([UNION], names=["u"])
STYLE = "iso,mdy,postgres,hex"
FAR = pa.RecordBatch.from_arrays([pa.array([0, 10**17], pa.timestamp("ms"))], names=["t"])


def parse_line() -> object:
    return _kernels.LineParser(100, 1 << 20).parse(b"m f=1\nm f=\xc3\xbcx", factor=1, default_time=0)


def add_runs() -> object:
    runs = _kernels.SeriesRuns(width=1, origin=0, runs_max=10)
    rows = np.array([0], np.int64), np.array([20], np.int64), np.array([0], np.int64)
    return runs.add(*rows, pa.array(range(20), pa.int64()))


def find_samples() -> object:
    times = pa.array(range(10), pa.int64())
    ends = pa.array([0], pa.int64()), pa.array([9], pa.int64())
    known = _kernels.SeriesStretches(pa.array([0], pa.uint32()), pa.array([0, 10], pa.int64()), *ends)
    piece = _kernels.SamplePiece(0, times, pa.array([1.0] * 10))
    return _kernels.Samples.find([(known, piece)], pa.array([0], pa.uint32()), 0, 99, 9)


Case = tuple[Callable[[], object], type[Exception], dict[str, object]]
CASES: dict[str, Case] = {
    "a line": (parse_line, _kernels.MalformedLine, {"line": 2, "column": 5}),
    "runs": (add_runs, _kernels.LimitExceeded, {"limit": 10, "found": 20}),
    "samples": (find_samples, _kernels.LimitExceeded, {"limit": 9, "found": 10}),
    "parameters": (lambda: _kernels.parse_form(b"a&b&c", 2), _kernels.LimitExceeded, {"limit": 2, "found": 3}),
    "headers": (
        lambda: _kernels.parse_http_head(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n"),
        _kernels.LimitExceeded,
        {"limit": 100, "found": 101},
    ),
    "text of a union": (
        lambda: _kernels.encode_json_rows(BATCH),
        _kernels.UnsupportedType,
        {"column": "u", "kind": 'Union(Sparse, 0: ("0": Int64))'},
    ),
    "a union for PostgreSQL": (
        lambda: _kernels.encode_postgres_rows(BATCH, binary=[False], style=STYLE),
        _kernels.UnsupportedType,
        {"column": "u", "kind": 'Union(Sparse, 0: ("0": Int64))'},
    ),
    "a year of MySQL": (lambda: _kernels.encode_mysql_rows(FAR, 0), _kernels.UnsupportedValue, {"row": 1}),
    "parameters that are no UTF-8": (lambda: _kernels.parse_form(b"a=%ff", 9), _kernels.MalformedInput, {}),
    "a head": (lambda: _kernels.parse_http_head(b"\0\r\n\r\n"), _kernels.MalformedInput, {}),
    "a chunk": (lambda: _kernels.ChunkedBody().feed(b"x\r\n"), _kernels.MalformedInput, {}),
    "a message": (lambda: _kernels.parse_greptime_rows(b"\xff"), _kernels.MalformedInput, {}),
    "a histogram": (lambda: _kernels.Histograms.decode(pa.array([b"?"])), _kernels.MalformedInput, {}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_error_that_is_handled_has_a_class_and_attributes(case: Case) -> None:
    call, kind, attributes = case
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert vars(caught.value) == attributes
    assert str(caught.value)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_error_keeps_its_attributes_on_its_way_to_another_process(case: Case) -> None:
    with pytest.raises(case[1]) as caught:
        case[0]()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy), vars(copy)) == (case[1], str(caught.value), vars(caught.value))


@pytest.mark.parametrize(
    "call",
    [
        lambda: _kernels.encode_mysql_rows(pa.array([1]), 0),
        lambda: _kernels.encode_json_rows(pa.array([1])),
        lambda: _kernels.encode_postgres_rows(BATCH, binary=[], style=STYLE),
    ],
)
def test_a_mistake_of_the_caller_is_none_of_these(call: Callable[[], object]) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert type(caught.value) in (TypeError, ValueError)

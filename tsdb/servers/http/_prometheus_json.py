"""Answers of PromQL as the JSON of Prometheus' HTTP API; matrices are written by a kernel."""

from __future__ import annotations

import numpy as np
import orjson
import pyarrow as pa

from tsdb import _kernels
from tsdb.promql.evaluation import Answer, LabelTable, Scalar, SeriesSet, Text, Vector, format_float


def encode_answer(answer: Answer, *, is_range: bool) -> bytes:
    """Return the body of a successful answer."""
    value = answer.value
    if isinstance(value, Scalar):
        kind, result = "scalar", _pair(int(answer.times[0]), format_float(float(value.values[0])))
    elif isinstance(value, Text):
        kind, result = "string", _pair(int(answer.times[0]), value.value)
    elif isinstance(value, SeriesSet):
        kind, result = "matrix", b"[" + _samples(value) + b"]"
    else:
        kind, result = ("matrix" if is_range else "vector"), b"[" + _vector(answer, value, is_range=is_range) + b"]"
    tail = b""
    if answer.warnings:
        tail += b',"warnings":' + orjson.dumps(answer.warnings)
    if answer.infos:
        tail += b',"infos":' + orjson.dumps(answer.infos)
    head = b'{"status":"success","data":{"resultType":"%s","result":' % kind.encode()
    return head + result + b"}" + tail + b"}"


def _pair(time_ms: int, text: str) -> bytes:
    seconds = b"%d" % (time_ms // 1000) if time_ms % 1000 == 0 else repr(time_ms / 1000).encode()
    return (
        b"[" + seconds + b"," + orjson.dumps(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")) + b"]"
    )


def encode_labels(labels: LabelTable) -> pa.Array:
    """Return the labels of each series as a JSON object."""
    pieces: list[list[str]] = [[] for _ in range(labels.rows)]
    for name in sorted(labels.columns):
        column = labels.columns[name]
        head = orjson.dumps(name).decode()
        texts = [f"{head}:{orjson.dumps(value).decode()}" for value in column.values]
        for row, code in enumerate(column.codes.tolist()):
            if code:
                pieces[row].append(texts[code])
    return pa.array(["{" + ",".join(each) + "}" for each in pieces], pa.string())


def _vector(answer: Answer, vector: Vector, *, is_range: bool) -> bytes:
    natives = vector.natives
    return _kernels.prom_json(
        encode_labels(vector.labels),
        pa.array(np.ascontiguousarray(vector.values).reshape(-1)),
        pa.array(np.ascontiguousarray(vector.present).reshape(-1).view(np.uint8)),
        pa.array(answer.times),
        not is_range,
        None if natives is None else natives.pool,
        None if natives is None else pa.array(np.ascontiguousarray(natives.cells).reshape(-1)),
    )


def _samples(series: SeriesSet) -> bytes:
    """Write series whose samples have times of their own, one after the other."""
    metrics = encode_labels(series.labels)
    pool, cells = None, None
    if series.histograms is not None:
        pool, found = _kernels.Histograms.decode(series.histograms)
        cells = pa.array(found)
    pieces = []
    for row in range(series.labels.rows):
        low, high = int(series.offsets[row]), int(series.offsets[row + 1])
        if low == high:
            continue
        pieces.append(
            _kernels.prom_json(
                metrics.slice(row, 1),
                pa.array(series.values[low:high]),
                pa.array(np.ones(high - low, np.uint8)),
                pa.array(series.times[low:high]),
                False,
                pool,
                None if cells is None else cells.slice(low, high - low),
            )
        )
    return b",".join(pieces)

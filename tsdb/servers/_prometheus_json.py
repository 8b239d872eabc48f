"""Answers of PromQL as the JSON of Prometheus' HTTP API; matrices are written by a kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import orjson
import pyarrow as pa

from tsdb import _kernels
from tsdb.promql.evaluation import Answer, LabelTable, Scalar, SeriesSet, StringValue, Vector, format_float

TRUNCATED = "results truncated due to limit"
KEPT_LABELS_MAX = 256
"""Of how many series, at most, labels are kept as they were written, for as long as the series are remembered."""

_JSON = "json"


@dataclass(frozen=True, slots=True)
class Timings:
    """How many seconds a query waited, and how many it took."""

    waited_s: float
    evaluated_s: float


def encode_answer(
    answer: Answer, *, is_range: bool, series_max: int | None = None, timings: Timings | None = None
) -> bytes:
    """Return the body of a successful answer, with at most so many series, and `timings` if given."""
    if series_max is not None:
        answer = _limited(answer, series_max)
    value = answer.value
    tail = b"}"
    if timings is not None:
        tail = b',"stats":' + orjson.dumps(_stats(answer, timings)) + tail
    if answer.warnings:
        tail += b',"warnings":' + orjson.dumps(answer.warnings)
    if answer.infos:
        tail += b',"infos":' + orjson.dumps(answer.infos)
    tail += b"}"
    if isinstance(value, Scalar):
        return _head("scalar") + _pair(int(answer.times[0]), format_float(float(value.values[0]))) + tail
    if isinstance(value, StringValue):
        return _head("string") + _pair(int(answer.times[0]), value.value) + tail
    if isinstance(value, SeriesSet):
        return b"".join((_head("matrix"), b"[", _samples(value), b"]", tail))
    head = _head("matrix" if is_range else "vector") + b"["
    return _vector(answer, value, is_range=is_range, head=head, tail=b"]" + tail)


def encode_pieces(answer: Answer, *, is_range: bool, series_max: int | None) -> list[bytes]:
    """Return the same in pieces, as answers of other kinds come."""
    return [encode_answer(answer, is_range=is_range, series_max=series_max)]


def _head(kind: str) -> bytes:
    return b'{"status":"success","data":{"resultType":"%s","result":' % kind.encode()


def _limited(answer: Answer, series_max: int) -> Answer:
    value = answer.value
    if not isinstance(value, Vector | SeriesSet) or value.labels.rows <= series_max:
        return answer
    rows = np.arange(series_max)
    if isinstance(value, Vector):
        value = value.take(rows)
    else:
        value = SeriesSet(value.labels.take(rows), value.offsets[: series_max + 1], value.times, value.values)
    return replace(answer, value=value, warnings=[*answer.warnings, TRUNCATED])


def _stats(answer: Answer, timings: Timings) -> dict[str, dict[str, float]]:
    return {
        "timings": {
            "evalTotalTime": timings.evaluated_s,
            "execQueueTime": timings.waited_s,
            "execTotalTime": timings.waited_s + timings.evaluated_s,
        },
        "samples": {"totalQueryableSamples": answer.samples},
    }


def _pair(time_ms: int, text: str) -> bytes:
    seconds = b"%d" % (time_ms // 1000) if time_ms % 1000 == 0 else repr(time_ms / 1000).encode()
    return (
        b"[" + seconds + b"," + orjson.dumps(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")) + b"]"
    )


def encode_labels(labels: LabelTable) -> pa.Array:
    """Return the labels of each series as a JSON object; those of few series are kept with them."""
    written = labels.written.get(_JSON)
    if written is None:
        written = _write_labels(labels)
        if labels.rows <= KEPT_LABELS_MAX:
            labels.written[_JSON] = written
    return written


def _write_labels(labels: LabelTable) -> pa.Array:
    names = sorted(labels.columns)
    columns = [labels.columns[name] for name in names]
    values, codes = [column.values.arrow for column in columns], [pa.array(column.codes) for column in columns]
    return pa.array(_kernels.prom_labels(names, values, codes, labels.rows))


def _vector(answer: Answer, vector: Vector, *, is_range: bool, head: bytes, tail: bytes) -> bytes:
    natives = vector.natives
    return _kernels.prom_json(
        encode_labels(vector.labels),
        pa.array(np.ascontiguousarray(vector.values).reshape(-1)),
        pa.array(np.ascontiguousarray(vector.present).reshape(-1).view(np.uint8)),
        pa.array(answer.times),
        not is_range,
        None if natives is None else natives.pool,
        None if natives is None else pa.array(np.ascontiguousarray(natives.cells).reshape(-1)),
        head=head,
        tail=tail,
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

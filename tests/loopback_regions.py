"""Regions as another node would serve them, in one process: every request and every answer is encoded and decoded.

    query ─ request ─▶ bytes ─▶ request ─▶ LocalReader ─ answer ─▶ bytes ─▶ answer ─▶ query

What is not a plain value or Arrow data raises TypeError, so suites that pass through here prove that a remote region
could answer them. `encode` writes a tree of JSON; Arrow data in it is IPC. Calls of `Evaluate` go the same way in the
other direction. Errors and `check`, which stay in the process of the query, are handed on as they are.
"""

from __future__ import annotations

import base64
import json
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tsdb import model
from tsdb._kernels import SamplePiece, Samples, SeriesStretches
from tsdb.engine import Engine, FileFacts, JobStatus, RegionStat, reading
from tsdb.engine.reading import (
    Aggregated,
    Bounds,
    CellsRequest,
    CellsRun,
    Evaluate,
    KnownSeries,
    KnownSeriesRequest,
    PlannedCells,
    PlannedScan,
    RegionReader,
    RowFilter,
    SamplesRequest,
    ScanRequest,
    SeriesRequest,
    SeriesRows,
    no_check,
)
from tsdb.model import MetricView, RegionId, RegionSchema, TimeRange
from tsdb.units import Duration

T = TypeVar("T")

_CLASSES: dict[str, type] = {
    each.__name__: each
    for each in (*vars(reading).values(), *vars(model).values(), FileFacts, JobStatus, RegionStat)
    if isinstance(each, type) and (is_dataclass(each) or issubclass(each, Enum))
}
_restore_expression: Callable[[pa.Buffer], pc.Expression] = pc.field("a").__reduce__()[0]


def encode(value: object) -> bytes:
    """Return a value as bytes; TypeError if something in it cannot travel."""
    return json.dumps(_lower(value)).encode()


def decode(message: bytes) -> Any:
    return _raise(json.loads(message))


def travel(value: T) -> T:
    """Return what arrives when a value is sent."""
    return typing.cast(T, decode(encode(value)))


def _lower(value: object) -> object:
    if value is None or type(value) in (bool, int, float, str):
        return value
    name, content = _tagged(value)
    return {name: content}


def _tagged(value: object) -> tuple[str, object]:
    if isinstance(value, Enum):
        return "enum", [type(value).__name__, value.value]
    if isinstance(value, Duration):
        return "duration", int(value)
    if type(value) is bytes:
        return "bytes", _text(value)
    if isinstance(value, list | tuple | frozenset):
        kind = "frozenset" if isinstance(value, frozenset) else type(value).__name__
        return kind, [_lower(each) for each in value]
    if isinstance(value, Mapping):
        return "map", [[_lower(key), _lower(each)] for key, each in value.items()]
    if _CLASSES.get(type(value).__name__) is type(value):
        own = [each.name for each in fields(value) if each.init]  # type: ignore[arg-type]
        return "value", [type(value).__name__, {name: _lower(getattr(value, name)) for name in own}]
    return _tagged_arrow(value)


def _tagged_arrow(value: object) -> tuple[str, object]:
    if isinstance(value, pa.RecordBatch):
        return "batch", _text(_ipc(value))
    if isinstance(value, pa.Array):
        return "array", _text(_ipc(pa.RecordBatch.from_arrays([value], names=[""])))
    if isinstance(value, pa.Scalar):
        return "scalar", _tagged_arrow(pa.array([value.as_py()], value.type))[1]
    if isinstance(value, pa.DataType):
        return "type", _tagged_arrow(pa.nulls(0, value))[1]
    if isinstance(value, np.ndarray):
        return "numpy", _tagged_arrow(pa.array(value))[1]
    if isinstance(value, pc.Expression):
        return "expression", _text(value.__reduce__()[1][0].to_pybytes())
    if isinstance(value, Samples):
        parts = [pa.array(each) for each in (value.places, *value.columns())]
        return "samples", [_tagged_arrow(part)[1] for part in parts]
    raise TypeError(f"{type(value).__name__} cannot travel to another node")


def _raise(lowered: Any) -> Any:
    if not isinstance(lowered, dict):
        return lowered
    ((kind, content),) = lowered.items()
    if kind in ("list", "tuple", "frozenset"):
        return {"list": list, "tuple": tuple, "frozenset": frozenset}[kind](_raise(each) for each in content)
    return _RAISED[kind](content)


def _raise_value(content: Any) -> Any:
    name, given = content
    return _CLASSES[name](**{key: _raise(each) for key, each in given.items()})


def _raise_samples(content: Any) -> Samples:
    places, offsets, times, values = (_array(each) for each in content)
    ends = offsets.to_numpy()
    least = pa.array(times.to_numpy()[ends[:-1]])
    most = pa.array(times.to_numpy()[ends[1:] - 1])
    stretches = SeriesStretches(places, offsets, least, most)
    chosen = pa.array(np.arange(int(places[-1].as_py()) + 1 if len(places) else 0, dtype=np.uint32))
    last = np.iinfo(np.int64).max
    found = Samples.find([(stretches, SamplePiece(0, times, values))], chosen, -last, last, len(times) + 1)
    assert found is not None
    return found


_RAISED: dict[str, Callable[[Any], Any]] = {
    "enum": lambda content: _CLASSES[content[0]](content[1]),
    "duration": Duration,
    "bytes": base64.b64decode,
    "map": lambda content: {_raise(key): _raise(each) for key, each in content},
    "value": _raise_value,
    "batch": lambda content: _batch(content),
    "array": lambda content: _array(content),
    "scalar": lambda content: _array(content)[0],
    "type": lambda content: _array(content).type,
    "numpy": lambda content: _array(content).to_numpy(zero_copy_only=False),
    "expression": lambda content: _restore_expression(pa.py_buffer(base64.b64decode(content))),
    "samples": _raise_samples,
}


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _batch(content: str) -> pa.RecordBatch:
    return pa.ipc.open_stream(base64.b64decode(content)).read_next_batch()


def _array(content: str) -> pa.Array:
    return _batch(content).column(0)


class LoopbackReader:
    """A reader whose requests and answers travel."""

    calls: ClassVar[Counter[str]] = Counter()
    """How often each verb was used in this process."""

    def __init__(self, reader: RegionReader, check: Callable[[], None]) -> None:
        self._reader = reader
        self._check = check
        self.schema: RegionSchema = travel(reader.schema)
        self.sources: int = travel(reader.sources)

    def plan_scan(self, filter: RowFilter) -> PlannedScan:
        return self._call("plan_scan", self._reader.plan_scan, filter)

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        self.calls["scan"] += 1
        for batch in self._reader.scan(travel(request)):
            self._check()
            yield _batch(_text(_ipc(batch)))

    def bounds(self, filter: RowFilter) -> Bounds | None:
        return self._call("bounds", self._reader.bounds, filter)

    def plan_cells(self, request: CellsRequest, evaluate: Evaluate | None = None) -> PlannedCells:
        self.calls["plan_cells"] += 1
        self._check()

        def ask(number: int, tags: pa.RecordBatch) -> pa.Array:
            assert evaluate is not None
            self.calls["evaluate"] += 1
            return travel(evaluate(*travel((number, tags))))

        return travel(self._reader.plan_cells(travel(request), None if evaluate is None else ask))

    def cells(self, request: CellsRun) -> Aggregated:
        return self._call("cells", self._reader.cells, request)

    def series(self, request: SeriesRequest) -> SeriesRows:
        return self._call("series", self._reader.series, request)

    def list_series(self, filter: RowFilter, time_range: TimeRange) -> Sequence[pa.RecordBatch]:
        return self._call("list_series", self._reader.list_series, filter, time_range)

    def known_series(self, request: KnownSeriesRequest) -> KnownSeries | None:
        found = self._reader.known_series(travel(request))
        if found is not None and found.version == request.held:
            self.calls["held_series"] += 1
            found = KnownSeries(found.version, None)
        self.calls["known_series"] += 1
        return travel(found)

    def samples(self, request: SamplesRequest) -> Samples | None:
        return self._call("samples", self._reader.samples, request)

    def statistics(self) -> Mapping[str, int]:
        return self._call("statistics", self._reader.statistics)

    def release(self) -> None:
        self._reader.release()

    def _call(self, name: str, verb: Callable[..., T], *arguments: object) -> T:
        self.calls[name] += 1
        self._check()
        return travel(verb(*(travel(each) for each in arguments)))


def read_through_loopback(patch: pytest.MonkeyPatch) -> None:
    """Let every engine that is opened from now on give readers whose requests and answers travel."""
    open_local = Engine.open_reader

    def open_reader(
        engine: Engine,
        region_id: RegionId,
        *,
        timeout: Duration | None = None,
        view: MetricView | None = None,
        check: Callable[[], None] = no_check,
    ) -> LoopbackReader:
        reader = open_local(engine, travel(region_id), timeout=travel(timeout), view=travel(view))
        return LoopbackReader(reader, check)

    patch.setattr(Engine, "open_reader", open_reader)
    for name in ("schema", "stat", "files", "time_range"):
        verb = getattr(Engine, name)
        patch.setattr(Engine, name, lambda engine, region_id, verb=verb: travel(verb(engine, travel(region_id))))

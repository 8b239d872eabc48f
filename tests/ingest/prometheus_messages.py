"""The messages of Prometheus remote write and read, encoded and decoded by the library of Protocol Buffers.

The library gets the descriptions of the messages from here. Texts are declared as bytes, so that tests can send what is
not UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TYPES = {
    "double": 1,
    "int64": 3,
    "uint64": 4,
    "bytes": 12,
    "uint32": 13,
    "int32": 5,
    "sint32": 17,
    "sint64": 18,
}

_V1: dict[str, dict[str, tuple[int, str]]] = {
    "Label": {"name": (1, "bytes"), "value": (2, "bytes")},
    "Sample": {"value": (1, "double"), "timestamp": (2, "int64")},
    "Span": {"offset": (1, "sint32"), "length": (2, "uint32")},
    "Histogram": {
        "count_int": (1, "uint64"),
        "count_float": (2, "double"),
        "sum": (3, "double"),
        "schema": (4, "sint32"),
        "zero_threshold": (5, "double"),
        "zero_count_int": (6, "uint64"),
        "zero_count_float": (7, "double"),
        "negative_spans": (8, "*Span"),
        "negative_deltas": (9, "*sint64"),
        "negative_counts": (10, "*double"),
        "positive_spans": (11, "*Span"),
        "positive_deltas": (12, "*sint64"),
        "positive_counts": (13, "*double"),
        "reset_hint": (14, "int32"),
        "timestamp": (15, "int64"),
        "custom_values": (16, "*double"),
    },
    "Exemplar": {"labels": (1, "*Label"), "value": (2, "double"), "timestamp": (3, "int64")},
    "Metadata": {"type": (1, "int32"), "family": (2, "bytes"), "help": (4, "bytes"), "unit": (5, "bytes")},
    "TimeSeries": {
        "labels": (1, "*Label"),
        "samples": (2, "*Sample"),
        "exemplars": (3, "*Exemplar"),
        "histograms": (4, "*Histogram"),
    },
    "WriteRequest": {"timeseries": (1, "*TimeSeries"), "metadata": (3, "*Metadata")},
    "Matcher": {"type": (1, "int32"), "name": (2, "bytes"), "value": (3, "bytes")},
    "Query": {"start": (1, "int64"), "end": (2, "int64"), "matchers": (3, "*Matcher")},
    "ReadRequest": {"queries": (1, "*Query"), "accepted": (2, "*int32")},
    "QueryResult": {"timeseries": (1, "*TimeSeries")},
    "ReadResponse": {"results": (1, "*QueryResult")},
    "Metadata2": {"type": (1, "int32"), "help": (3, "uint32"), "unit": (4, "uint32")},
    "TimeSeries2": {
        "labels_refs": (1, "*uint32"),
        "samples": (2, "*Sample"),
        "histograms": (3, "*Histogram"),
        "exemplars": (4, "*Exemplar"),
        "metadata": (5, "Metadata2"),
    },
    "Request2": {"symbols": (4, "*bytes"), "timeseries": (5, "*TimeSeries2")},
}


def _describe() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="prometheus_for_tests.proto", package="t", syntax="proto3")
    for name, fields in _V1.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            element = kind.removeprefix("*")
            added = message.field.add(name=field, number=number, label=3 if kind.startswith("*") else 1)
            if element in _TYPES:
                added.type = _TYPES[element]
            else:
                added.type, added.type_name = 11, f".t.{element}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}")) for name in _V1}


messages: dict[str, Any] = _describe()

Series = tuple[Sequence[tuple[str | bytes, str | bytes]], Sequence[tuple[int, float]]]
"""Labels, and samples of time and value."""


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def write_request(series: Iterable[Series]) -> Any:
    """A message of version 1."""
    request = messages["WriteRequest"]()
    for labels, samples in series:
        added = request.timeseries.add()
        for name, value in labels:
            added.labels.add(name=_bytes(name), value=_bytes(value))
        for time, value in samples:
            added.samples.add(timestamp=time, value=value)
    return request


def write_request_v2(series: Iterable[Series]) -> Any:
    """A message of version 2."""
    request = messages["Request2"](symbols=[b""])
    symbols = {b"": 0}
    for labels, samples in series:
        added = request.timeseries.add()
        for pair in labels:
            for text in map(_bytes, pair):
                if text not in symbols:
                    symbols[text] = len(symbols)
                    request.symbols.append(text)
                added.labels_refs.append(symbols[text])
        for time, value in samples:
            added.samples.add(timestamp=time, value=value)
    return request


def read_request(*queries: tuple[int, int, Sequence[tuple[int, str, str]]], accepted: Sequence[int] = ()) -> bytes:
    """Queries of a start, an end and matchers (type, name, value)."""
    request = messages["ReadRequest"](accepted=list(accepted))
    for start, end, matchers in queries:
        query = request.queries.add(start=start, end=end)
        for kind, name, value in matchers:
            query.matchers.add(type=kind, name=name.encode(), value=value.encode())
    encoded: bytes = request.SerializeToString()
    return encoded


def read_results(response: bytes) -> list[list[tuple[dict[str, str], list[tuple[int, float]]]]]:
    """For each query its series: labels, in the order of the answer, and samples."""
    decoded = messages["ReadResponse"].FromString(response)
    return [
        [
            (
                {label.name.decode(): label.value.decode() for label in series.labels},
                [(sample.timestamp, sample.value) for sample in series.samples],
            )
            for series in result.timeseries
        ]
        for result in decoded.results
    ]

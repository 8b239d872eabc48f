r"""The bodies of case files: readable text in, the bytes of a protocol out, by steps.

The first step says what the text is:

    text              nothing but text
    hex               bytes, two digits each; spaces mean nothing
    prometheus_v1     up{job="a"} 1 1000 2 2000        a series, and pairs of value and time
    prometheus_v2     # TYPE up gauge                  what a metric says about itself; also HELP and UNIT
    message=Name      a message of `tests/ingest/prometheus_messages.py` as JSON, field by field; \u00ff is the byte ff
    otlp_metrics, otlp_traces, otlp_logs               the JSON form of OpenTelemetry's export requests

Every further one changes the bytes:

    snappy, zstd, gzip, deflate, br, framed            compressed; framed is snappy for files, which nobody should send
    cut=3             without the last three
    flip=3            with the third, from 0, turned into its opposite
    add=ff00          with more behind them
    prepend=ff00      with more before them
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.ingest.prometheus_messages import Series, messages, write_request, write_request_v2

TYPES = ("unknown", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset")

_SERIES = re.compile(r"(?P<name>[^{ ]*)(?:\{(?P<labels>.*)\})? (?P<points>.*)")
_LABEL = re.compile(r'\s*([^=,]*)="((?:[^"\\]|\\.)*)"\s*,?')


def make_body(text: str, steps: Sequence[str]) -> bytes:
    """Make the bytes of a body."""
    form, _, argument = steps[0].partition("=")
    body = _FORMS[form](text, argument)
    for step in steps[1:]:
        name, _, argument = step.partition("=")
        body = _CHANGES[name](body, argument)
    return body


def _prometheus_v1(text: str, _: str) -> bytes:
    request = write_request(_series(text))
    for metric, said in _described(text).items():
        kind = TYPES.index(said.get("TYPE", "unknown"))
        help, unit = (said.get(key, "").encode() for key in ("HELP", "UNIT"))
        request.metadata.add(type=kind, family=metric.encode(), help=help, unit=unit)
    encoded: bytes = request.SerializeToString()
    return encoded


def _prometheus_v2(text: str, _: str) -> bytes:
    series = list(_series(text))
    request = write_request_v2(series)
    described = _described(text)
    for (labels, _points), added in zip(series, request.timeseries, strict=True):
        name = str(dict(labels).get("__name__", ""))
        if name not in described:
            continue
        said = described[name]
        added.metadata.type = TYPES.index(said.get("TYPE", "unknown"))
        for key, field in (("HELP", "help"), ("UNIT", "unit")):
            if key in said:
                request.symbols.append(said[key].encode())
                setattr(added.metadata, field, len(request.symbols) - 1)
    encoded: bytes = request.SerializeToString()
    return encoded


def _series(text: str) -> Iterator[Series]:
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        found = _SERIES.fullmatch(line)
        assert found is not None, line
        labels = [(name, json.loads(f'"{value}"')) for name, value in _LABEL.findall(found["labels"] or "")]
        numbers = found["points"].split()
        points = [(int(time), float(value)) for value, time in zip(numbers[::2], numbers[1::2], strict=True)]
        yield ([("__name__", found["name"])] if found["name"] else []) + labels, points


def _described(text: str) -> dict[str, dict[str, str]]:
    described: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if line.startswith("# "):
            what, metric, said = line[2:].split(" ", 2)
            described.setdefault(metric, {})[what] = said
    return described


def _message(text: str, name: str) -> bytes:
    message = messages[name]()
    _fill(message, json.loads(text))
    encoded: bytes = message.SerializeToString()
    return encoded


def _fill(message: Any, value: dict[str, Any]) -> None:
    for field, content in value.items():
        if isinstance(content, dict):
            _fill(getattr(message, field), content)
        elif not isinstance(content, list):
            setattr(message, field, _plain(content))
        else:
            for each in content:
                if isinstance(each, dict):
                    _fill(getattr(message, field).add(), each)
                else:
                    getattr(message, field).append(_plain(each))


def _plain(value: Any) -> Any:
    return value.encode("latin-1") if isinstance(value, str) else value


def _otlp(kind: type[Any]) -> Callable[[str, str], bytes]:
    def make(text: str, _: str) -> bytes:
        encoded: bytes = json_format.Parse(text, kind()).SerializeToString()
        return encoded

    return make


def _compress(codec: str) -> Callable[[bytes, str], bytes]:
    def compress(body: bytes, _: str) -> bytes:
        packed: bytes = pa.compress(body, codec=codec, asbytes=True)
        return packed

    return compress


def _flip(body: bytes, at: str) -> bytes:
    changed = bytearray(body)
    changed[int(at)] ^= 0xFF
    return bytes(changed)


def _framed(body: bytes, _: str) -> bytes:
    """The stream format of snappy: a frame that names it, and one uncompressed chunk."""
    length = (len(body) + 4).to_bytes(3, "little")
    return b"\xff\x06\x00\x00sNaPpY\x01" + length + b"\x00\x00\x00\x00" + body


_FORMS: dict[str, Callable[[str, str], bytes]] = {
    "text": lambda text, _: text.encode(),
    "hex": lambda text, _: bytes.fromhex(text),
    "prometheus_v1": _prometheus_v1,
    "prometheus_v2": _prometheus_v2,
    "message": _message,
    "otlp_metrics": _otlp(ExportMetricsServiceRequest),
    "otlp_traces": _otlp(ExportTraceServiceRequest),
    "otlp_logs": _otlp(ExportLogsServiceRequest),
}
_CHANGES: dict[str, Callable[[bytes, str], bytes]] = {
    "snappy": _compress("snappy"),
    "zstd": _compress("zstd"),
    "br": _compress("brotli"),
    "gzip": lambda body, _: gzip.compress(body, mtime=0),
    "deflate": lambda body, _: zlib.compress(body),
    "framed": _framed,
    "cut": lambda body, count: body[: len(body) - int(count)],
    "flip": _flip,
    "add": lambda body, more: body + bytes.fromhex(more),
    "prepend": lambda body, more: bytes.fromhex(more) + body,
}

"""Attribute values of OpenTelemetry as Python values, as text, and as JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import orjson
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tsdb.errors import InvalidArguments

DEPTH_MAX = 32
"""How deep values may hold values."""

Value: TypeAlias = str | bool | int | float | bytes | list["Value"] | dict[str, "Value"] | None


def to_value(value: AnyValue, depth: int = 0) -> Value:
    """Return the Python value; None for one that is not set."""
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind == "int_value":
        return value.int_value
    if kind == "double_value":
        return value.double_value
    if kind == "bool_value":
        return value.bool_value
    if kind == "bytes_value":
        return value.bytes_value
    if depth >= DEPTH_MAX:
        raise InvalidArguments(f"an attribute is nested more than {DEPTH_MAX} deep")
    if kind == "array_value":
        return [to_value(each, depth + 1) for each in value.array_value.values]
    if kind == "kvlist_value":
        return {each.key: to_value(each.value, depth + 1) for each in value.kvlist_value.values}
    return None


def to_text(value: Value) -> str:
    """Return a value as a label shows it: texts as they are, everything else as JSON."""
    return value if isinstance(value, str) else to_json(value)


def to_json(value: Value | Mapping[str, Value]) -> str:
    """Return a value as JSON; bytes are in base64, numbers that JSON cannot say are null."""
    return orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS).decode()


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(type(value).__name__)


def attributes(pairs: Iterable[KeyValue]) -> dict[str, Value]:
    """Return attributes by name, without those that have no value."""
    found = {pair.key: to_value(pair.value) for pair in pairs}
    return {name: value for name, value in found.items() if name and value is not None}

"""Functions on JSON, which travels as compact text with sorted keys.

Every distinct document is parsed once per call. Text that is not JSON has no values: getters give null and tests give
false; only `parse_json` and `json_to_string`, which promise JSON, refuse it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa

from tsdb.errors import Reason
from tsdb.query.functions._define import (
    JSON,
    STRING,
    Function,
    FunctionError,
    by_distinct,
    function,
    map_distinct,
    map_list,
    map_rows,
)
from tsdb.query.functions._json_path import MISSING, Path, PathError, parse_path
from tsdb.sql.function_names import ARGUMENTS_MAX

_SHOWN_MAX = 60
"""How much of a wrong text an error shows."""
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1


def to_text(value: Any) -> str:
    """Return a JSON value as compact text with sorted keys."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:
        raise FunctionError("the JSON value is nested too deeply", reason=Reason.INVALID_JSON) from None
    if "\u2028" in text or "\u2029" in text:
        # Line ends in JavaScript, where such text is often pasted.
        text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return text


def _parse(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return MISSING


def _canonical(text: str) -> str:
    try:
        return to_text(orjson.loads(text))
    except orjson.JSONDecodeError as error:
        shown = text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"
        raise FunctionError(f"Failed to parse JSON {shown!r}: {error}", reason=Reason.INVALID_JSON) from None


@function("parse_json", [STRING], JSON)
def parse_json(text: pa.Array) -> pa.Array:
    return map_distinct(text, STRING, _canonical)


@function("json_to_string", [STRING], STRING)
def json_to_string(document: pa.Array) -> pa.Array:
    return map_distinct(document, STRING, _canonical)


def as_string(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return to_text(value) if isinstance(value, bool | int | float) else None


def as_int(value: Any) -> int | None:
    if isinstance(value, bool | int):
        return int(value) if _INT_MIN <= value <= _INT_MAX else None
    if isinstance(value, float):
        return int(value) if _INT_MIN <= value <= _INT_MAX else None
    return None


def as_float(value: Any) -> float | None:
    return float(value) if isinstance(value, bool | int | float) else None


def as_bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def as_object(value: Any) -> str | None:
    return to_text(value) if isinstance(value, dict) else None


def as_any(value: Any) -> str | None:
    return to_text(value) if isinstance(value, dict | list) else as_string(value)


def _getter(name: str, result: pa.DataType | pa.Field, convert: Callable[[Any], Any]) -> Function:
    kind = result.type if isinstance(result, pa.Field) else result

    def get(documents: pa.Array, text: str) -> pa.Array:
        try:
            path = parse_path(text)
        except PathError:
            return pa.nulls(len(documents), kind)
        if path.keys is not None:
            keys = path.keys
            return map_list(documents, kind, lambda texts: _get_members(texts, keys, convert))
        first = path.first
        return map_distinct(documents, kind, lambda document: convert(first(_parse(document))))

    return Function(name, (STRING, STRING), result, lambda documents, paths: by_distinct(documents, paths, kind, get))


def _get_members(texts: list[str | None], keys: tuple[str, ...], convert: Callable[[Any], Any]) -> list[Any]:
    """The plain case in one loop: of 200 000 documents, calls per document would take half of the time."""
    values: list[Any] = []
    for text in texts:
        value = None if text is None else _parse(text)
        for key in keys:
            if type(value) is not dict or key not in value:
                value = None
                break
            value = value[key]
        values.append(None if value is None else convert(value))
    return values


def _is(name: str, test: Callable[[Any], bool]) -> Function:
    def matches(documents: pa.Array) -> pa.Array:
        return map_distinct(documents, pa.bool_(), lambda document: test(_parse(document)))

    return Function(name, (STRING,), pa.bool_(), matches)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TESTS = [
    _is("json_is_null", lambda value: value is None),
    _is("json_is_bool", lambda value: isinstance(value, bool)),
    _is("json_is_int", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    _is("json_is_float", _is_number),
    _is("json_is_string", lambda value: isinstance(value, str)),
    _is("json_is_array", lambda value: isinstance(value, list)),
    _is("json_is_object", lambda value: isinstance(value, dict)),
]

_GETTERS = [
    _getter("json_get", STRING, as_any),
    _getter("json_get_string", STRING, as_string),
    _getter("json_get_int", pa.int64(), as_int),
    _getter("json_get_float", pa.float64(), as_float),
    _getter("json_get_bool", pa.bool_(), as_bool),
    _getter("json_get_object", JSON, as_object),
]


@function("json_path_exists", [STRING, STRING], pa.bool_())
def json_path_exists(document: pa.Array, path: pa.Array) -> pa.Array:
    def matches(documents: pa.Array, text: str) -> pa.Array:
        first = _path("json_path_exists", text).first

        def exists(document: str) -> bool:
            value = _parse(document)
            return value is not MISSING and first(value) is not MISSING

        return map_distinct(documents, pa.bool_(), exists)

    return by_distinct(document, path, pa.bool_(), matches)


@function("json_path_match", [STRING, STRING], pa.bool_())
def json_path_match(document: pa.Array, path: pa.Array) -> pa.Array:
    def matches(documents: pa.Array, text: str) -> pa.Array:
        predicate = _path("json_path_match", text).predicate
        if predicate is None:
            return pa.nulls(len(documents), pa.bool_())

        def match(document: str) -> bool | None:
            value = _parse(document)
            return None if value is MISSING else predicate(value)

        return map_distinct(documents, pa.bool_(), match)

    return by_distinct(document, path, pa.bool_(), matches)


def _path(name: str, text: str) -> Path:
    try:
        return parse_path(text)
    except PathError as error:
        raise FunctionError(f"{name}() got a text that is not a JSON path: {error}") from None


@function("json_object_keys", [STRING], pa.list_(STRING))
def json_object_keys(document: pa.Array) -> pa.Array:
    def keys(document: str) -> list[str] | None:
        value = _parse(document)
        return sorted(value) if isinstance(value, dict) else None

    return map_distinct(document, pa.list_(STRING), keys)


def _json_object(*arguments: pa.Array) -> pa.Array:
    """Keys, types of values and values in turn; a null value is JSON null, a null key is an error."""
    if not arguments:
        return pa.array(["{}"])
    if any(keys.null_count for keys in arguments[::3]):
        raise FunctionError("json_object() needs keys that are not NULL")

    def build(*row: Any) -> str:
        members = zip(row[::3], row[1::3], row[2::3], strict=True)
        return to_text({key: _value(kind, text) for key, kind, text in members})

    return map_rows(STRING, build, *arguments, is_null_passed=True)


def _value(kind: str, text: str | None) -> Any:
    if text is None:
        return None
    if kind == "json":
        return _parse(text)
    if kind == "Boolean":
        return text == "true"
    if kind.startswith(("Int", "UInt")):
        return int(text)
    if kind.startswith(("Float", "Decimal")):
        return float(text)
    return text


_OBJECTS = [
    Function(f"json_object__{count}", (STRING,) * (count // 2 * 3), JSON, _json_object)
    for count in range(0, ARGUMENTS_MAX, 2)
]

FUNCTIONS = [
    parse_json,
    json_to_string,
    json_path_exists,
    json_path_match,
    json_object_keys,
    *_GETTERS,
    *_TESTS,
    *_OBJECTS,
]

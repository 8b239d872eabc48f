"""Names of functions: how a call in the user's text becomes a call the query engine can plan.

The query engine knows a function of ours under one name with one list of types. What users write is freer, so three
tables define how a call is rewritten, by its name and its argument texts:

    RENAMES      another name for the same function             ucase(x)        upper(x)
    OVERLOADS    an inner name for a number of arguments        locate(a,b,1)   locate__3(a,b,1)
    EXPANSIONS   another text, where the type of the result     mod(a,b)        coalesce(coalesce(a) % coalesce(b))
                 depends on the arguments

Every rewritten call leaves a mark that users do not write themselves: an inner name with `__`, a CASE that calls such a
function first, or `coalesce` of a single argument. `tsdb.sql.function_headers` finds the marks in the name the query
engine gives a result column and puts back what the user wrote. Aggregates have a table of their own, in
`tsdb.sql.aggregate_calls`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tsdb.sql.aggregate_calls import WINDOWS

ARGUMENTS_MAX = 33
"""Most arguments of a function that takes any number of them."""

RENAMES: dict[str, str] = {
    "ucase": "upper",
    "lcase": "lower",
    "ceiling": "ceil",
    "sign": "signum",
    "mid": "substr",
    "rand": "random",
    "std": "stddev_pop",
    "variance": "var_pop",
    "schema": "database",
    "inet_ntoa": "ipv4_num_to_string",
    "inet_aton": "ipv4_string_to_num",
    "inet6_ntoa": "ipv6_num_to_string",
    "inet6_aton": "ipv6_string_to_num",
}

OVERLOADS: dict[str, dict[int, str]] = {
    "locate": {3: "locate__3"},
    "elt": {count: f"elt__{count}" for count in range(2, ARGUMENTS_MAX + 1)},
    "field": {count: f"field__{count}" for count in range(2, ARGUMENTS_MAX + 1)},
    "ipv4_to_cidr": {2: "ipv4_to_cidr__2"},
    "ipv6_to_cidr": {2: "ipv6_to_cidr__2"},
    # Without brackets these are words of the language; with them some dialects cannot read them.
    "session_user": {0: "session_user__0"},
    "current_user": {0: "current_user__0"},
    "user": {0: "user__0"},
}

_STRING = re.compile(r"\s*'(?:[^']|'')*'\s*")
_JSON_CALL = re.compile(r"\s*(?:parse_json|json_object(?:__\d+)?|json_get_object)\s*\(", re.IGNORECASE)
_TYPED_NULL = re.compile(r"\s*(?:null\s*::\s*(\w+)|cast\s*\(\s*null\s+as\s+(\w+)\s*\))\s*", re.IGNORECASE)
_ARROW_NULL = re.compile(r"\s*arrow_cast\s*\(\s*null\s*,\s*'(\w+)'\s*\)\s*", re.IGNORECASE)

# How a short unit of an interval is written out; months come before minutes because `m` begins both.
_INTERVAL_TERM = re.compile(
    r"([+-]?\d+(?:\.\d+)?)(years?|y|months?|mons?|weeks?|w|days?|d|hours?|h|millis(?:econds?)?|"
    r"ms|minutes?|mins?|m|seconds?|secs?|s|micros(?:econds?)?|us|nanos(?:econds?)?|ns)",
    re.IGNORECASE,
)
_INTERVAL_UNITS = {
    "y": "years", "mon": "months", "mons": "months", "w": "weeks", "d": "days", "h": "hours", "m": "minutes",
    "s": "seconds", "ms": "milliseconds", "millis": "milliseconds", "us": "microseconds", "micros": "microseconds",
    "ns": "nanoseconds", "nanos": "nanoseconds",
}  # fmt: skip


def _is_string(text: str) -> bool:
    return _STRING.fullmatch(text) is not None


def _if(arguments: list[str]) -> str | None:
    if len(arguments) != 3:
        return None
    condition, then, otherwise = arguments
    return f"CASE WHEN if__test(CAST({condition} AS BOOLEAN)) THEN {then} ELSE {otherwise} END"


def _between(operator: str) -> Callable[[list[str]], str | None]:
    def expand(arguments: list[str]) -> str | None:
        if len(arguments) != 2:
            return None
        left, right = arguments
        return f"coalesce(coalesce({left}) {operator} coalesce({right}))"

    return expand


def _shift(operator: str) -> Callable[[list[str]], str | None]:
    """date_add and date_sub: the time may be a literal, the interval may be text."""

    def expand(arguments: list[str]) -> str | None:
        if len(arguments) != 2:
            return None
        time, interval = arguments
        if _is_string(time):
            time = f"arrow_cast({time}, 'Timestamp(ms)')"
        return f"coalesce(coalesce({time}) {operator} coalesce(CAST({spell_interval(interval)} AS INTERVAL)))"

    return expand


def spell_interval(text: str) -> str:
    """Write `'1y2mon'` as `'1 years 2 months'`; any other text stays as it is."""
    if not _is_string(text) or " " in text.strip():
        return text
    body = text.strip()[1:-1]
    terms = _INTERVAL_TERM.findall(body)
    if "".join(number + unit for number, unit in terms) != body or not terms:
        return text
    words = (f"{number} {_INTERVAL_UNITS.get(unit.lower(), unit)}" for number, unit in terms)
    return "'" + " ".join(words) + "'"


def _clamp(arguments: list[str]) -> str | None:
    if len(arguments) != 3:
        return None
    value, low, high = arguments
    return (
        f"CASE WHEN clamp__test({low}, {high}, {_is_null(low)} OR {_is_null(high)}) THEN NULL "
        f"WHEN ({value}) < ({low}) THEN {low} WHEN ({value}) > ({high}) THEN {high} ELSE {value} END"
    )


def _clamp_to(name: str, operator: str) -> Callable[[list[str]], str | None]:
    def expand(arguments: list[str]) -> str | None:
        if len(arguments) != 2:
            return None
        value, bound = arguments
        return (
            f"CASE WHEN {name}__test({bound}, {_is_null(bound)}) THEN NULL "
            f"WHEN ({value}) {operator} ({bound}) THEN {bound} ELSE {value} END"
        )

    return expand


def _is_null(text: str) -> str:
    return "true" if text.strip().upper() == "NULL" else "false"


def _isnull(arguments: list[str]) -> str | None:
    return f"(coalesce({arguments[0]}) IS NULL)" if len(arguments) == 1 else None


def _to_unixtime(arguments: list[str]) -> str | None:
    if len(arguments) != 1:
        return None
    (value,) = arguments
    return f"to_unixtime__text({value})" if _is_string(value) else f"to_unixtime__any(arrow_typeof({value}), {value})"


def _count_hash(arguments: list[str]) -> str | None:
    return f"count(DISTINCT {arguments[0]})" if len(arguments) == 1 else None


_JSON_GETTERS = {
    **dict.fromkeys(("string", "varchar", "text", "utf8"), "json_get_string"),
    **dict.fromkeys(("tinyint", "smallint", "int", "integer", "bigint"), "json_get_int"),
    **dict.fromkeys(("int8", "int16", "int32", "int64"), "json_get_int"),
    **dict.fromkeys(("float", "double", "real", "float32", "float64"), "json_get_float"),
    **dict.fromkeys(("bool", "boolean"), "json_get_bool"),
    "json": "json_get_object",
}  # fmt: skip


def _json_get(arguments: list[str]) -> str | None:
    """With a typed NULL behind the path the value comes in that type."""
    if len(arguments) != 3:
        return None
    match = _TYPED_NULL.fullmatch(arguments[2]) or _ARROW_NULL.fullmatch(arguments[2])
    getter = _JSON_GETTERS.get(next(filter(None, match.groups())).lower()) if match else None
    return f"{getter}({arguments[0]}, {arguments[1]})" if getter else None


def _json_object(arguments: list[str]) -> str | None:
    """Each value goes with the name of its type: a number stays a number. JSON values are known by their call."""
    if len(arguments) % 2 or len(arguments) > ARGUMENTS_MAX:
        return None
    parts: list[str] = []
    for key, value in zip(arguments[::2], arguments[1::2], strict=True):
        kind = "'json'" if _JSON_CALL.match(value) else f"arrow_typeof({value})"
        parts += [key, kind, value]
    return f"json_object__{len(arguments)}({', '.join(parts)})"


_NUMBER_LITERAL = re.compile(r"\s*[+-]?[\d.][\d.eE+-]*\s*")

# Which arguments of a function are vectors (v); numbers (n) stay as they are.
_VECTOR_CALLS = {
    **dict.fromkeys(("vec_to_string", "vec_dim", "vec_norm", "vec_elem_sum", "vec_elem_avg", "vec_elem_product"), "v"),
    **dict.fromkeys(("vec_add", "vec_sub", "vec_mul", "vec_div"), "vv"),
    **dict.fromkeys(("vec_cos_distance", "vec_l2sq_distance", "vec_dot_product"), "vv"),
    **dict.fromkeys(("vec_scalar_add", "vec_scalar_mul"), "nv"),
    "vec_kth_elem": "vn",
    "vec_subvector": "vnn",
}


def _with_vectors(name: str, kinds: str) -> Callable[[list[str]], str | None]:
    """A vector may be text as well: both are cast to bytes, which does not show in headers."""

    def expand(arguments: list[str]) -> str | None:
        if len(arguments) != len(kinds):
            return None
        parts = [_bytes_of(each) if kind == "v" else each for each, kind in zip(arguments, kinds, strict=True)]
        return f"{name}({', '.join(parts)})"

    return expand


def _bytes_of(text: str) -> str:
    """A number is no vector; taken as text, the function says so."""
    return f"CAST('{text}' AS BYTEA)" if _NUMBER_LITERAL.fullmatch(text) else f"CAST({text} AS BYTEA)"


def _cells_contains(arguments: list[str]) -> str | None:
    """Cells may be a list or a text."""
    return f"h3_cells_contains(CAST({arguments[0]} AS STRING), {arguments[1]})" if len(arguments) == 2 else None


EXPANSIONS: dict[str, Callable[[list[str]], str | None]] = {
    "if": _if,
    "mod": _between("%"),
    "date_add": _shift("+"),
    "date_sub": _shift("-"),
    "clamp": _clamp,
    "clamp_min": _clamp_to("clamp_min", "<"),
    "clamp_max": _clamp_to("clamp_max", ">"),
    "isnull": _isnull,
    "to_unixtime": _to_unixtime,
    "count_hash": _count_hash,
    "json_get": _json_get,
    "json_object": _json_object,
    "h3_cells_contains": _cells_contains,
    **{name: _with_vectors(name, kinds) for name, kinds in _VECTOR_CALLS.items()},
}

INNER_NAMES = frozenset(inner for by_count in OVERLOADS.values() for inner in by_count.values()) | {
    "to_unixtime__text",
    "to_unixtime__any",
    *(f"json_object__{count}" for count in range(0, ARGUMENTS_MAX, 2)),
    *(f"{name}__frame" for name in WINDOWS),
}
"""Names of functions that stand for another one with the same arguments, or some added."""

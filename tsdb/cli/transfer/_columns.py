"""Columns of text as columns of a type; what cannot be read is marked, not guessed."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.errors import InvalidArguments
from tsdb.model import DataType, InvalidTimestamp, Kind, cast_or_null, instants_of

Mask = npt.NDArray[np.bool_]

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_WITHOUT_ZONE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ Tt][0-9:]+(\.[0-9]+)?)?$"
_ISO = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([ Tt][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?( ?(Z|z|UTC|[+-][0-9]{2}:?[0-9]{2}))?)?$"
)
_WITHOUT_SECONDS = r"^([0-9]{4}-[0-9]{2}-[0-9]{2}[ Tt][0-9]{2}:[0-9]{2})( ?(?:Z|z|UTC|[+-][0-9]{2}:?[0-9]{2}))?$"
_DATE_ONLY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_INTEGER = r"^[+-]?[0-9]{1,18}$"
_BOOLEAN = r"(?i)^(true|false)$"
_FLOAT = r"(?i)^[+-]?(nan|inf|infinity|([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?)$"
_HEX = r"^0x([0-9a-fA-F]{2})*$"


@dataclass(frozen=True)
class TimeReading:
    """How times are written in a source."""

    format: str = "auto"
    """`auto` for ISO 8601, `s`, `ms`, `us`, `ns` for numbers, or a format of strptime."""
    zone: str = "UTC"
    """The zone of times that do not name one."""

    @property
    def unit(self) -> str | None:
        return self.format if self.format in _PER_SECOND else None


def read_column(texts: pa.Array, kind: DataType, times: TimeReading) -> tuple[pa.Array, Mask]:
    """Return the values, and which of them are texts that are no value of the type."""
    if kind.is_timestamp:
        values = read_times(texts, kind.arrow.unit, times)
    elif kind.kind is Kind.STRING:
        values = texts
    elif kind.kind is Kind.JSON:
        values = _read_json(texts)
    elif kind.kind is Kind.BINARY:
        values = _read_binary(texts)
    elif kind.kind is Kind.VECTOR:
        raise InvalidArguments("vectors cannot be imported from text", hint="use Parquet")
    else:
        values = cast_or_null(texts, kind.arrow)
    is_bad = pc.and_(pc.is_valid(texts), pc.is_null(values))
    return values, is_bad.to_numpy(zero_copy_only=False).astype(np.bool_)


def read_times(texts: pa.Array, unit: str, times: TimeReading) -> pa.Array:
    """Return times in a unit, rounded down; null where a text is none."""
    if times.unit is not None:
        return _of_numbers(texts, times.unit, unit)
    if times.format != "auto":
        parsed = pc.strptime(texts, times.format, unit=unit, error_is_null=True)
        return _from_zone(parsed, times.zone)
    values = cast_or_null(texts, pa.timestamp(unit))
    if values.null_count > texts.null_count:
        whole = pc.replace_substring_regex(texts, _WITHOUT_SECONDS, r"\1:00\2")
        values = cast_or_null(whole, pa.timestamp(unit))
    if times.zone == "UTC":
        return values
    is_naive = pc.match_substring_regex(texts, _WITHOUT_ZONE)
    return pc.if_else(is_naive, _from_zone(values, times.zone), values)


def _from_zone(values: pa.Array, zone: str) -> pa.Array:
    try:
        return values if zone == "UTC" else instants_of(values, zone)
    except InvalidTimestamp as error:
        raise InvalidArguments(str(error)) from error


def _of_numbers(texts: pa.Array, have: str, wanted: str) -> pa.Array:
    """Times as counts of a unit, fractions included: 1700000000.25 seconds."""
    counts = cast_or_null(texts, pa.int64())
    if pc.sum(pc.and_(pc.is_valid(texts), pc.is_null(counts))).as_py():
        return _of_fractions(texts, have, wanted)
    factor = _PER_SECOND[wanted] / _PER_SECOND[have]
    if factor >= 1:
        whole = _multiply_or_null(counts, int(factor))
    else:
        numbers = counts.fill_null(0).to_numpy(zero_copy_only=False) // round(1 / factor)
        whole = pc.if_else(pc.is_null(counts), None, pa.array(numbers, pa.int64()))
    return whole.cast(pa.timestamp(wanted))


def _multiply_or_null(counts: pa.Array, factor: int) -> pa.Array:
    limit = (2**63 - 1) // factor
    fits = pc.and_(pc.less_equal(counts, limit), pc.greater_equal(counts, -limit))
    return pc.if_else(fits, pc.multiply(counts, factor), pa.scalar(None, pa.int64()))


def _of_fractions(texts: pa.Array, have: str, wanted: str) -> pa.Array:
    """Exact, digit by digit: a float has too few of them for nanoseconds."""
    factor = Decimal(_PER_SECOND[wanted]) / Decimal(_PER_SECOND[have])
    found: list[int | None] = []
    for text in texts.to_pylist():
        try:
            count = None if text is None else int((Decimal(text) * factor).__floor__())
        except (ArithmeticError, ValueError):
            count = None
        found.append(count if count is not None and -(2**63) <= count < 2**63 else None)
    return pa.array(found, pa.int64()).cast(pa.timestamp(wanted))


def _read_json(texts: pa.Array) -> pa.Array:
    def is_json(text: str) -> bool:
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError:
            return False
        return True

    return pa.array([text if text is not None and is_json(text) else None for text in texts.to_pylist()], pa.string())


def _read_binary(texts: pa.Array) -> pa.Array:
    is_hex = pc.match_substring_regex(texts, _HEX)
    pairs = zip(texts.to_pylist(), is_hex.to_pylist(), strict=True)
    return pa.array([bytes.fromhex(text[2:]) if fits else None for text, fits in pairs], pa.binary())


def infer_type(texts: pa.Array, times: TimeReading) -> DataType:
    """Return the narrowest type that all texts of a sample have; a column without values is of strings."""
    known = texts.drop_null()
    if not len(known):
        return DataType(Kind.STRING)
    for pattern, kind in ((_BOOLEAN, Kind.BOOLEAN), (_INTEGER, Kind.INT64), (_FLOAT, Kind.FLOAT64)):
        if _all_match(known, pattern):
            return DataType(kind)
    if _all_match(known, _DATE_ONLY):
        return DataType(Kind.DATE)
    return time_type(times) if times.unit is None and _all_match(known, _ISO) else DataType(Kind.STRING)


def time_type(times: TimeReading, *, has_fractions: bool = False) -> DataType:
    """The type of times: that of their unit; nanoseconds for text and fractions, which may have many digits."""
    kinds = {
        "s": Kind.TIMESTAMP_SECOND,
        "ms": Kind.TIMESTAMP_MILLISECOND,
        "us": Kind.TIMESTAMP_MICROSECOND,
        "ns": Kind.TIMESTAMP_NANOSECOND,
    }
    return DataType(kinds["ns" if has_fractions else times.unit or "ns"])


def _all_match(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())

"""Parses columns of text as timestamps: the common formats by a kernel, all others once per distinct text."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from tsdb.model._offsets import instants_of
from tsdb.model._zone import InvalidTimestamp, canonical_zone, check_range, parse_timestamp, to_unit

_CANONICAL = r"^[12]\d{3}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,9})?Z?$"


def parse_timestamps(values: pa.Array, unit: str, zone: str = "UTC") -> pa.Array:
    """Read a column of text as timestamps of a unit; digits alone are counts of that unit."""
    kind = pa.timestamp(unit)
    if _are_canonical(values):
        is_utc = canonical_zone(zone) == "UTC" or _all(pc.ends_with(values, "Z"))
        plain = pc.replace_substring_regex(values, "Z$", "") if is_utc else values
        try:
            times = floor_to_unit(plain.cast(pa.timestamp("ns")), unit)
            return times if is_utc else instants_of(times, zone)
        except (pa.ArrowInvalid, InvalidTimestamp):
            # Beyond what nanoseconds hold, no such day, a zone in the text: one by one, with an error that says which.
            pass
    encoded = values.dictionary_encode()
    parsed = [_count_in(text, unit, zone) for text in encoded.dictionary.to_pylist()]
    return pa.array(parsed, pa.int64()).take(encoded.indices).cast(kind)


def floor_to_unit(times: pa.Array | pa.ChunkedArray, unit: str) -> pa.Array | pa.ChunkedArray:
    """Return timestamps in a unit, rounded down where it is a coarser one."""
    return pc.floor_temporal(times, unit=_UNIT_WORDS[unit]).cast(pa.timestamp(unit))


_UNIT_WORDS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
_DIGITS = re.compile(r"\s*[+-]?\d+\s*")


def _are_canonical(values: pa.Array) -> bool:
    return _all(pc.match_substring_regex(values, _CANONICAL))


def _all(matches: pa.Array) -> bool:
    return bool(pc.all(matches, min_count=0).as_py())


def _count_in(text: str, unit: str, zone: str) -> int:
    if _DIGITS.fullmatch(text):
        value = int(text)
        check_range(value, unit)
        return value
    return to_unit(parse_timestamp(text, zone), unit)

"""Converts between instants and the local times of a zone, a column at a time.

A zone is a table: the instants at which its offset from UTC changes, and the offset from then on. It is read from the
same files as `zoneinfo` reads. Behind the last change in the file a rule goes on without an end; it repeats with the
400 years of the Gregorian calendar, so the table holds one such cycle of it and later instants are looked up there.
pyarrow's own functions of zones end in 2037 with the files.

A local time that a clock set back shows twice is the earlier one. One that a clock set forward leaves out is read with
the offset before the change, as PostgreSQL does, or is the instant of the change where a calendar unit begins.
"""

from __future__ import annotations

import importlib.resources
import struct
import zoneinfo
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.model._zone import NS_PER_UNIT, InvalidTimestamp, canonical_zone, zone_of

Integers: TypeAlias = npt.NDArray[np.int64]

_CYCLE_S = 146_097 * 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEP = timedelta(days=28)
_HEADER = struct.Struct(">4s1s15x6L")
_FIRST = np.iinfo(np.int64).min
ZONES_MAX = 64
"""How many zones are kept; one takes up to 20 kB."""


class ZoneOffsets:
    """The offsets of one zone, in seconds."""

    def __init__(self, starts: Integers, offsets: Integers, *, repeats: bool = False) -> None:
        self._starts = starts
        self._offsets = offsets
        self._end = int(starts[-1]) if repeats else None
        """Instants from here on are looked up so many cycles before."""
        # Where local times begin to be those of an offset: the later of what both sides of a change show,
        # so that a time shown twice belongs to the offset before it, and one left out as well.
        changes = starts[1:]
        self._local = np.concatenate(([_FIRST], changes + np.maximum(offsets[1:], offsets[:-1])))

    @property
    def fixed(self) -> int | None:
        """The offset of a zone that never changes it."""
        return int(self._offsets[0]) if len(self._offsets) == 1 else None

    def at(self, seconds: Integers) -> Integers:
        """Return the offsets at instants."""
        if len(self._offsets) == 1:
            return np.full(seconds.shape, self._offsets[0], np.int64)
        found = self._offsets[np.searchsorted(self._starts, self._folded(seconds), side="right") - 1]
        return np.asarray(found, np.int64)

    def between(self, start: int, end: int) -> frozenset[int]:
        """Return every offset in use from one instant to another."""
        if self._end is not None and end >= self._end:
            return frozenset(self._offsets.tolist()) if end - start > _CYCLE_S or start < self._end else self._rule
        first, last = np.searchsorted(self._starts, [max(start, _FIRST), end], side="right") - 1
        return frozenset(self._offsets[max(first, 0) : last + 1].tolist())

    @property
    def _rule(self) -> frozenset[int]:
        return frozenset(self._offsets[-800:].tolist())

    def instants(self, local: Integers, *, is_start: bool = False) -> Integers:
        """Return the instants at which clocks show local times.

        `is_start`: a time left out stands for the first one behind it, the start of an hour or a day.
        """
        if len(self._offsets) == 1:
            return np.asarray(local - self._offsets[0], np.int64)
        folded = self._folded(local)
        places = np.searchsorted(self._local, folded, side="right") - 1
        found = folded - self._offsets[places]
        if is_start:
            following = np.minimum(places + 1, len(self._starts) - 1)
            found = np.where(following > places, np.minimum(found, self._starts[following]), found)
        return np.asarray(found + (local - folded), np.int64)

    def _folded(self, seconds: Integers) -> Integers:
        if self._end is None:
            return seconds
        limit = self._end - 2 * 86_400
        beyond = seconds >= limit
        if not beyond.any():
            return seconds
        return np.asarray(np.where(beyond, (seconds - limit) % _CYCLE_S + limit - _CYCLE_S, seconds), np.int64)


@lru_cache(ZONES_MAX)
def offsets_of(zone: str) -> ZoneOffsets:
    """Return the offsets of a zone by its name."""
    name, known = canonical_zone(zone), zone_of(zone)
    fixed = known.utcoffset(None)
    if fixed is not None:
        return ZoneOffsets(np.array([_FIRST]), np.array([fixed // timedelta(seconds=1)]))
    starts, offsets, rule = _read_file(name)
    if "," not in rule:
        return ZoneOffsets(starts, offsets)
    last = max(int(starts[-1]) if len(starts) > 1 else 0, 0)
    more = _changes(known, last, last + _CYCLE_S + 400 * 86_400)
    starts = np.concatenate((starts, np.array([at for at, _ in more], np.int64)))
    offsets = np.concatenate((offsets, np.array([offset for _, offset in more], np.int64)))
    return ZoneOffsets(starts, offsets, repeats=True)


def _read_file(name: str) -> tuple[Integers, Integers, str]:
    """Read the changes of a zone and the rule behind them from its TZif file, of version 2 or later."""
    content = _file_of(name)
    size = _HEADER.size
    _, version, *counts = _HEADER.unpack_from(content)
    position, width = size, 4
    if version >= b"2":
        position, width = size * 2 + _body_size(counts, 4), 8
        _, _, *counts = _HEADER.unpack_from(content, position - size)
    _, _, _, times, types, _ = counts
    starts = np.frombuffer(content, f">i{width}", times, position).astype(np.int64)
    indices = np.frombuffer(content, np.uint8, times, position + times * width)
    kinds = position + times * (width + 1)
    by_type = np.array([struct.unpack_from(">l", content, kinds + 6 * each)[0] for each in range(types)], np.int64)
    rule = content[position + _body_size(counts, width) :].decode("ascii").strip() if version >= b"2" else ""
    before = _first_standard(content, kinds, types, indices)
    return (
        np.concatenate(([np.int64(_FIRST)], starts)),
        by_type[np.concatenate(([before], indices)).astype(np.intp)],
        rule,
    )


def _first_standard(content: bytes, kinds: int, types: int, indices: npt.NDArray[np.uint8]) -> int:
    """Return the type in use before the first change: the first that is no summer time, as zoneinfo has it."""
    for each in range(types):
        if not content[kinds + 6 * each + 4]:
            return each
    return int(indices[0]) if len(indices) else 0


def _body_size(counts: list[int], width: int) -> int:
    utc, standard, leaps, times, types, characters = counts
    return times * (width + 1) + types * 6 + characters + leaps * (width + 4) + standard + utc


def _file_of(name: str) -> bytes:
    for folder in zoneinfo.TZPATH:
        path = Path(folder, name)
        if path.is_file():
            return path.read_bytes()
    package, _, key = f"tzdata/zoneinfo/{name}".rpartition("/")
    return (importlib.resources.files(package.replace("/", ".")) / key).read_bytes()


def _changes(zone: tzinfo, start: int, end: int) -> list[tuple[int, int]]:
    """Return the instants from one to another at which a zone changes its offset, by asking it again and again."""
    found, at, offset = [], start, _offset_at(zone, start)
    while at < end:
        following = at + int(_STEP.total_seconds())
        changed = _offset_at(zone, following)
        if changed != offset:
            low, high = at, following
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset_at(zone, middle) == offset else (low, middle)
            found.append((high, changed))
            offset = changed
        at = following
    return found


def _offset_at(zone: tzinfo, seconds: int) -> int:
    offset = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


def local_counts(counts: Integers, unit: str, zone: str) -> Integers:
    """Return counts of a unit since 1970 as clocks in a zone show them; wraps at the ends of the range."""
    per_second = 1_000_000_000 // NS_PER_UNIT[unit]
    return np.asarray(counts + offsets_of(zone).at(counts // per_second) * per_second, np.int64)


def local_times(times: pa.Array, zone: str) -> pa.Array:
    """Return timestamps as clocks in a zone show them, without a zone; InvalidTimestamp at the ends of the range."""
    kind = pa.timestamp(times.type.unit)
    if zone == "UTC":
        return times if times.type == kind else times.cast(kind)
    counts = times.cast(kind).cast(pa.int64())
    numbers: Integers = counts.fill_null(0).to_numpy(zero_copy_only=False)
    return _timestamps(numbers, local_counts(numbers, kind.unit, zone), counts, kind, zone)


def instants_of(times: pa.Array, zone: str) -> pa.Array:
    """Return the instants at which clocks in a zone show these timestamps."""
    kind = pa.timestamp(times.type.unit)
    counts = times.cast(kind).cast(pa.int64())
    numbers: Integers = counts.fill_null(0).to_numpy(zero_copy_only=False)
    per_second = 1_000_000_000 // NS_PER_UNIT[kind.unit]
    seconds, rest = np.divmod(numbers, per_second)
    return _timestamps(numbers, offsets_of(zone).instants(seconds) * per_second + rest, counts, kind, zone)


def _timestamps(before: Integers, after: Integers, counts: pa.Array, kind: pa.DataType, zone: str) -> pa.Array:
    if ((before < 0) != (after < 0)).any() and (np.abs(before // 2 - after // 2) > 2**61).any():
        raise InvalidTimestamp(f"a timestamp near the end of the range of {kind} has no local time in {zone}")
    mask = counts.is_null().to_numpy(zero_copy_only=False) if counts.null_count else None
    return pa.array(after, pa.int64(), mask=mask).cast(kind)

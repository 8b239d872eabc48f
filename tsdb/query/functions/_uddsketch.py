"""Quantiles in little memory: UDDSketch states that can be stored, merged and queried.

A value falls into the bucket `ceil(log(|value|) / log(gamma))` of its sign; gamma is `(1 + error) / (1 - error)`, so
that the middle of a bucket is no further than `error` times the value from it. Zero has a bucket of its own. When there
are more buckets than allowed, every two neighbours become one, which squares gamma; that is repeated until they fit.

The key of a bucket is `sign * (index + 2**40)`, which orders buckets as their values. A state is a header (version,
most buckets, error, how often neighbours were joined, number of buckets), then the keys in order, then the counts.
"""

from __future__ import annotations

import itertools
import math
import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.query.functions._define import NUMBER, FunctionError, function

STATE = pa.binary()

_HEADER = struct.Struct("<BIdII")
_VERSION = 1
_BUCKET_BYTES = 8 + 8
_BIAS = 1 << 40
_BUCKETS_MAX = 1 << 20

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sketch:
    """How many values fell into each bucket."""

    limit: int
    """Most buckets."""
    error: float
    """The requested relative error."""
    joins: int
    """How often neighbours were joined; each time the error grows."""
    keys: Integers
    counts: Integers

    @property
    def gamma(self) -> float:
        return float(((1 + self.error) / (1 - self.error)) ** (2.0**self.joins))

    def fitted(self, joins: int = 0) -> Sketch:
        """The same values in buckets joined at least so often, and so often that they are no more than the limit."""
        sketch = self.combined()
        while sketch.joins < joins or len(sketch.counts) > sketch.limit:
            signs = np.sign(sketch.keys)
            indexes = np.abs(sketch.keys) - _BIAS
            halves = signs * (-(-indexes // 2) + _BIAS)
            sketch = Sketch(sketch.limit, sketch.error, sketch.joins + 1, halves, sketch.counts).combined()
        return sketch

    def combined(self) -> Sketch:
        """Buckets with the same key as one, in order."""
        distinct, places = np.unique(self.keys, return_inverse=True)
        counts = np.zeros(len(distinct), np.int64)
        np.add.at(counts, places, self.counts)
        return Sketch(self.limit, self.error, self.joins, distinct, counts)

    def quantile(self, q: float) -> float | None:
        """The middle of the first bucket up to which there are more than q of all values."""
        total = int(self.counts.sum())
        if not total:
            return None
        wanted = min(int(total * q) + 1, total)
        bucket = int(np.searchsorted(np.cumsum(self.counts), wanted))
        key, gamma = int(self.keys[bucket]), self.gamma
        return 0.0 if key == 0 else math.copysign(2.0 * gamma ** (abs(key) - _BIAS) / (1.0 + gamma), key)


def _sketch_of(values: npt.NDArray[np.float64], limit: int, error: float) -> Sketch:
    values = values[np.isfinite(values)]
    with np.errstate(divide="ignore"):
        logarithms = np.log(np.abs(values)) / math.log((1 + error) / (1 - error))
    indexes = np.ceil(np.where(values == 0, 0.0, logarithms)).astype(np.int64)
    keys = np.sign(values).astype(np.int64) * (indexes + _BIAS)
    return Sketch(limit, error, 0, keys, np.ones(len(keys), np.int64)).fitted()


def _encode(sketch: Sketch) -> bytes:
    header = _HEADER.pack(_VERSION, sketch.limit, sketch.error, sketch.joins, len(sketch.counts))
    return header + sketch.keys.astype("<i8").tobytes() + sketch.counts.astype("<i8").tobytes()


def _decode(state: bytes) -> Sketch:
    if len(state) >= _HEADER.size and state[0] == _VERSION:
        _, limit, error, joins, size = _HEADER.unpack_from(state)
        if len(state) == _HEADER.size + size * _BUCKET_BYTES:
            keys = np.frombuffer(state, "<i8", size, _HEADER.size).astype(np.int64)
            counts = np.frombuffer(state, "<i8", size, _HEADER.size + 8 * size).astype(np.int64)
            return Sketch(limit, error, joins, keys, counts)
    raise FunctionError(f"{len(state)} bytes are not a state of uddsketch_state")


def _parameters(call: str, limits: pa.Array, errors: pa.Array) -> tuple[int, float]:
    """The two constants of a call, which are the same in every row."""
    if limits.null_count or errors.null_count:
        raise FunctionError(f"{call}: neither the number of buckets nor the error may be null")
    limit, error = limits[0].as_py(), errors[0].as_py()
    if not (limit == math.floor(limit) and 1 <= limit <= _BUCKETS_MAX):
        raise FunctionError(f"{call}: the number of buckets is 1 to {_BUCKETS_MAX}, found {limit:g}")
    if not 1e-6 <= error < 1:
        raise FunctionError(f"{call}: the error is a number from 0.000001 to below 1, found {error:g}")
    return int(limit), float(error)


@function("uddsketch_state__list", [NUMBER, NUMBER, pa.list_(NUMBER)], STATE)
def uddsketch_state__list(limits: pa.Array, errors: pa.Array, groups: pa.Array) -> pa.Array:
    if not len(groups):
        return pa.nulls(0, STATE)
    limit, error = _parameters("uddsketch_state", limits, errors)
    values = groups.flatten()
    is_valid = values.is_valid().to_numpy(zero_copy_only=False)
    parents = np.asarray(pc.list_parent_indices(groups))[is_valid]
    numbers = values.drop_null().to_numpy(zero_copy_only=False)
    bounds = np.searchsorted(parents, np.arange(len(groups) + 1))
    spans = itertools.pairwise(bounds)
    return pa.array([_encode(_sketch_of(numbers[begin:end], limit, error)) for begin, end in spans], STATE)


@function("uddsketch_merge__list", [NUMBER, NUMBER, pa.list_(STATE)], STATE)
def uddsketch_merge__list(limits: pa.Array, errors: pa.Array, groups: pa.Array) -> pa.Array:
    if not len(groups):
        return pa.nulls(0, STATE)
    limit, error = _parameters("uddsketch_merge", limits, errors)
    return pa.array([_encode(_merge(states or [], limit, error)) for states in groups.to_pylist()], STATE)


def _merge(states: list[bytes | None], limit: int, error: float) -> Sketch:
    sketches = [_decode(state) for state in states if state is not None]
    for each in sketches:
        if (each.limit, each.error) != (limit, error):
            raise FunctionError(
                "Merging UDDSketch with different parameters: "
                f"arguments=({limit}, {error:g}) vs actual input=({each.limit}, {each.error:g})"
            )
    joins = max((each.joins for each in sketches), default=0)
    alike = [each.fitted(joins) for each in sketches]
    none = np.empty(0, np.int64)
    keys = np.concatenate([none, *(each.keys for each in alike)])
    counts = np.concatenate([none, *(each.counts for each in alike)])
    return Sketch(limit, error, joins, keys, counts).fitted()


@function("uddsketch_calc", [NUMBER, STATE], NUMBER)
def uddsketch_calc(quantiles: pa.Array, states: pa.Array) -> pa.Array:
    results = []
    for quantile, state in zip(quantiles.to_pylist(), states.to_pylist(), strict=True):
        if quantile is not None and not 0 <= quantile <= 1:
            raise FunctionError(f"uddsketch_calc: a quantile is a number from 0 to 1, found {quantile:g}")
        is_given = quantile is not None and state is not None
        results.append(_decode(state).quantile(quantile) if is_given else None)
    return pa.array(results, NUMBER)


FUNCTIONS = [uddsketch_state__list, uddsketch_merge__list, uddsketch_calc]

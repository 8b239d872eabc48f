"""Counting distinct values in little memory: HyperLogLog states that can be stored, merged and counted.

A value is hashed to 64 bits. The first 25 of them are its place, and its rank is the number of zeros at the start of
the others, plus one. A state keeps for each place the highest rank seen there:

    sparse    the places themselves, `place << 6 | rank`, sorted: while there are few, counts are all but exact
    dense     the highest rank for each of the 2**14 places that the first 14 bits give; the standard error is 0.8 %

A state is one byte for the form (1 sparse, 2 dense), then little-endian 32-bit entries or 2**14 bytes. The count of
a sparse state follows from how many places are still empty, that of a dense one is Ertl's estimator, which needs
neither tables nor corrections.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb import _kernels
from tsdb.query.functions._define import STRING, FunctionError, function

STATE = pa.binary()

_FINE_BITS, _COARSE_BITS, _RANK_BITS = 25, 14, 6
_REGISTERS = 1 << _COARSE_BITS
_SPARSE, _DENSE = b"\x01", b"\x02"
_SPARSE_MAX = _REGISTERS // 4
"""Most entries of a sparse state: with more it would be larger than a dense one."""
_RANK_MAX = 64 - _COARSE_BITS + 1

Entries = npt.NDArray[np.uint32]
Registers = npt.NDArray[np.uint8]


@function("hll__place", [STRING], pa.uint32())
def hll__place(values: pa.Array) -> pa.Array:
    """The place and the rank of each value; null stays null."""
    hashed = pa.array(_kernels.row_hash([values], ["value"], 0, len(values)), pa.uint64())
    hashes = hashed.to_numpy(zero_copy_only=False)
    places = (hashes >> np.uint64(64 - _FINE_BITS)).astype(np.uint32)
    rest = hashes << np.uint64(_FINE_BITS)
    entries = (places << np.uint32(_RANK_BITS)) | _leading_zeros(rest, 64 - _FINE_BITS) + np.uint32(1)
    return pa.array(entries, mask=~values.is_valid().to_numpy(zero_copy_only=False))


def _leading_zeros(numbers: npt.NDArray[np.uint64], limit: int) -> npt.NDArray[np.uint32]:
    """How many zeros each number begins with, no more than a limit."""
    # The exponent of a float is the position of the highest one. Of the high half alone it is exact.
    high, low = (numbers >> np.uint64(32)).astype(np.float64), (numbers & np.uint64(0xFFFFFFFF)).astype(np.float64)
    zeros = np.where(high > 0, 32 - np.frexp(high)[1], 64 - np.frexp(low)[1])
    return np.minimum(zeros, limit).astype(np.uint32)


@function("hll__list", [pa.list_(pa.uint32())], STATE)
def hll__list(groups: pa.Array) -> pa.Array:
    """The state of each group of places; that of no values is a state, too."""
    values = groups.flatten()
    parents = np.asarray(pc.list_parent_indices(groups))[values.is_valid().to_numpy(zero_copy_only=False)]
    entries = values.drop_null().to_numpy(zero_copy_only=False)
    order = np.lexsort((entries, parents))
    entries, parents = entries[order], parents[order]
    bounds = np.searchsorted(parents, np.arange(len(groups) + 1))
    states = [_encode(_highest(entries[begin:end])) for begin, end in itertools.pairwise(bounds)]
    return pa.array(states, STATE)


@function("hll_merge__list", [pa.list_(STATE)], STATE)
def hll_merge__list(groups: pa.Array) -> pa.Array:
    """One state from all states of each group."""
    return pa.array([_merge(states or []) for states in groups.to_pylist()], STATE)


@function("hll_count", [STATE], pa.uint64())
def hll_count(states: pa.Array) -> pa.Array:
    return pa.array([None if state is None else _count(_decode(state)) for state in states.to_pylist()], pa.uint64())


def _highest(entries: Entries) -> Entries:
    """Of sorted entries the last one of each place, which has the highest rank."""
    places = entries >> np.uint32(_RANK_BITS)
    return entries[np.append(places[1:] != places[:-1], True)] if len(entries) else entries


def _registers(entries: Entries) -> Registers:
    """A sparse state as a dense one."""
    below = _FINE_BITS - _COARSE_BITS
    places = entries >> np.uint32(_RANK_BITS)
    ranks = entries & np.uint32((1 << _RANK_BITS) - 1)
    inner = (places & np.uint32((1 << below) - 1)).astype(np.uint64)
    # The bits between the two kinds of place come before the rank: zeros in front go on only if all of them are zero.
    zeros = _leading_zeros(inner << np.uint64(64 - below), below)
    coarse_ranks = np.where(inner > 0, zeros + 1, ranks + np.uint32(below))
    registers = np.zeros(_REGISTERS, np.uint8)
    np.maximum.at(registers, places >> np.uint32(below), coarse_ranks.astype(np.uint8))
    return registers


def _encode(state: Entries | Registers) -> bytes:
    if state.dtype == np.uint32 and len(state) > _SPARSE_MAX:
        state = _registers(state.astype(np.uint32))
    if state.dtype == np.uint8:
        return _DENSE + state.tobytes()
    return _SPARSE + state.astype("<u4").tobytes()


def _decode(state: bytes) -> Entries | Registers:
    kind, body = state[:1], state[1:]
    if kind == _SPARSE and len(body) % 4 == 0:
        return np.frombuffer(body, "<u4").astype(np.uint32)
    if kind == _DENSE and len(body) == _REGISTERS:
        return np.frombuffer(body, np.uint8)
    raise FunctionError(f"{len(state)} bytes are not a state of hll; use the result of hll or hll_merge")


def _merge(states: list[bytes | None]) -> bytes:
    decoded = [_decode(state) for state in states if state is not None]
    if all(each.dtype == np.uint32 for each in decoded):
        entries = np.concatenate(decoded) if decoded else np.empty(0, np.uint32)
        return _encode(_highest(np.sort(entries)))
    dense = [each if each.dtype == np.uint8 else _registers(each.astype(np.uint32)) for each in decoded]
    return _encode(np.maximum.reduce(dense))


def _count(state: Entries | Registers) -> int:
    if state.dtype == np.uint32:
        places = 1 << _FINE_BITS
        return round(-places * math.log1p(-len(state) / places))
    return round(_estimate(np.bincount(state, minlength=_RANK_MAX + 1)))


def _estimate(counts: npt.NDArray[np.int64]) -> float:
    """Ertl's estimator, from how many registers hold each rank."""
    total = float(_REGISTERS)
    last = _RANK_MAX
    sum_ = total * _tau(1.0 - float(counts[last]) / total)
    for rank in range(last - 1, 0, -1):
        sum_ = 0.5 * (sum_ + float(counts[rank]))
    sum_ += total * _sigma(float(counts[0]) / total)
    return total * total / (2.0 * math.log(2.0) * sum_)


def _sigma(x: float) -> float:
    """x + sum of x**(2**k) * 2**(k-1)."""
    if x == 1.0:
        return float("inf")
    y, z, previous = 1.0, x, -1.0
    while z != previous:
        x *= x
        previous, z, y = z, z + x * y, y + y
    return z


def _tau(x: float) -> float:
    """(1 - x - sum of (1 - x**(2**-k))**2 * 2**-k) / 3."""
    if x in (0.0, 1.0):
        return 0.0
    y, z, previous = 1.0, 1.0 - x, -1.0
    while z != previous:
        x = x**0.5
        y *= 0.5
        previous, z = z, z - (1.0 - x) ** 2 * y
    return z / 3.0


FUNCTIONS = [hll__place, hll__list, hll_merge__list, hll_count]

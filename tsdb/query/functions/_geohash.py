"""Geohashes: a place on earth as a short text, each character of which narrows it down 32 times.

Bits of longitude and latitude alternate, longitude first; five bits are one character.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.query.functions._coordinates import read_coordinates, read_level
from tsdb.query.functions._define import NUMBER, STRING, function

_LETTERS = np.frombuffer(b"0123456789bcdefghjkmnpqrstuvwxyz", np.uint8)
_LENGTH_MAX = 12
# Clockwise from the north, as steps in latitude and longitude.
_AROUND = [(1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1)]

Integers = npt.NDArray[np.int64]


def _cells(degrees: npt.NDArray[np.float64], span: float, bits: Integers) -> Integers:
    """Which of 2**bits equal parts of a span around zero a coordinate lies in."""
    parts = np.ldexp(1.0, bits)
    cells: Integers = np.clip(np.floor((degrees / span + 0.5) * parts), 0, parts - 1).astype(np.int64)
    return cells


def _write(latitudes: Integers, longitudes: Integers, lengths: Integers, is_valid: npt.NDArray[np.bool_]) -> pa.Array:
    """The texts of cells, each with its own number of characters."""
    latitude_bits, longitude_bits = _bits(lengths)
    letters = np.zeros((len(lengths), _LENGTH_MAX), np.uint8)
    for place in range(_LENGTH_MAX):
        value = np.zeros(len(lengths), np.int64)
        for bit in range(5 * place, 5 * place + 5):
            cells, bits = (longitudes, longitude_bits) if bit % 2 == 0 else (latitudes, latitude_bits)
            value = value * 2 + (cells >> np.maximum(bits - bit // 2 - 1, 0) & 1)
        letters[:, place] = _LETTERS[value]
    sizes = np.where(is_valid, lengths, 0)
    data = letters[np.arange(_LENGTH_MAX) < sizes[:, None]]
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    texts = pa.StringArray.from_buffers(len(sizes), pa.py_buffer(offsets), pa.py_buffer(data))
    return pc.if_else(pa.array(is_valid), texts, None)


def _bits(lengths: Integers) -> tuple[Integers, Integers]:
    return 5 * lengths // 2, (5 * lengths + 1) // 2


@function("geohash", [NUMBER, NUMBER, NUMBER], STRING)
def geohash(latitudes: pa.Array, longitudes: pa.Array, lengths: pa.Array) -> pa.Array:
    latitude, longitude, is_place = read_coordinates("geohash", latitudes, longitudes)
    length, is_length = read_level("geohash", lengths, 1, _LENGTH_MAX)
    latitude_bits, longitude_bits = _bits(length)
    cells = _cells(latitude, 180.0, latitude_bits), _cells(longitude, 360.0, longitude_bits)
    return _write(*cells, length, is_place & is_length)


@function("geohash_neighbours", [NUMBER, NUMBER, NUMBER], pa.list_(STRING))
def geohash_neighbours(latitudes: pa.Array, longitudes: pa.Array, lengths: pa.Array) -> pa.Array:
    """The eight cells around that of a place, clockwise from the north; east of the last one comes the first."""
    latitude, longitude, is_place = read_coordinates("geohash_neighbours", latitudes, longitudes)
    length, is_length = read_level("geohash_neighbours", lengths, 1, _LENGTH_MAX)
    latitude_bits, longitude_bits = _bits(length)
    cells = _cells(latitude, 180.0, latitude_bits), _cells(longitude, 360.0, longitude_bits)
    is_valid = is_place & is_length
    columns = [
        _write((cells[0] + north) % (1 << latitude_bits), (cells[1] + east) % (1 << longitude_bits), length, is_valid)
        for north, east in _AROUND
    ]
    # Column by column they stand behind each other; a row takes one from each.
    rows = len(is_valid)
    order = (np.arange(rows)[:, None] + rows * np.arange(len(columns))).reshape(-1)
    flat = pa.concat_arrays(columns).take(pa.array(order))
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * len(columns), mask=np.append(~is_valid, False))
    return pa.ListArray.from_arrays(offsets, flat)


FUNCTIONS = [geohash, geohash_neighbours]

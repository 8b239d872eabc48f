"""S2 cells: earth on the six faces of a cube, each of them a square along which a Hilbert curve runs.

The id of a cell is 64 bits: three for the face, two for each level of the way along the curve, a one, and zeros. A cell
of level 30, a leaf, uses all of them. The curve turns in each quarter of a square; an orientation of two bits (swapped,
inverted) tells how.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.query.functions._coordinates import Doubles, read_coordinates, read_level
from tsdb.query.functions._define import NUMBER, STRING, FunctionError, function

CELL = pa.uint64()

_LEVEL_MAX = 30
# By orientation and quarter (two bits: i, j): the quarter's place on the curve.
_PLACES = np.array([[0, 1, 3, 2], [0, 3, 1, 2], [2, 3, 1, 0], [2, 1, 3, 0]], np.int64)
# By place on the curve: how the orientation changes there.
_TURNS = np.array([1, 0, 0, 3], np.int64)

Ids = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]


@function("s2_latlng_to_cell", [NUMBER, NUMBER], CELL)
def s2_latlng_to_cell(latitudes: pa.Array, longitudes: pa.Array) -> pa.Array:
    """The leaf cell of a place."""
    latitude, longitude, is_valid = read_coordinates("s2_latlng_to_cell", latitudes, longitudes)
    return pa.array(leaf_cells(latitude, longitude), mask=~is_valid)


def leaf_cells(latitude: Doubles, longitude: Doubles) -> Ids:
    face, u, v = _on_cube(np.radians(latitude), np.radians(longitude))
    i, j = _steps(u), _steps(v)
    orientation, path = face & 1, np.zeros(len(face), np.uint64)
    for level in range(_LEVEL_MAX - 1, -1, -1):
        quarter = (i >> level & 1) << 1 | (j >> level & 1)
        place = _PLACES[orientation, quarter]
        path = path << np.uint64(2) | place.astype(np.uint64)
        orientation = orientation ^ _TURNS[place]
    return face.astype(np.uint64) << np.uint64(61) | path << np.uint64(1) | np.uint64(1)


def _on_cube(latitude: Doubles, longitude: Doubles) -> tuple[Integers, Doubles, Doubles]:
    """The face of the cube that a place lies on, and where on it, from -1 to 1 each way."""
    x = np.cos(latitude) * np.cos(longitude)
    y = np.cos(latitude) * np.sin(longitude)
    z = np.sin(latitude)
    axis = np.argmax(np.abs([x, y, z]), axis=0)
    largest = np.choose(axis, [x, y, z])
    face = axis + 3 * (largest < 0)
    with np.errstate(all="ignore"):
        u = np.choose(face, [y / x, -x / y, -x / z, z / x, z / y, -y / z])
        v = np.choose(face, [z / x, z / y, -y / z, y / x, -x / y, -x / z])
    return face.astype(np.int64), u, v


def _steps(position: Doubles) -> Integers:
    """A position on a face in leaf cells; the curve of the square root makes cells more equal in area."""
    root = 0.5 * np.sqrt(1 + 3 * np.abs(position))
    fraction = np.where(position >= 0, root, 1 - root)
    cells = 1 << _LEVEL_MAX
    steps: Integers = np.clip(np.floor(fraction * cells), 0, cells - 1).astype(np.int64)
    return steps


def _read_cells(call: str, texts: pa.Array) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """Cell ids, written as numbers; signed ones count as well."""
    is_valid = texts.is_valid().to_numpy(zero_copy_only=False)
    given = texts.fill_null("1")
    is_negative = pc.starts_with(given, "-")
    try:
        unsigned = pc.if_else(is_negative, "1", given).cast(pa.uint64()).to_numpy(zero_copy_only=False)
        signed = pc.if_else(is_negative, given, "1").cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise FunctionError(f"{call}: a cell is a number of 64 bits: {error}") from error
    cells = np.where(is_negative.to_numpy(zero_copy_only=False), signed.view(np.uint64), unsigned)
    is_bad = (cells >> np.uint64(61) > 5) | (_lowest(cells) & np.uint64(0x1555555555555555) == 0)
    if is_bad.any():
        raise FunctionError(f"{call}: {cells[np.flatnonzero(is_bad)[0]]} is not a cell")
    return cells, is_valid


def _lowest(cells: Ids) -> Ids:
    """The lowest one of each id, which marks its level."""
    return cells & (~cells + np.uint64(1))


def _levels(cells: Ids) -> Integers:
    zeros = np.frexp(_lowest(cells).astype(np.float64))[1] - 1
    return _LEVEL_MAX - zeros.astype(np.int64) // 2


@function("s2_cell_to_token", [STRING], STRING)
def s2_cell_to_token(texts: pa.Array) -> pa.Array:
    """The id in hexadecimal without the zeros at its end."""
    cells, is_valid = _read_cells("s2_cell_to_token", texts)
    tokens = [f"{cell:016x}".rstrip("0") for cell in cells.tolist()]
    return pa.array(tokens, STRING, mask=~is_valid)


@function("s2_cell_level", [STRING], pa.uint64())
def s2_cell_level(texts: pa.Array) -> pa.Array:
    cells, is_valid = _read_cells("s2_cell_level", texts)
    return pa.array(_levels(cells).astype(np.uint64), mask=~is_valid)


@function("s2_cell_parent", [STRING, NUMBER], CELL)
def s2_cell_parent(texts: pa.Array, numbers: pa.Array) -> pa.Array:
    """The cell of a level that holds a cell."""
    cells, is_cell = _read_cells("s2_cell_parent", texts)
    levels, is_level = read_level("s2_cell_parent", numbers, 0, _LEVEL_MAX)
    is_valid = is_cell & is_level
    is_bad = is_valid & (levels > _levels(cells))
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        raise FunctionError(f"s2_cell_parent: a cell of level {_levels(cells)[row]} has no parent of {levels[row]}")
    mark = np.uint64(1) << (2 * (_LEVEL_MAX - levels)).astype(np.uint64)
    return pa.array(cells & (~mark + np.uint64(1)) | mark, mask=~is_valid)


FUNCTIONS = [s2_latlng_to_cell, s2_cell_to_token, s2_cell_level, s2_cell_parent]

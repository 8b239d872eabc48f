"""H3 cells: earth in hexagons of 16 sizes.

A cell comes as a number or as text in hexadecimal. Both arrive here as text: a number has 18 digits, a text 15. Grids
are walked with the library `h3`, once for each distinct combination of arguments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from tsdb.query.functions._coordinates import read_coordinates, read_level, sphere_distance_m
from tsdb.query.functions._define import NUMBER, STRING, Function, FunctionError, function, map_rows

CELL = pa.uint64()
CELLS = pa.list_(CELL)

_RESOLUTION_MAX = 15
_DECIMAL = re.compile(r"\d{16,20}")
_HEXADECIMAL = re.compile(r"(?:0x)?([0-9a-f]{1,16})", re.IGNORECASE)
_CELLS_MAX = 1_000_000
"""Most cells that one call may return: a disk and the children of a cell grow fast."""


@cache
def _library() -> Any:
    """The library, loaded by the first query that needs it."""
    import h3.api.basic_int

    return h3.api.basic_int


def _cell(call: str, text: str) -> int:
    found = _HEXADECIMAL.fullmatch(text.strip())
    cell = int(text) if _DECIMAL.fullmatch(text.strip()) else int(found[1], 16) if found else 0
    if not _library().is_valid_cell(cell):
        raise FunctionError(f"{call}: {text!r} is not an H3 cell")
    return cell


def _number(call: str, what: str, value: float, most: float) -> int:
    if not (value == math.floor(value) and 0 <= value <= most):
        raise FunctionError(f"{call}: the {what} is a whole number from 0 to {most:.0f}, found {value:g}")
    return int(value)


def _resolution(call: str, value: float) -> int:
    return _number(call, "resolution", value, _RESOLUTION_MAX)


def _of_cell(name: str, result: pa.DataType, apply: Callable[[Any, int], Any]) -> Function:
    """A function of one cell; `apply` gets the library and the cell."""

    def convert(text: str) -> Any:
        return apply(_library(), _cell(name, text))

    return Function(name, (STRING,), result, lambda texts: map_rows(result, convert, texts))


def _of_cell_and_number(name: str, result: pa.DataType, apply: Callable[[Any, int, float], Any]) -> Function:
    """A function of a cell and a resolution or a distance."""

    def convert(text: str, number: float) -> Any:
        return _checked(name, lambda: apply(_library(), _cell(name, text), number))

    return Function(name, (STRING, NUMBER), result, lambda texts, numbers: map_rows(result, convert, texts, numbers))


def _of_cells(name: str, result: pa.DataType, apply: Callable[[Any, int, int], Any]) -> Function:
    """A function of two cells."""

    def convert(left: str, right: str) -> Any:
        return _checked(name, lambda: apply(_library(), _cell(name, left), _cell(name, right)))

    return Function(name, (STRING, STRING), result, lambda left, right: map_rows(result, convert, left, right))


def _checked(call: str, apply: Callable[[], Any]) -> Any:
    """Run a function of the library; what it refuses is the user's mistake."""
    from h3 import H3BaseException

    try:
        return apply()
    except H3BaseException as error:
        reason = str(error) or type(error).__name__.removeprefix("H3").removesuffix("Error").lower()
        raise FunctionError(f"{call}: {reason}") from error


def _limited(call: str, count: int) -> None:
    if count > _CELLS_MAX:
        raise FunctionError(f"{call}: {count} cells are more than the {_CELLS_MAX} that a call may return")


def _from_place(call: str, latitudes: pa.Array, longitudes: pa.Array, resolutions: pa.Array) -> pa.Array:
    read_coordinates(call, latitudes, longitudes)
    read_level(call, resolutions, 0, _RESOLUTION_MAX)

    def convert(latitude: float, longitude: float, resolution: float) -> Any:
        return _library().latlng_to_cell(latitude, longitude, int(resolution))

    return map_rows(CELL, convert, latitudes, longitudes, resolutions)


@function("h3_latlng_to_cell", [NUMBER, NUMBER, NUMBER], CELL)
def h3_latlng_to_cell(latitudes: pa.Array, longitudes: pa.Array, resolutions: pa.Array) -> pa.Array:
    return _from_place("h3_latlng_to_cell", latitudes, longitudes, resolutions)


@function("h3_latlng_to_cell_string", [NUMBER, NUMBER, NUMBER], STRING)
def h3_latlng_to_cell_string(latitudes: pa.Array, longitudes: pa.Array, resolutions: pa.Array) -> pa.Array:
    cells = _from_place("h3_latlng_to_cell_string", latitudes, longitudes, resolutions)
    return map_rows(STRING, lambda cell: f"{cell:x}", cells)


@function("h3_child_pos_to_cell", [NUMBER, STRING, NUMBER], CELL)
def h3_child_pos_to_cell(positions: pa.Array, texts: pa.Array, resolutions: pa.Array) -> pa.Array:
    """The child of a cell at a resolution that has a position among all of them."""
    name = "h3_child_pos_to_cell"

    def convert(position: float, text: str, resolution: float) -> Any:
        cell, level = _cell(name, text), _resolution(name, resolution)
        place = _number(name, "position", position, 2.0**53)
        return _checked(name, lambda: _library().child_pos_to_cell(cell, level, place))

    return map_rows(CELL, convert, positions, texts, resolutions)


@function("h3_cells_contains", [STRING, STRING], pa.bool_())
def h3_cells_contains(sets: pa.Array, texts: pa.Array) -> pa.Array:
    """Whether a cell, or one that it lies in, is among cells: a list of them, or text with commas."""
    name = "h3_cells_contains"

    @cache
    def members(written: str) -> frozenset[int]:
        parts = written.strip().strip("[]").split(",")
        return frozenset(_cell(name, part) for part in parts if part.strip())

    def convert(written: str, text: str) -> bool:
        cell, library = _cell(name, text), _library()
        ancestors = {library.cell_to_parent(cell, level) for level in range(library.get_resolution(cell) + 1)}
        return not ancestors.isdisjoint(members(written))

    return map_rows(pa.bool_(), convert, sets, texts)


def _children(library: Any, cell: int, resolution: float) -> list[int]:
    level = _resolution("h3_cell_to_children", resolution)
    _limited("h3_cell_to_children", library.cell_to_children_size(cell, level))
    return list(library.cell_to_children(cell, level))


def _disk(call: str, library: Any, cell: int, number: float) -> list[int]:
    """The cells within a number of steps, ring by ring."""
    steps = _number(call, "distance", number, 2.0**31)
    _limited(call, 3 * steps * (steps + 1) + 1)
    return [each for step in range(steps + 1) for each in library.grid_ring(cell, step)]


def _degrees(library: Any, left: int, right: int) -> float:
    (latitude1, longitude1), (latitude2, longitude2) = library.cell_to_latlng(left), library.cell_to_latlng(right)
    return math.hypot(latitude1 - latitude2, longitude1 - longitude2)


def _kilometres(library: Any, left: int, right: int) -> float:
    first, second = (tuple(np.array([each]) for each in library.cell_to_latlng(cell)) for cell in (left, right))
    return float(sphere_distance_m(first, second)[0]) / 1000  # type: ignore[arg-type]


FUNCTIONS = [
    h3_latlng_to_cell,
    h3_latlng_to_cell_string,
    h3_child_pos_to_cell,
    h3_cells_contains,
    _of_cell("h3_cell_to_string", STRING, lambda library, cell: f"{cell:x}"),
    _of_cell("h3_string_to_cell", CELL, lambda library, cell: cell),
    _of_cell("h3_cell_center_latlng", pa.list_(NUMBER), lambda library, cell: list(library.cell_to_latlng(cell))),
    _of_cell("h3_cell_resolution", pa.uint8(), lambda library, cell: library.get_resolution(cell)),
    _of_cell("h3_cell_base", pa.uint8(), lambda library, cell: library.get_base_cell_number(cell)),
    _of_cell("h3_cell_is_pentagon", pa.bool_(), lambda library, cell: library.is_pentagon(cell)),
    _of_cell_and_number(
        "h3_cell_center_child",
        CELL,
        lambda library, cell, level: library.cell_to_center_child(cell, _resolution("h3_cell_center_child", level)),
    ),
    _of_cell_and_number(
        "h3_cell_parent",
        CELL,
        lambda library, cell, level: library.cell_to_parent(cell, _resolution("h3_cell_parent", level)),
    ),
    _of_cell_and_number("h3_cell_to_children", CELLS, _children),
    _of_cell_and_number(
        "h3_cell_to_children_size",
        pa.uint64(),
        lambda library, cell, level: library.cell_to_children_size(
            cell, _resolution("h3_cell_to_children_size", level)
        ),
    ),
    _of_cell_and_number(
        "h3_cell_to_child_pos",
        pa.uint64(),
        lambda library, cell, level: library.cell_to_child_pos(cell, _resolution("h3_cell_to_child_pos", level)),
    ),
    _of_cell_and_number("h3_grid_disk", CELLS, lambda library, cell, k: _disk("h3_grid_disk", library, cell, k)),
    _of_cell_and_number(
        "h3_grid_disk_distances", CELLS, lambda library, cell, k: _disk("h3_grid_disk_distances", library, cell, k)
    ),
    _of_cells("h3_grid_distance", pa.int32(), lambda library, left, right: library.grid_distance(left, right)),
    _of_cells("h3_grid_path_cells", CELLS, lambda library, left, right: list(library.grid_path_cells(left, right))),
    _of_cells("h3_distance_sphere_km", NUMBER, _kilometres),
    _of_cells("h3_distance_degree", NUMBER, _degrees),
]

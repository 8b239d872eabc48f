"""Shapes in WKT (`POINT(lng lat)`, `POLYGON((…))`), how they lie to each other, and paths of points.

Shapes are flat: distances and areas are in degrees. Only `st_distance_sphere_m` knows that earth is round.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.query.functions._coordinates import read_coordinates, sphere_distance_m
from tsdb.query.functions._define import NUMBER, STRING, Function, FunctionError, function

POINT = pa.struct([("lat", NUMBER), ("lng", NUMBER), ("ts", pa.int64())])
PATH = pa.struct([("lat", pa.list_(NUMBER)), ("lng", pa.list_(NUMBER))])


@cache
def _library() -> Any:
    """The library, loaded by the first query that needs it."""
    import shapely

    return shapely


@function("wkt_point_from_latlng", [NUMBER, NUMBER], STRING)
def wkt_point_from_latlng(latitudes: pa.Array, longitudes: pa.Array) -> pa.Array:
    read_coordinates("wkt_point_from_latlng", latitudes, longitudes)
    texts = [_plain(longitudes), " ", _plain(latitudes)]
    return pc.binary_join_element_wise("POINT(", *texts, ")", "")


def _plain(numbers: pa.Array) -> pa.Array:
    """Numbers with the fewest digits that read back the same, without exponent."""
    written = [None if each is None else np.format_float_positional(each, trim="-") for each in numbers.to_pylist()]
    return pa.array(written, STRING)


def _read_shapes(call: str, texts: pa.Array) -> Any:
    """Shapes of the distinct texts, repeated; None where a text is null."""
    encoded = texts.dictionary_encode()
    shapes = _library().from_wkt(encoded.dictionary.to_numpy(zero_copy_only=False), on_invalid="ignore")
    is_bad = _library().is_missing(shapes)
    if is_bad.any():
        text = encoded.dictionary[int(np.flatnonzero(is_bad)[0])].as_py()
        raise FunctionError(f"{call}: {text[:60]!r} is not a shape in WKT")
    padded = np.concatenate([shapes, [None]])
    return padded[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]


def _of_shapes(name: str, result: pa.DataType, apply: Callable[[Any, Any, Any], Any]) -> Function:
    """A function of two shapes; `apply` gets the library and both columns."""

    def body(left: pa.Array, right: pa.Array) -> pa.Array:
        is_valid = pc.and_(left.is_valid(), right.is_valid()).to_numpy(zero_copy_only=False)
        found = apply(_library(), _read_shapes(name, left), _read_shapes(name, right))
        return pa.array(found, result, mask=~is_valid)

    return Function(name, (STRING, STRING), result, body)


def _sphere_distance(library: Any, left: Any, right: Any) -> Any:
    for shapes in (left, right):
        is_other = ~library.is_missing(shapes) & (library.get_type_id(shapes) != 0)
        if is_other.any():
            kind = shapes[np.flatnonzero(is_other)[0]].geom_type
            raise FunctionError(f"st_distance_sphere_m: expected two points, found a {kind}")
    first, second = ((library.get_y(shapes), library.get_x(shapes)) for shapes in (left, right))
    return sphere_distance_m(first, second)


@function("st_area", [STRING], NUMBER)
def st_area(texts: pa.Array) -> pa.Array:
    is_valid = texts.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(_library().area(_read_shapes("st_area", texts)), NUMBER, mask=~is_valid)


def _point(name: str) -> Function:
    def body(latitudes: pa.Array, longitudes: pa.Array, times: pa.Array) -> pa.Array:
        return pa.StructArray.from_arrays([latitudes, longitudes, times], fields=list(POINT))

    return Function(f"{name}__point", (NUMBER, NUMBER, pa.int64()), POINT, body)


def _ordered(groups: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    """The latitudes and longitudes of all groups, each group in the order of its times, and where groups begin."""
    points = groups.flatten()
    parents = pc.list_parent_indices(groups)
    latitudes, longitudes, times = (points.field(position) for position in range(3))
    columns = {"group": parents, "ts": times, "lat": latitudes, "lng": longitudes}
    table = pa.table(columns).filter(pc.and_(latitudes.is_valid(), longitudes.is_valid()))
    table = table.sort_by([("group", "ascending"), ("ts", "ascending")]).combine_chunks()
    counts = np.bincount(table["group"].to_numpy(), minlength=len(groups))
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))
    return _flat(table["lat"]), _flat(table["lng"]), offsets


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([pa.nulls(0, NUMBER), *column.chunks])


@function("json_encode_path__list", [pa.list_(POINT)], STRING)
def json_encode_path__list(groups: pa.Array) -> pa.Array:
    """`[[lng,lat],…]`, as GeoJSON has it."""
    latitudes, longitudes, offsets = _ordered(groups)
    pairs = pc.binary_join_element_wise("[", _json(longitudes), ",", _json(latitudes), "]", "")
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, pairs), ",")
    return pc.binary_join_element_wise("[", joined, "]", "")


def _json(numbers: pa.Array) -> pa.Array:
    return pa.array([repr(each) for each in numbers.to_pylist()], STRING)


@function("geo_path__list", [pa.list_(POINT)], PATH)
def geo_path__list(groups: pa.Array) -> pa.Array:
    latitudes, longitudes, offsets = _ordered(groups)
    lists = [pa.ListArray.from_arrays(offsets, each) for each in (latitudes, longitudes)]
    return pa.StructArray.from_arrays(lists, fields=list(PATH))


FUNCTIONS = [
    wkt_point_from_latlng,
    st_area,
    json_encode_path__list,
    geo_path__list,
    _point("json_encode_path"),
    _point("geo_path"),
    _of_shapes("st_contains", pa.bool_(), lambda library, left, right: library.contains(left, right)),
    _of_shapes("st_within", pa.bool_(), lambda library, left, right: library.within(left, right)),
    _of_shapes("st_intersects", pa.bool_(), lambda library, left, right: library.intersects(left, right)),
    _of_shapes("st_distance", NUMBER, lambda library, left, right: library.distance(left, right)),
    _of_shapes("st_distance_sphere_m", NUMBER, _sphere_distance),
]

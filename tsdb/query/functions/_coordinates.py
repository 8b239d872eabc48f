"""Places on earth as functions get them: latitudes and longitudes in degrees, levels of a grid."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.query.functions._define import FunctionError

EARTH_RADIUS_M = 6371008.8
"""The mean radius."""

Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


def read_coordinates(call: str, latitudes: pa.Array, longitudes: pa.Array) -> tuple[Doubles, Doubles, Booleans]:
    """Return latitudes, longitudes and which rows have both; FunctionError for one that is not on earth."""
    is_valid = _valid(latitudes) & _valid(longitudes)
    latitude, longitude = _numbers(latitudes, is_valid), _numbers(longitudes, is_valid)
    is_bad = ~((np.abs(latitude) <= 90) & (np.abs(longitude) <= 180))
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        raise FunctionError(
            f"{call}: latitude {latitude[row]:g}, longitude {longitude[row]:g} is not a position on earth; "
            "latitudes go from -90 to 90, longitudes from -180 to 180"
        )
    return latitude, longitude, is_valid


def read_level(call: str, numbers: pa.Array, least: int, most: int) -> tuple[Integers, Booleans]:
    """Return levels and which rows have one, which is checked; the others have the least."""
    is_valid = _valid(numbers)
    levels = np.where(is_valid, _numbers(numbers, is_valid), least)
    is_bad = ~((levels >= least) & (levels <= most) & (levels == np.floor(levels)))
    if is_bad.any():
        level = levels[np.flatnonzero(is_bad)[0]]
        raise FunctionError(f"{call}: the resolution is a whole number from {least} to {most}, found {level:g}")
    return levels.astype(np.int64), is_valid


def sphere_distance_m(first: tuple[Doubles, Doubles], second: tuple[Doubles, Doubles]) -> Doubles:
    """The way along a great circle between (latitude, longitude) and (latitude, longitude), in metres."""
    (latitude1, longitude1), (latitude2, longitude2) = (np.radians(each) for each in (first, second))
    half = (
        np.sin((latitude2 - latitude1) / 2) ** 2
        + np.cos(latitude1) * np.cos(latitude2) * np.sin((longitude2 - longitude1) / 2) ** 2
    )
    distance: Doubles = 2 * EARTH_RADIUS_M * np.arcsin(np.sqrt(np.clip(half, 0.0, 1.0)))
    return distance


def _valid(values: pa.Array) -> Booleans:
    found: Booleans = values.is_valid().to_numpy(zero_copy_only=False)
    return found


def _numbers(values: pa.Array, is_valid: Booleans) -> Doubles:
    return np.where(is_valid, values.fill_null(0.0).to_numpy(zero_copy_only=False), 0.0)

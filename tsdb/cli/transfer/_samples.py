"""Samples as Prometheus remote write has them: a series is its labels and its samples, all encoded together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from tsdb.cli.transfer._batches import SeriesBatch
from tsdb.ingest.protobuf import encode_field, encode_varint

SAMPLES_MAX = 20_000
"""How many samples one request has at most."""
_SHORT_TIMES = (1 << 35, 1 << 42)
"""Milliseconds of the years 1971 to 2109: as varints they all take six bytes."""
_POINT_BYTES = 18

Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]


def encode_labels(labels: Mapping[str, str]) -> bytes:
    """The labels of a series, sorted by name as the protocol wants them."""
    return b"".join(
        encode_field(1, encode_field(1, name.encode()) + encode_field(2, value.encode()))
        for name, value in sorted(labels.items())
    )


def encode_points(times: Times, values: Floats) -> bytes:
    """The samples of a series: each a field with a value and a time in milliseconds."""
    low, high = _SHORT_TIMES
    if not len(times) or times.min() < low or times.max() >= high:
        pairs = zip(times.tolist(), values, strict=True)
        return b"".join(
            encode_field(2, b"\x09" + np.float64(value).tobytes() + b"\x10" + encode_varint(at)) for at, value in pairs
        )
    points = np.empty((len(times), _POINT_BYTES), dtype=np.uint8)
    points[:, 0], points[:, 1], points[:, 2], points[:, 11] = 0x12, _POINT_BYTES - 2, 0x09, 0x10
    points[:, 3:11] = np.ascontiguousarray(values, dtype="<f8").view(np.uint8).reshape(-1, 8)
    unsigned = times.astype(np.uint64)
    for byte in range(6):
        points[:, 12 + byte] = (unsigned >> np.uint64(7 * byte)).astype(np.uint8) & 0x7F
    points[:, 12:17] |= 0x80
    return points.tobytes()


def batches_of(
    database: str, series: Iterable[tuple[bytes, Times, Floats, str]], *, samples_max: int = SAMPLES_MAX
) -> list[SeriesBatch]:
    """Divide series (labels, times, values, place) into requests, a long one into several."""
    found: list[SeriesBatch] = []
    waiting: list[tuple[bytes, int, str]] = []
    room = samples_max
    for labels, times, values, place in series:
        start = 0
        while start < len(times):
            stop = min(len(times), start + room)
            waiting.append((labels + encode_points(times[start:stop], values[start:stop]), stop - start, place))
            room -= stop - start
            start = stop
            if room == 0:
                found.append(_batch(database, waiting))
                waiting, room = [], samples_max
    if waiting:
        found.append(_batch(database, waiting))
    return found


def _batch(database: str, waiting: list[tuple[bytes, int, str]]) -> SeriesBatch:
    encoded, counts, places = zip(*waiting, strict=True)
    return SeriesBatch(database, encoded, counts, places)

"""The rows that remain of a million, of which one in ten is a newer version of another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from benchmarks import Measurement, measure
from tsdb._kernels import merge_dedup, sort_keys

ROWS = 1_000_000
SERIES = 1000
FIELDS = 10


def main() -> Iterator[Measurement]:
    random = np.random.default_rng(1)
    rank = np.concatenate([np.arange(ROWS * 9 // 10), random.integers(0, ROWS * 9 // 10, ROWS // 10)])
    ids = random.integers(0, 2**64, SERIES, dtype=np.uint64)
    series, ts = pa.array(ids[rank % SERIES]), pa.array(rank // SERIES)
    op = pa.array(random.random(ROWS) < 0.01).cast(pa.uint8())
    order = sort_keys(series, ts)
    holes = [pa.array(random.random(ROWS) < 0.8) for _ in range(FIELDS)]
    arguments = (series, ts, op, order)
    yield merge("last_row", arguments, "last_row", [])
    yield merge(f"last_non_null, {FIELDS} fields without nulls", arguments, "last_non_null", [None] * FIELDS)
    yield merge(f"last_non_null, {FIELDS} fields, a fifth null", arguments, "last_non_null", holes)
    ordered = tuple(pa.array(column).take(pa.array(order, pa.uint32())) for column in (series, ts, op))
    identity = pa.array(np.arange(ROWS, dtype=np.uint32))
    yield merge("last_row, rows already in order", (*ordered, identity), "last_row", [])


def merge(
    what: str, arguments: tuple[Any, ...], mode: Literal["last_row", "last_non_null"], valid: list[Any]
) -> Measurement:
    series, ts, op, order = arguments
    return measure(what, lambda: merge_dedup(series, ts, op, order, mode=mode, valid=valid), amount=ROWS)

"""Rows for tests, written as people would say them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tsdb.ingest import TableRows
from tsdb.model import DataType, make_tags


def make_rows(
    table: str,
    rows: Sequence[dict[str, object]],
    *,
    tags: Sequence[str] = ("host",),
    unit: str = "ns",
    columns: tuple[str, ...] = (),
    database: str | None = None,
    types: dict[str, DataType] | None = None,
    kinds: dict[str, pa.DataType] | None = None,
) -> TableRows:
    """Make rows of dictionaries; `time` is the time, the names in `tags` are tags, everything else is a field."""
    keys = [tuple(row.get(tag) for tag in tags) for row in rows]
    series = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    names = dict.fromkeys(name for row in rows for name in row if name not in tags and name != "time")
    arrays = [pa.array([key[at] for key in series], pa.string()) for at in range(len(tags))]
    return TableRows(
        table=table,
        tags=make_tags(arrays, list(tags), len(series)),
        series_index=np.array([series[key] for key in keys], dtype=np.uint32),
        times=np.array([row["time"] for row in rows], dtype=np.int64),
        unit=unit,
        fields={name: pa.array([row.get(name) for row in rows], (kinds or {}).get(name)) for name in names},
        columns=columns,
        places=np.arange(1, len(rows) + 1, dtype=np.int64),
        database=database,
        types=types or {},
    )

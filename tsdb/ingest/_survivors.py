"""Rows without those that were refused, for protocols in which one bad row does not decide over the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tsdb.ingest.rows import Rejection, TableRows


def drop_rejected(tables: Sequence[TableRows], rejections: Iterable[Rejection]) -> list[TableRows]:
    """Drop the rows at the places of rejections; a rejection without a place takes all rows of its table."""
    gone: set[str] = set()
    places: dict[str, set[int]] = {}
    for each in rejections:
        if each.place is None:
            gone.add(each.table)
        else:
            places.setdefault(each.table, set()).add(each.place)
    left = []
    for rows in tables:
        if rows.table in gone:
            continue
        kept = _without(rows, places[rows.table]) if rows.table in places else rows
        if kept.rows:
            left.append(kept)
    return left


def _without(rows: TableRows, places: set[int]) -> TableRows:
    if rows.places is None:
        return replace(rows, series_index=rows.series_index[:0], times=rows.times[:0], fields={})
    keep = ~np.isin(rows.places, np.fromiter(places, np.int64))
    # A series that has no row left must not bring its tags into the table.
    used, series_index = np.unique(rows.series_index[keep], return_inverse=True)
    mask = pa.array(keep)
    return replace(
        rows,
        tags=rows.tags.take(pa.array(used)),
        series_index=series_index.astype(np.uint32),
        times=rows.times[keep],
        fields={name: column.filter(mask) for name, column in rows.fields.items()},
        places=rows.places[keep],
        known=None,
    )

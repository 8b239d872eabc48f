"""Rows without those that were refused, for protocols in which one bad row does not decide over the others.

A rejection stands for many rows and names the first of them. Which the others are follows from what was refused: all
rows of a table, all that have a value in a column, all of the series that have a tag. The number of rows in the
rejection confirms it; where it does not, only the first row is taken for refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.ingest.rows import Rejection, TableRows

Mask: TypeAlias = npt.NDArray[np.bool_]


def drop_rejected(
    tables: Sequence[TableRows], rejections: Iterable[Rejection]
) -> tuple[list[TableRows], dict[int, str]]:
    """Return the rows that were not refused, and the reasons for the others by their places."""
    reasons: dict[int, str] = {}
    told: dict[str, list[Rejection]] = {}
    for each in rejections:
        told.setdefault(each.table, []).append(each)
    left = []
    for rows in tables:
        gone = np.zeros(rows.rows, np.bool_)
        for rejection in told.get(rows.table, ()):
            mask = _rejected_rows(rows, rejection)
            if rows.places is not None:
                for place in rows.places[mask].tolist():
                    reasons.setdefault(place, rejection.reason)
            gone |= mask
        if not gone.any():
            left.append(rows)
        elif not gone.all():
            left.append(_keep(rows, ~gone))
    return left, reasons


def _rejected_rows(rows: TableRows, rejection: Rejection) -> Mask:
    everything = np.ones(rows.rows, np.bool_)
    if rejection.place is None or rows.places is None or rejection.rows == rows.rows:
        return everything
    first: Mask = rows.places == rejection.place
    if rejection.rows == 1 or not first.any():
        return first
    having = rows_with(rows, rejection.column)
    return having if int(np.count_nonzero(having)) == rejection.rows else first


def rows_with(rows: TableRows, column: str | None) -> Mask:
    """Return which rows have a value in a column."""
    if column is not None and column in rows.tag_names:
        valid = np.asarray(rows.read_tags().column(column).is_valid().to_numpy(zero_copy_only=False), np.bool_)
        return np.asarray(valid[rows.series_index], np.bool_)
    field = rows.fields.get(column or "")
    if field is None:
        return np.zeros(rows.rows, np.bool_)
    return np.asarray(field.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _keep(rows: TableRows, keep: Mask) -> TableRows:
    # A series that has no row left must not bring its tags into the table.
    used, series_index = np.unique(rows.series_index[keep], return_inverse=True)
    mask = pa.array(keep)
    return replace(
        rows,
        tags=rows.read_tags().take(pa.array(used)),
        series_index=series_index.astype(np.uint32),
        times=rows.times[keep],
        fields={name: column.filter(mask) for name, column in rows.fields.items()},
        places=None if rows.places is None else rows.places[keep],
        known=None,
    )

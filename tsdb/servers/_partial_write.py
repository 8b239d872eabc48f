"""Writing what fits: rows that the database refuses are left out and told, the others are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tsdb.ingest import IngestRejected, Rejection, TableRows, WriteOutcome, drop_rejected

ATTEMPTS_MAX = 8
"""How often what is left is tried again. Each attempt refuses at least one row, so more would help few requests."""


def write_what_fits(
    rows: Sequence[TableRows], write: Callable[[Sequence[TableRows]], WriteOutcome]
) -> tuple[WriteOutcome, list[Rejection]]:
    """Write rows; return what was done, and everything that was refused on the way."""
    rejections: list[Rejection] = []
    left = list(rows)
    for _ in range(ATTEMPTS_MAX):
        if not left:
            break
        try:
            outcome = write(left)
            return outcome, [*rejections, *outcome.rejections]
        except IngestRejected as error:
            rejections += error.rejections
            left = drop_rejected(left, error.rejections)
    rejections += [
        Rejection(each.table, "the rows were not written because too many others of the request were refused", place)
        for each in left
        for place in ([None] if each.places is None else each.places.tolist())
    ]
    return WriteOutcome(rows=0), rejections

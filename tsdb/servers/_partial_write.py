"""Partial writes: rows that the database rejects are left out and reported, the others are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tsdb.ingest import IngestRejected, Rejection, TableRows, WriteOutcome, drop_rejected

ATTEMPTS_MAX = 8
"""How often the remaining rows are retried. One attempt finds nearly all rejected rows."""


def write_what_fits(
    rows: Sequence[TableRows], write: Callable[[Sequence[TableRows]], WriteOutcome]
) -> tuple[WriteOutcome, list[Rejection], dict[int, str]]:
    """Write rows; return what was done, what was refused on the way, and the reasons by the places of rows."""
    rejections: list[Rejection] = []
    reasons: dict[int, str] = {}
    left = list(rows)
    for _ in range(ATTEMPTS_MAX):
        if not left:
            break
        try:
            outcome = write(left)
            if not outcome.rejections:
                return outcome, rejections, reasons
            # A dry run reports rejections instead of raising them.
            refused = outcome.rejections
        except IngestRejected as error:
            refused = error.rejections
        rejections += refused
        left, more = drop_rejected(left, refused)
        reasons = more | reasons
    unwritten = "not written, because too many other rows of the request were refused"
    for each in left:
        rejections.append(Rejection(each.table, unwritten, rows=each.rows))
        reasons |= {} if each.places is None else dict.fromkeys(each.places.tolist(), unwritten)
    return WriteOutcome(rows=0), rejections, reasons

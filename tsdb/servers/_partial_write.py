"""Writing what fits: rows that the database refuses are left out and told, the others are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tsdb.ingest import IngestRejected, Rejection, TableRows, WriteOutcome, drop_rejected

ATTEMPTS_MAX = 8
"""How often what is left is tried again. One attempt learns of all rows that are refused, save a few odd cases."""


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
            # A dry run tells what it would refuse instead of raising it.
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

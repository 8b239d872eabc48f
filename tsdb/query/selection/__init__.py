"""Plain selections: conditions as filters of a table, and rows read without a plan."""

from tsdb.query.selection._conditions import conjuncts, fit_condition, is_canonical_time
from tsdb.query.selection._records import PlainSelection, SelectionRecords, fit_selection

__all__ = [
    "PlainSelection",
    "SelectionRecords",
    "conjuncts",
    "fit_condition",
    "fit_selection",
    "is_canonical_time",
]

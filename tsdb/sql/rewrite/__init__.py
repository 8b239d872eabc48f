"""Queries as DataFusion understands them: the user's own text with local edits.

A query is never parsed and printed again, because the names of result columns come from its text. Each module here
finds one kind of thing that DataFusion reads differently and notes an edit for it; all edits are applied once at the
end. A query without such things is handed on as the very same text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tsdb.sql.function_headers import visible_header
from tsdb.sql.rewrite._aggregate_order import edit_aggregate_order
from tsdb.sql.rewrite._bounds import BOUNDED, COUNTED, edit_bounds, strip_bounds
from tsdb.sql.rewrite._calendar import Calendar, needs_calendar
from tsdb.sql.rewrite._casts import edit_casts, edit_time_literals
from tsdb.sql.rewrite._clauses import CLAUSE_WORDS, edit_clauses, edit_from_first, edit_windows
from tsdb.sql.rewrite._comparisons import Comparisons, strip_literals
from tsdb.sql.rewrite._derived import edit_derived, strip_derived
from tsdb.sql.rewrite._distinct_from import edit_distinct_from
from tsdb.sql.rewrite._distinct_order import edit_distinct_order
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._exists import edit_exists
from tsdb.sql.rewrite._functions import EDITED_NAMES, edit_at_signs, edit_calls
from tsdb.sql.rewrite._integers import edit_integers
from tsdb.sql.rewrite._intervals import edit_intervals, expand_interval
from tsdb.sql.rewrite._layout import KEYWORDS, TokenLayout
from tsdb.sql.rewrite._medians import MEDIANS, edit_medians, strip_medians
from tsdb.sql.rewrite._null_members import edit_null_members
from tsdb.sql.rewrite._refused import refuse_clauses
from tsdb.sql.rewrite._same_names import name_of_same, rename_alias, rename_item
from tsdb.sql.rewrite._tables import (
    ColumnTypes,
    TableRef,
    find_tables,
    keeps_order,
    limit_of,
    reads_in_order,
    redefined_names,
)
from tsdb.sql.rewrite._user_columns import USER, quote_user
from tsdb.sql.rewrite._window_filters import edit_window_filters
from tsdb.sql.statements import Dialect

__all__ = [
    "BOUNDED",
    "KEYWORDS",
    "USER",
    "ColumnTypes",
    "Edits",
    "RewriteRules",
    "TableRef",
    "TokenLayout",
    "expand_interval",
    "find_tables",
    "header_of",
    "keeps_order",
    "limit_of",
    "name_of_same",
    "quote_user",
    "reads_in_order",
    "redefined_names",
    "refuse_clauses",
    "rename_alias",
    "rename_item",
    "rewrite",
]


# What any of the marks that edits leave in the names of result columns has.
_MARKED = re.compile(r"__|coalesce\(|arrow_cast\(")


# Without these characters, no operation can leave its type.
_ARITHMETIC = frozenset("+-*")


def _no_variable(name: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class RewriteRules:
    """The context of the edits of a query."""

    dialect: Dialect = Dialect.GENERIC
    columns: ColumnTypes = field(default_factory=ColumnTypes)
    zone: str = "UTC"
    variable: Callable[[str], str | int | None] = _no_variable
    """The value of a system variable, by its name in lower case."""
    derived: Callable[[], ColumnTypes] = ColumnTypes
    """The types of columns of subqueries and of tables that come with the query; it may take a plan to know them."""
    is_wide: bool = False
    """Some times may lie beyond what nanoseconds hold."""


def rewrite(layout: TokenLayout, rules: RewriteRules) -> str:
    """Return the text of a query for DataFusion."""
    edits = Edits(layout.text)
    words = set(layout.words)
    has_calendar = needs_calendar(layout, rules.zone, is_wide=rules.is_wide)
    if not has_calendar and ("::" in layout.text or "CAST" in words or "TRY_CAST" in words):
        edit_casts(layout, edits)
    if not has_calendar and "TIMESTAMP" in words:
        edit_time_literals(layout, edits)
    if "INTERVAL" in words:
        edit_intervals(layout, edits)
    if rules.columns.tables:
        Comparisons(layout, edits, rules.dialect, rules.columns, rules.zone).edit()
    if not words.isdisjoint(MEDIANS):
        edit_medians(layout, edits, rules.dialect, rules.columns)
    if has_calendar:
        Calendar(layout, edits, rules.dialect, rules.columns, rules.zone, is_wide=rules.is_wide).edit()
    if "@@" in layout.text:
        edit_at_signs(layout, edits, rules.variable)
    if not has_calendar and not words.isdisjoint(EDITED_NAMES):
        edit_calls(layout, edits)
    if layout.words.count("SELECT") > 2:
        edit_derived(layout, edits, rules.dialect)
    if "EXISTS" in words:
        edit_exists(layout, edits)
    if "WINDOW" in words:
        edit_windows(layout, edits, rules.dialect)
    if not words.isdisjoint(CLAUSE_WORDS):
        edit_clauses(layout, edits, rules.dialect)
    if layout.words.count("FROM") > layout.words.count("SELECT") - layout.text.count("|>"):
        edit_from_first(layout, edits)
    if "DISTINCT" in words and "IS" in words:
        edit_distinct_from(layout, edits)
    if "IN" in words and "NULL" in words:
        edit_null_members(layout, edits)
    if "OVER" in words and "WHERE" in words:
        edit_window_filters(layout, edits)
    if not words.isdisjoint(COUNTED):
        edit_bounds(layout, edits)
    if "ORDER" in words and "," in layout.text:
        edit_aggregate_order(layout, edits, rules.dialect)
    # What is edited so far becomes part of the operands.
    if "SUM" in words or not _ARITHMETIC.isdisjoint(layout.text) or "<<" in layout.text or ">>" in layout.text:
        edit_integers(layout, edits, rules.dialect, (rules.columns, rules.derived))
    if "DISTINCT" in words and "ORDER" in words:
        edit_distinct_order(layout, edits)
    return edits.render() if edits else layout.text


def header_of(name: str) -> str:
    """Return the name of a result column as the user expects it, from the name DataFusion gave it."""
    if not _MARKED.search(name):
        return name
    return strip_literals(strip_medians(strip_derived(visible_header(strip_bounds(name)))))

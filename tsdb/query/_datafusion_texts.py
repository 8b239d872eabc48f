"""Texts of DataFusion that decide what happens: of its errors, where it has no codes, and of its printed plans.

`tests/query/test_datafusion_texts.py` has DataFusion produce each of them, so that an upgrade which changes a text
fails there. Rules that only word a message are in `errors/_rules.py`.
"""

import re

PARSER_ERROR = re.compile(r'SQL error: (?:ParserError|TokenizerError)\("((?:[^"\\]|\\.)*)"\)', re.DOTALL)
PARSER_MESSAGE = re.compile(r"(?P<what>.*?)(?: at Line: (?P<line>\d+), Column: (?P<column>\d+))?", re.DOTALL)
EXPECTED_TOKEN = re.compile(r"Expected: (?P<expected>.*), found: (?P<found>.*)", re.DOTALL)
NO_OPERATOR = re.compile(r"No infix parser for token")
END_OF_STATEMENT = "end of statement"
RECURSION_LIMIT = re.compile(r"SQL error: RecursionLimitExceeded")

MISSING_TABLE = re.compile(r"(?<!function )\btable '([^'.]+\.[^'.]+\.[^']+)' not found")
NO_FIELD = re.compile(
    r"No field named (?P<name>.+?)\.(?: Did you mean '[^']*'\?)?(?: Valid fields are (?P<valid>.*)\.)?$"
)
NO_FUNCTION = re.compile(r"Invalid function '(?P<name>[^']*)'")
SAME_NAMES = re.compile(
    r'unique expression names but the expression .* at position (\d+) and "?(.*?)"? at position (\d+)', re.DOTALL
)
COLUMN_AND_ALIAS = re.compile(
    r'contains qualified field name \S+ and unqualified field name "?(.*?)"? which would be ambiguous'
)
FORBIDDEN = re.compile(r"Error during planning: (?:Statement|DDL|DML) not supported: ")
NOT_IMPLEMENTED = "This feature is not implemented: "
UNSUPPORTED_LIMIT = f"{NOT_IMPLEMENTED}Unsupported LIMIT"
CORRELATED = "Correlated scalar subquery can only be used in "

INTERNAL = re.compile(r"(?:^|: |caused by\s+)Internal error: ")
COMPUTE_ERROR = "Compute error: "
"""About values, also within an internal error."""
PYTHON_ERROR = re.compile(r"PyErr \{ type: <class '([^']*)'>, value: \w+\((.*?)\), traceback: ", re.DOTALL)
"""An error raised by a function or table of ours."""
BRIDGE_FAILURE = re.compile(r"unsupported operand type\(s\) for [&|]: .*(?:Scalar|Expression)")
"""A filter cannot be converted for a table, because part of it is a constant."""
OUT_OF_MEMORY = "Resources exhausted: "
CAPACITY_OVERFLOW = "capacity overflow"
"""The panic of Rust at a value larger than the address space."""
RUN_AGAIN = re.compile(r"partition not used yet|inner future panicked")
"""The panic of a join that runs out of memory, and reads its input a second time where that works only once; or that
of another thread which waits for the same input."""

PLANNED_COLUMN = re.compile(r"(?<=[\[ ])([^\s\[\]:,]+):(\w+)")
"""Name and type of a column in a printed plan with schemas."""
SCAN_LIMIT = r"TableScan: (?:[\w.]+\.)?{table}\b.*?fetch=(\d+)"
"""The limit that a printed plan applies to the scan of a table."""
ACTUAL_ROWS = re.compile(r'"Actual Rows": (\d+)')
"""How many rows a step gave, in the JSON of EXPLAIN ANALYZE."""

"""Which statement failed: errors carry its text to the response and to the log."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tsdb.database.sessions.users import discreet_text
from tsdb.errors import TsdbError
from tsdb.sql import Parsed, parse
from tsdb.sql.statements import Dialect

STATEMENT_CHARS_MAX = 2000
"""How much of a statement is kept for the log."""

_SECRET = re.compile(r"\b(?:identified|password)\b", re.IGNORECASE)


def parse_noted(text: str, dialect: Dialect) -> Sequence[Parsed]:
    """Parse a text; an error about it carries the text."""
    try:
        return parse(text, dialect)
    except TsdbError as error:
        note_text(error, text)
        raise


def note_statement(error: BaseException, parsed: Parsed) -> None:
    """Let an error carry the statement that failed, unless it carries one."""
    if isinstance(error, TsdbError) and error.statement is None:
        error.statement = discreet_text(parsed)[:STATEMENT_CHARS_MAX]


def note_text(error: TsdbError, text: str) -> None:
    """Let an error carry a text that cannot be parsed; what follows a word about passwords is left out."""
    if error.statement is None:
        found = _SECRET.search(text)
        shown = text if found is None else f"{text[: found.end()]} ******"
        error.statement = shown[:STATEMENT_CHARS_MAX]

"""A text into statements and meta commands, as far as it has arrived.

SQL       a statement ends at `;`
PromQL    an expression ends at `;`, or at the end of a line that leaves no bracket open
\\…       a meta command takes its line
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from tsdb.errors import InvalidSyntax
from tsdb.sql import Dialect
from tsdb.sql.lexer import STATEMENT_BYTES_MAX, skip_blanks, statement_end


class Language(StrEnum):
    """What is typed."""

    SQL = "sql"
    PROMQL = "promql"


class Entered(NamedTuple):
    """One thing to run."""

    text: str
    is_meta: bool


class _Source(Protocol):
    def read_more(self) -> str:
        """Return the next text; an empty one at the end."""


@dataclass
class ScriptReader:
    """Takes entries from a source one by one. The language is asked for each: a meta command may change it."""

    source: _Source
    buffer: str = ""
    is_at_end: bool = False
    line: int = 1
    """The line on which the entry that was returned last begins."""
    _lines_passed: int = 0

    def next(self, language: Language) -> Entered | None:
        """Return what is to be run next, None at the end."""
        while True:
            found = take_entry(self.buffer, language, is_whole=self.is_at_end)
            if found is not None:
                entered, rest = found
                self._count_lines(entered, rest)
                self.buffer = rest
                return entered
            if self.is_at_end:
                return None
            self._read_more()

    def _count_lines(self, entered: Entered, rest: str) -> None:
        passed = self.buffer[: len(self.buffer) - len(rest)]
        self.line = 1 + self._lines_passed + passed.count("\n", 0, passed.rfind(entered.text))
        self._lines_passed += passed.count("\n")

    def _read_more(self) -> None:
        """Read on to something that may be the end of an entry: a text without one needs no look at it."""
        pieces = [self.buffer]
        size = len(self.buffer)
        while True:
            more = self.source.read_more()
            pieces.append(more)
            size += len(more)
            if size > STATEMENT_BYTES_MAX:
                raise InvalidSyntax(f"a statement of the script is longer than {STATEMENT_BYTES_MAX} characters")
            if not more:
                self.is_at_end = True
            if not more or ";" in more or "\n" in more:
                break
        self.buffer = "".join(pieces)


def take_entry(text: str, language: Language, *, is_whole: bool) -> tuple[Entered, str] | None:
    """Take the first complete entry off a text; None if there is none. At the end of the text `;` is not needed."""
    start = _skip_empty(text, language)
    rest = text[start:]
    if rest.startswith("\\"):
        line, found, after = rest.partition("\n")
        return (Entered(line.strip(), is_meta=True), after) if found or is_whole else None
    if not rest.strip():
        return None
    end = _sql_end(rest, is_whole) if language is Language.SQL else _promql_end(rest, is_whole)
    if end is None:
        return None
    return Entered(rest[:end].strip(), is_meta=False), rest[end + 1 :]


def _skip_empty(text: str, language: Language) -> int:
    at = 0
    while True:
        if language is Language.SQL:
            try:
                at = skip_blanks(text, at, Dialect.GENERIC)
            except InvalidSyntax:
                return at
        else:
            at = _skip_promql_blanks(text, at)
        if at >= len(text) or text[at] != ";":
            return at
        at += 1


def _skip_promql_blanks(text: str, at: int) -> int:
    while at < len(text) and (text[at].isspace() or text[at] == "#"):
        at = at + 1 if text[at] != "#" else _line_end(text, at)
    return at


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _sql_end(text: str, is_whole: bool) -> int | None:
    try:
        end = statement_end(text, 0, Dialect.GENERIC)
    except InvalidSyntax:
        return len(text) if is_whole else None
    return end if end < len(text) or is_whole else None


def _promql_end(text: str, is_whole: bool) -> int | None:
    depth = 0
    for at, character in _outside_strings(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == ";" or (character == "\n" and depth <= 0):
            return at
    return len(text) if is_whole else None


def _outside_strings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the characters of a PromQL text that are in no string and no comment."""
    at = 0
    while at < len(text):
        character = text[at]
        if character in "\"'`":
            at = _string_end(text, at)
        elif character == "#":
            at = _line_end(text, at)
        else:
            yield at, character
            at += 1


def _string_end(text: str, start: int) -> int:
    quote, at = text[start], start + 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" and quote != "`" else 1
    return at + 1


def is_complete(text: str, language: Language) -> bool:
    """Whether Enter runs what was typed, or opens a new line."""
    found = take_entry(text + "\n", language, is_whole=False)
    return found is not None or not text.strip()

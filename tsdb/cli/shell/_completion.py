"""What Tab offers: by the word before the cursor and what stands before it.

\\…                          meta commands and their words
FROM, JOIN, INTO, TABLE …    tables and databases
t.                           columns of t, or tables of a database t
anything else in SQL         columns of the tables that are named, functions, keywords
metric{label="               values of a label
metric{                      labels of a metric
anything else in PromQL      metrics and functions
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from tsdb.cli.shell._meta import COMMANDS
from tsdb.cli.shell._names import PROMQL_WORDS, SQL_FUNCTIONS, SQL_KEYWORDS, ServerNames
from tsdb.cli.shell._shell import ShellSettings
from tsdb.cli.shell._statements import Language
from tsdb.cli.shown import FORMAT_NAMES
from tsdb.sql.keywords import RESERVED

_WORD = re.compile(r"[\w.]*$|\"[^\"]*$")
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_TABLE_BEFORE = re.compile(r"\b(?:from|join|into|update|table|desc|describe|truncate)\s+$", re.IGNORECASE)
_DATABASE_BEFORE = re.compile(r"\b(?:use|database|schema)\s+$", re.IGNORECASE)
_NAMED_TABLES = re.compile(r"\b(?:from|join|into|update)\s+([\w.\"]+)", re.IGNORECASE)
_LABEL_VALUE = re.compile(r"([a-zA-Z_:][\w:]*)?\{[^{}]*?(\w+)\s*(?:=~|!~|!=|=)\s*\"([^\"]*)$")
_LABEL = re.compile(r"([a-zA-Z_:][\w:]*)?\{(?:[^{}]*,)?\s*(\w*)$")
_BY = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\((?:[^()]*,)?\s*(\w*)$")
OFFERED_MAX = 500


class ShellCompleter(Completer):
    """Offers names for what is typed; asks the server on the thread that completes."""

    def __init__(self, settings: ShellSettings, names: ServerNames) -> None:
        self._settings = settings
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        if before.lstrip().startswith("\\"):
            found, word = self._meta(before.lstrip())
        elif self._settings.language is Language.SQL:
            found, word = self._sql(before, document.text)
        else:
            found, word = self._promql(before)
        yield from _offered(found, word)

    def _meta(self, before: str) -> tuple[Iterable[str], str]:
        name, blank, rest = before[1:].partition(" ")
        if not blank:
            return [f"\\{each}" for each in COMMANDS], before
        words: dict[str, Iterable[str]] = {
            "d": _quoted(self._names.tables(self._settings.database)) if name == "d" else (),
            "c": self._names.databases(self._settings.database) if name == "c" else (),
            "format": FORMAT_NAMES,
            "timing": ("on", "off"),
            "x": ("on", "off"),
            "promql": ("on", "off"),
            "i": _files(rest),
            "o": _files(rest),
        }
        if name == "plot":
            return self._sql(rest, rest) if self._settings.language is Language.SQL else self._promql(rest)
        return words.get(name, ()), rest

    def _sql(self, before: str, text: str) -> tuple[Iterable[str], str]:
        word = (_WORD.search(before) or [""])[0]
        start = before[: len(before) - len(word)]
        database = self._settings.database
        if _DATABASE_BEFORE.search(start):
            return _quoted(self._names.databases(database)), word
        owner, dot, _ = word.rpartition(".")
        if dot:
            return [f"{owner}.{name}" for name in self._inside(owner)], word
        if _TABLE_BEFORE.search(start):
            return [*_quoted(self._names.tables(database)), *_quoted(self._names.databases(database))], word
        if not word and not start.strip():
            return SQL_KEYWORDS, word
        functions = (f"{name}(" for name in SQL_FUNCTIONS)
        return [*self._named_columns(text), *functions, *SQL_KEYWORDS, *_quoted(self._names.tables(database))], word

    def _inside(self, owner: str) -> list[str]:
        """The columns of a table, or the tables of a database."""
        name = owner.strip('"')
        columns = self._names.columns(self._settings.database).get(name)
        if columns is not None:
            return _quoted(columns)
        return _quoted(self._names.tables(name)) if name in self._names.databases(self._settings.database) else []

    def _named_columns(self, text: str) -> list[str]:
        """The columns of the tables that the statement names, or of all if it names none yet."""
        tables = self._names.columns(self._settings.database)
        named = [each.strip('"') for each in _NAMED_TABLES.findall(text)]
        chosen = [name for name in named if name in tables] or list(tables)
        return _quoted(dict.fromkeys(column for name in chosen for column in tables[name]))

    def _promql(self, before: str) -> tuple[Iterable[str], str]:
        database = self._settings.database
        if (found := _LABEL_VALUE.search(before)) is not None:
            return [f'{value}"' for value in self._names.values(database, found[2], found[1])], found[3]
        if (found := _LABEL.search(before)) is not None:
            return [name for name in self._names.labels(database, found[1]) if name != "__name__"], found[2]
        if (found := _BY.search(before)) is not None:
            return [name for name in self._names.labels(database, None) if name != "__name__"], found[1]
        word = (re.search(r"[\w:]*$", before) or [""])[0]
        return [*self._names.metrics(database), *PROMQL_WORDS], word


def _offered(names: Iterable[str], word: str) -> Iterator[Completion]:
    wanted, offered = word.lower(), 0
    for name in names:
        if name.lower().startswith(wanted) and name != word:
            # Keywords follow the case in which the user began.
            text = name.lower() if name.isupper() and word and word.islower() else name
            yield Completion(text, start_position=-len(word))
            offered += 1
            if offered == OFFERED_MAX:
                return


def _quoted(names: Iterable[str]) -> list[str]:
    """Names as SQL has to have them."""
    return [
        name if _PLAIN_NAME.fullmatch(name) and name.upper() not in RESERVED else '"' + name.replace('"', '""') + '"'
        for name in names
    ]


def _files(text: str) -> list[str]:
    start = Path(text).expanduser()
    folder = start if text.endswith("/") or not text else start.parent
    try:
        found = sorted(folder.iterdir())[:OFFERED_MAX]
    except OSError:
        return []
    return [f"{path}/" if path.is_dir() else str(path) for path in found]

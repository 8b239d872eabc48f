"""Case files: SQL and what it must answer, one after the other, as people would try it.

    # a comment
    > SELECT host, count(*) AS n
      FROM cpu GROUP BY host          lines that continue a statement begin with blanks
    host | n                          rows: the names of the columns, then one line per row
    a    | 2
    NULL | 1

    > INSERT INTO cpu VALUES (…)
    ok 3                              the number of affected rows

    > SELECT * FROM nope
    error 4001 nope                   the code, and words that the message contains

    > SELECT * FROM cpu
    none                              no rows, whatever the columns

A line that begins with `!` tells the runner something: `!restart` closes the database and opens it again, `!flush t`
flushes a table, `!remove f` removes a file of COPY, `!zone +08:00`, `!database d` and `!channel mysql` change the
session, `!unordered` lets the rows of the next statement come in any order. Each file starts with an empty database.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tsdb.components._local import LocalDatabase, LocalOptions, open_directory
from tsdb.database import Affected, Channel, DatabaseOptions, Session, read_all
from tsdb.engine import EngineOptions, WalSettings
from tsdb.errors import TsdbError
from tsdb.query import QueryEngineOptions
from tsdb.store import ObjectStore
from tsdb.units import Size


@dataclass(slots=True)
class Case:
    """One statement and its answer."""

    line: int
    text: str
    expected: list[str] = field(default_factory=list)
    directives: list[str] = field(default_factory=list)


def read_cases(path: Path) -> Iterator[Case]:
    """Yield the cases of a file."""
    current: Case | None = None
    directives: list[str] = []
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = raw.rstrip()
        if line.startswith("!"):
            if current is not None:
                yield current
                current = None
            directives.append(line[1:])
        elif line.startswith("> "):
            if current is not None:
                yield current
            current, directives = Case(number, line[2:], directives=directives), []
        elif not line or line.startswith("#"):
            continue
        elif current is None:
            raise ValueError(f"{path.name}:{number}: an answer without a statement")
        elif not current.expected and line.startswith(" "):
            current.text += "\n" + line
        else:
            current.expected.append(line)
    if current is not None:
        yield current


def open_case_database(directory: Path, *, workers: int = 0, store: ObjectStore | None = None) -> LocalDatabase:
    """Open the database of a directory as one thread needs it; its data files may lie in a store elsewhere."""
    return open_directory(
        directory,
        store=store,
        options=LocalOptions(
            engine=EngineOptions(num_workers=1, max_background_jobs=1),
            wal=WalSettings(ballast_bytes=Size(0)),
            query=QueryEngineOptions(spill_dir=directory / "spill", workers=workers),
            database=DatabaseOptions(copy_root=directory / "copy"),
            has_housekeeping=False,
        ),
    )


class CaseRunner:
    """A database in a directory, and the session the cases speak in."""

    def __init__(self, directory: Path, *, workers: int = 0, store: ObjectStore | None = None) -> None:
        """With workers, planned queries run in processes of their own."""
        self._store = store
        self._directory = directory
        self._workers = workers
        self._open: LocalDatabase = self._open_database()
        self._session = Session(channel=Channel.HTTP)

    def _open_database(self) -> LocalDatabase:
        return open_case_database(self._directory, workers=self._workers, store=self._store)

    def close(self) -> None:
        self._open.close()

    def direct(self, directive: str) -> None:
        """Do what a line with `!` says."""
        verb, _, argument = directive.partition(" ")
        if verb == "restart":
            self._open.close()
            self._open = self._open_database()
        elif verb == "flush":
            self.answer(f"ADMIN flush_table('{argument}')")
        elif verb == "remove":
            (self._directory / "copy" / argument).unlink()
        elif verb == "zone":
            self._session.time_zone = argument
        elif verb == "database":
            self._session.database = argument
        elif verb == "channel":
            self._session = Session(channel=Channel(argument))
        elif verb != "unordered":
            raise ValueError(f"there is no directive {verb!r}")

    def answer(self, text: str) -> list[str]:
        """Run a statement and render its answer the way case files write it."""
        lines: list[str] = []
        try:
            for output in self._open.database.execute(text, self._session):
                lines = [f"ok {output.rows}"] if isinstance(output, Affected) else render(read_all(output))
        except TsdbError as error:
            return [f"error {error.status.value} {error}"]
        return lines

    def check(self, case: Case) -> str | None:
        """Return what is wrong about the answer to a case, None when it is right."""
        for directive in case.directives:
            self.direct(directive)
        got, wanted = self.answer(case.text), case.expected
        if wanted and wanted[0].startswith("error "):
            _, code, words = [*wanted[0].split(" ", 2), ""][:3]
            is_right = got[0].startswith(f"error {code} ") and words.lower() in got[0].lower()
        elif wanted == ["none"]:
            is_right = len(got) <= 1 and not got[0].startswith(("ok", "error"))
        else:
            left, right = [_squeezed(line) for line in wanted], [_squeezed(line) for line in got]
            if "unordered" in case.directives:
                left, right = sorted(left), sorted(right)
            is_right = left == right
        if is_right:
            return None
        return "\n".join([f"line {case.line}: {case.text}", "wanted", *wanted, "got", *got])


def _squeezed(line: str) -> str:
    return "|".join(cell.strip() for cell in line.split("|"))


def render(table: pa.Table) -> list[str]:
    """Return the lines of a table."""
    columns = [[_cell(value) for value in _texts(column)] for column in table.columns]
    names = " | ".join(table.column_names)
    return [names, *(" | ".join(cells) for cells in zip(*columns, strict=True))]


def _cell(value: object) -> str:
    return "NULL" if value is None else str(value).replace("\n", "\\n")


def _texts(column: pa.ChunkedArray) -> list[object]:
    kind = column.type
    if pt.is_timestamp(kind):
        text = column.cast(pa.timestamp(kind.unit)).cast(pa.string())
        return list(pc.replace_substring(text, " ", "T", max_replacements=1).to_pylist())
    if pt.is_boolean(kind):
        return [None if value is None else str(value).lower() for value in column.to_pylist()]
    if pt.is_binary(kind):
        return [None if value is None else value.hex() for value in column.to_pylist()]
    return list(column.to_pylist())

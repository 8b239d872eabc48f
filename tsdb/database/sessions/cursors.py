"""The cursors of PostgreSQL: DECLARE, FETCH, MOVE and CLOSE.

A cursor reads its query as far as rows are asked for. One that is declared with SCROLL also keeps the rows it has read,
to go back to them; all such cursors of a session keep at most `SCROLL_BYTES_MAX`.

The position of a cursor is the number of the row that was read last: 0 is before the first row, and one more than there
are rows is behind the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from tsdb.database._services import Services
from tsdb.database.showing.headings import with_headings
from tsdb.errors import InvalidArguments
from tsdb.query import Affected, Output, Records, Session, TableRecords
from tsdb.sql.statements import FETCH_ALL, CloseCursor, CursorStep, DeclareCursor, FetchCursor, MoveCursor

CURSORS_MAX = 100
SCROLL_BYTES_MAX = 64 << 20
"""How much the scrollable cursors of a session keep."""


@dataclass(slots=True)
class Cursor:
    """A query that is read forward, piece by piece."""

    records: Records
    batches: Iterator[pa.RecordBatch]
    rest: list[pa.RecordBatch] = field(default_factory=list)

    @property
    def kept_bytes(self) -> int:
        return 0

    def step(self, step: CursorStep, bytes_max: int) -> pa.Table:
        """Return the rows of a step."""
        if step.kind == "absolute" or step.count < 0 or (step.kind == "relative" and step.count == 0):
            raise InvalidArguments(
                "the cursor can only read forward", hint="declare it with SCROLL: DECLARE c SCROLL CURSOR FOR …"
            )
        if step.kind == "relative":
            self._read(step.count - 1)
            return self._read(1)
        return self._read(step.count)

    def _read(self, count: int) -> pa.Table:
        taken: list[pa.RecordBatch] = []
        while count > 0:
            if not self.rest:
                following = next(self.batches, None)
                if following is None:
                    break
                self.rest.append(following)
            batch = self.rest.pop()
            taken.append(batch.slice(0, count))
            if batch.num_rows > count:
                self.rest.append(batch.slice(count))
            count -= taken[-1].num_rows
        return pa.Table.from_batches(taken, self.records.schema)


@dataclass(slots=True)
class ScrollCursor:
    """A query whose rows are kept as they are read."""

    records: Records
    batches: Iterator[pa.RecordBatch]
    kept: list[pa.RecordBatch] = field(default_factory=list)
    kept_rows: int = 0
    kept_bytes: int = 0
    position: int = 0

    def step(self, step: CursorStep, bytes_max: int) -> pa.Table:
        """Return the rows of a step, in the order in which the cursor comes to them."""
        if step.kind == "forward" and step.count != 0:
            return self._walk(step.count, bytes_max)
        return self._jump(step, bytes_max)

    def _walk(self, count: int, bytes_max: int) -> pa.Table:
        if count < 0:
            first = max(self.position + count, 1)
            rows = self._rows(first, self.position - 1)
            self.position = max(self.position + count, 0)
            return rows.take(pa.array(range(rows.num_rows - 1, -1, -1), pa.int64()))
        self._keep(self.position + count, bytes_max)
        last = self.position + count
        rows = self._rows(self.position + 1, min(last, self.kept_rows))
        self.position = min(last, self.kept_rows + 1)
        return rows

    def _jump(self, step: CursorStep, bytes_max: int) -> pa.Table:
        wanted = self.position + step.count if step.kind != "absolute" else step.count
        if step.kind == "absolute" and step.count < 0:
            self._keep(FETCH_ALL, bytes_max)
            wanted = self.kept_rows + 1 + step.count
        self._keep(wanted, bytes_max)
        self.position = min(max(wanted, 0), self.kept_rows + 1)
        return self._rows(self.position, self.position)

    def _keep(self, count: int, bytes_max: int) -> None:
        """Read until so many rows are kept, or all there are."""
        while self.kept_rows < count and (batch := next(self.batches, None)) is not None:
            if self.kept_bytes + batch.nbytes > bytes_max:
                raise InvalidArguments(
                    f"the scrollable cursors of a session keep at most {SCROLL_BYTES_MAX} bytes of rows",
                    hint="select fewer rows, or declare the cursor without SCROLL",
                )
            self.kept.append(batch)
            self.kept_rows += batch.num_rows
            self.kept_bytes += batch.nbytes

    def _rows(self, first: int, last: int) -> pa.Table:
        """Return the kept rows from one number to another, both included; those outside do not exist."""
        found, before = [], 0
        first, last = max(first, 1), min(last, self.kept_rows)
        for batch in self.kept:
            start, end = max(first - 1 - before, 0), min(last - before, batch.num_rows)
            if start < end:
                found.append(batch.slice(start, end - start))
            before += batch.num_rows
        return pa.Table.from_batches(found, self.records.schema)


def declare_cursor(statement: DeclareCursor, services: Services, session: Session) -> Affected:
    if statement.name in session.cursors:
        raise InvalidArguments(f"Cursor {statement.name} already exists")
    if len(session.cursors) >= CURSORS_MAX:
        raise InvalidArguments(f"a session has at most {CURSORS_MAX} cursors", hint="CLOSE some")
    text = statement.query.text
    records = with_headings(services.queries.query(text, session), text, session.dialect)
    kind = ScrollCursor if statement.is_scrollable else Cursor
    session.cursors[statement.name] = kind(records, iter(records))
    return Affected(0)


def fetch_cursor(statement: FetchCursor, services: Services, session: Session) -> Output:
    return TableRecords(_step(statement.name, statement.step, session))


def move_cursor(statement: MoveCursor, services: Services, session: Session) -> Affected:
    """Go as far as FETCH would; returns how many rows that are."""
    return Affected(_step(statement.name, statement.step, session).num_rows)


def _step(name: str, step: CursorStep, session: Session) -> pa.Table:
    cursor = _cursor(name, session)
    others = sum(each.kept_bytes for each in session.cursors.values() if each is not cursor)
    return cursor.step(step, SCROLL_BYTES_MAX - others)


def cursor_schema(name: str, session: Session) -> pa.Schema:
    """The columns of what a cursor reads."""
    return _cursor(name, session).records.schema


def close_cursor(statement: CloseCursor, services: Services, session: Session) -> Affected:
    if statement.name is None:
        close_cursors(session)
        return Affected(0)
    _cursor(statement.name, session).records.close()
    del session.cursors[statement.name]
    return Affected(0)


def close_cursors(session: Session) -> None:
    """Close all cursors of a session."""
    while session.cursors:
        _, cursor = session.cursors.popitem()
        cursor.records.close()


def _cursor(name: str, session: Session) -> Cursor | ScrollCursor:
    cursor = session.cursors.get(name)
    if not isinstance(cursor, Cursor | ScrollCursor):
        raise InvalidArguments(f"Cursor {name} does not exist")
    return cursor

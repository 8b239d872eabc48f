"""Runs the plain SQL of range queries in one session of the query engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from tsdb.clock import Clock
from tsdb.model import TableInfo
from tsdb.query.errors import without_places
from tsdb.query.range._limits import SlotMemory, Slots
from tsdb.query.range._runner import TimeIndex
from tsdb.query.session import Records, Session, read_all
from tsdb.sql.lexer import TokenKind, tokenize, unquote
from tsdb.sql.statements import Dialect

_NS_PER_MS = 1_000_000


class PlainQueries(Protocol):
    """What a range query needs of the query engine."""

    clock: Clock

    def query(self, text: str, session: Session, *, tables: Mapping[str, pa.Table]) -> Records: ...

    def aggregate(self, text: str, session: Session, *, tables: Mapping[str, pa.Table]) -> pa.Table | None: ...

    def schema_of(self, text: str, session: Session, *, tables: Mapping[str, pa.Table]) -> pa.Schema: ...

    def find_table(self, parts: Sequence[str], session: Session) -> TableInfo | None: ...


class SessionRunner:
    """Runs what a range query is taken apart into, and remembers the first of it for EXPLAIN."""

    def __init__(
        self,
        engine: PlainQueries,
        session: Session,
        tables: Mapping[str, pa.Table],
        check: Callable[[], None],
        memory: SlotMemory,
    ) -> None:
        """`check` raises when the statement should not go on."""
        self._engine = engine
        self._session = session
        self._tables = tables
        self.check = check
        self.slots = Slots(memory)
        self.now_ms = engine.clock.now_ns() // _NS_PER_MS
        self.first: tuple[str, Mapping[str, pa.Table]] | None = None
        """Text and tables of the query that aggregates the rows."""

    @property
    def dialect(self) -> Dialect:
        return self._session.dialect

    @property
    def time_zone(self) -> str:
        return self._session.time_zone

    def run(self, text: str, tables: Mapping[str, pa.Table] | None = None) -> pa.Table:
        visible = {**self._tables, **(tables or {})}
        self.first = self.first or (text, visible)
        with without_places():
            return read_all(self._engine.query(text, self._session, tables=visible))

    def aggregate(self, text: str, tables: Mapping[str, pa.Table] | None = None) -> pa.Table | None:
        visible = {**self._tables, **(tables or {})}
        found = self._engine.aggregate(text, self._session, tables=visible)
        if found is not None:
            self.first = self.first or (text, visible)
        return found

    def schema(self, text: str, tables: Mapping[str, pa.Table] | None = None) -> pa.Schema:
        with without_places():
            return self._engine.schema_of(text, self._session, tables={**self._tables, **(tables or {})})

    def time_index(self, source: str) -> TimeIndex | None:
        parts = [
            unquote(token, self.dialect)
            for token in tokenize(source, self.dialect)
            if token.kind in (TokenKind.WORD, TokenKind.QUOTED)
        ]
        table = self._engine.find_table(parts, self._session) if parts else None
        if table is None or (len(parts) == 1 and parts[0] in self._tables):
            return None
        time = table.time_index
        return TimeIndex(time.name, time.type.arrow.unit, tuple(tag.name for tag in table.tags))

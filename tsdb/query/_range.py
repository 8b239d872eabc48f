"""Plain SQL for range queries, in one session: what `tsdb.query.range` asks of the query engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from tsdb.query._life import QueryLife
from tsdb.query.range import SlotMemory, Slots, TimeIndex
from tsdb.query.session import Session, read_all
from tsdb.query.syntax_errors import without_places
from tsdb.sql.lexer import TokenKind, tokenize, unquote
from tsdb.sql.statements import Dialect

if TYPE_CHECKING:
    from tsdb.query._engine import QueryEngine

_NS_PER_MS = 1_000_000


class SessionRunner:
    """Runs what a range query is taken apart into, and remembers the first of it for EXPLAIN."""

    def __init__(
        self, engine: QueryEngine, session: Session, tables: Mapping[str, pa.Table], life: QueryLife, memory: SlotMemory
    ) -> None:
        self._engine = engine
        self._session = session
        self._tables = tables
        self.check = life.check
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

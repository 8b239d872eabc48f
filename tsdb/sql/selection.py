"""The plainest of queries, recognised: some columns of one table, where columns compare with literals.

    SELECT a, b AS c FROM t WHERE x IN ('y', 'z') AND ts >= TIMESTAMP '…' AND ts < 9 ORDER BY ts DESC LIMIT 10

Whoever knows the table can answer such a query without planning it. Everything else is None: this is no parser of
queries, and what it does not know it does not touch.
"""

from __future__ import annotations

from dataclasses import dataclass

from tsdb.sql.clauses import ClauseReader, Condition, Declined, OtherClause
from tsdb.sql.lexer import Token
from tsdb.sql.statements import Dialect


@dataclass(frozen=True, slots=True)
class Selection:
    """What such a query asks for."""

    items: tuple[tuple[str, str], ...]
    """Column and the name it gets; none for `*`."""
    table: tuple[str, ...]
    where: Condition | None
    limit: int | None
    order: tuple[str, bool] | None = None
    """The column that rows are ordered by, and whether from the greatest on; only with a limit."""


def read_selection(tokens: list[Token], dialect: Dialect) -> Selection | Declined:
    """Return what a query asks for; Declined if it is of another kind."""
    if tokens[0].word != "SELECT":
        return Declined("it is no SELECT")
    reader = _Reader(tokens, dialect, at=1)
    try:
        return reader.read()
    except OtherClause as error:
        return Declined(str(error))


class _Reader(ClauseReader):
    """Reads a whole query."""

    def read(self) -> Selection:
        items = self._items()
        self.word("FROM")
        table = self.table()
        where = self.condition() if self.take_word("WHERE") else None
        order = self._order(items) if self.take_word("ORDER") else None
        limit = self.limit() if self.take_word("LIMIT") else None
        if order is not None and limit is None:
            raise OtherClause("all rows are to be sorted")
        if not self.at_end():
            raise OtherClause("it has a clause that is not known here")
        return Selection(items, table, where, limit, order)

    def _order(self, items: tuple[tuple[str, str], ...]) -> tuple[str, bool]:
        self.word("BY")
        name = self.name()
        if any(own == name and column != name for column, own in items):
            raise OtherClause("it is ordered by what the answer calls something else")
        is_descending = self.take_word("DESC")
        if not is_descending:
            self.take_word("ASC")
        return name, is_descending

    def _items(self) -> tuple[tuple[str, str], ...]:
        if self.take_operator("*"):
            return ()
        items = [self._item()]
        while self.take_operator(","):
            items.append(self._item())
        if len({name for _, name in items}) != len(items):
            raise OtherClause("two columns have one name")
        return tuple(items)

    def _item(self) -> tuple[str, str]:
        column = self.name()
        return column, self.name() if self.take_word("AS") else column

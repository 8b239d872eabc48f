"""The rows of SHOW: rename, and keep what LIKE or WHERE asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tsdb.database.showing.lookup import Sources
from tsdb.query import Session, read_all
from tsdb.sql.statements import Filter

_ROWS = "__show_rows"
_POSITION = "__position"


def text_table(names: Sequence[str], rows: Sequence[tuple[str | None, ...]]) -> pa.Table:
    """A table of text columns."""
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table({name: pa.array(column, pa.string()) for name, column in zip(names, columns, strict=True)})


def renamed(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """Take some columns, in this order and under these names: `{"column_name": "Field"}`."""
    return table.select(list(names)).rename_columns(list(names.values()))


def filtered(
    table: pa.Table,
    wanted: Filter,
    services: Sources,
    session: Session,
    *,
    like_column: int = 0,
    aliases: Mapping[str, str] | None = None,
) -> pa.Table:
    """Keep the rows that LIKE matches or for which WHERE holds; the order of rows stays.

    WHERE is evaluated by the query engine and may write a column in any case, or by an alias (`alias: column`).
    """
    if wanted.like is not None:
        return table.filter(pc.match_like(table.column(like_column), wanted.like))
    if wanted.where is None:
        return table
    columns: dict[str, pa.ChunkedArray] = {_POSITION: pa.chunked_array([pa.array(range(len(table)), pa.int64())])}
    for name in table.column_names:
        columns[name] = columns[name.lower()] = table.column(name)
    for alias, name in (aliases or {}).items():
        columns[alias] = columns[alias.lower()] = table.column(name)
    # The line break ends a comment that may stand behind the condition.
    text = f"SELECT {_POSITION} FROM {_ROWS} WHERE ({wanted.where.text}\n) ORDER BY {_POSITION}"
    positions = read_all(services.queries.query(text, session, tables={_ROWS: pa.table(columns)}))
    return table.take(positions.column(0))

"""Messages that ask for one query and nothing else, which a fast worker can perhaps answer.

    simple      Query
    extended    [Parse] Bind [Describe] Execute Sync, of the portal without a name and all of its rows

The worker encodes the whole answer, up to ReadyForQuery.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tsdb.database import DatabasePort, Records, Session, with_headings
from tsdb.errors import TsdbError
from tsdb.servers.fast_workers import single_query
from tsdb.servers.postgres import _messages as m
from tsdb.servers.postgres._portals import PostgresStatement, expand_formats, refuse_other_columns
from tsdb.servers.postgres._types import RowStyle, column_heads, encode_rows, style_of
from tsdb.sql import Dialect

_FORMS = frozenset({b"BES", b"BDES", b"PBES", b"PBDES"})


class FastRows(NamedTuple):
    """Encodes the rows of one query; it travels to the worker."""

    text: str
    before: bytes
    """The messages before the first of the query's own."""
    is_described: bool
    """Whether the columns come before the rows."""
    formats: tuple[int, ...]
    heads: tuple[m.ColumnHead, ...] | None
    """The columns that the client knows; None if it knows none."""
    style: RowStyle
    status: str

    def __call__(self, records: Records) -> Iterator[bytes]:
        rows, count = with_headings(records, self.text, Dialect.POSTGRESQL), 0
        if self.heads is not None:
            refuse_other_columns(self.heads, rows.schema)
        formats = expand_formats(self.formats, len(rows.schema))
        yield self.before
        if self.is_described:
            yield m.row_description(column_heads(rows.schema), formats)
        for batch in rows:
            count += batch.num_rows
            yield from encode_rows(batch, formats, self.style)
        yield m.command_complete(f"SELECT {count}") + m.ready_for_query(self.status)


class FastRequest(NamedTuple):
    """What a fast worker is asked."""

    text: str
    encode: FastRows
    is_simple: bool
    statement: PostgresStatement | None = None
    """What Parse prepares."""


def find_request(
    messages: Sequence[m.Message],
    prepared: Mapping[str, PostgresStatement],
    database: DatabasePort,
    session: Session,
    status: str,
) -> FastRequest | None:
    """Return the query that messages ask for; None if they ask for anything else, or more."""
    tags = bytes(each.tag for each in messages)
    try:
        if tags == b"Q":
            text = single_query(m.parse_query(messages[0].body))
            if text is None:
                return None
            encode = FastRows(text, b"", True, (), None, style_of(session), status)
            return FastRequest(text, encode, is_simple=True)
        if tags in _FORMS:
            return _find_extended(messages, prepared, database, session, status)
    except TsdbError:
        # Whatever it is, the usual way meets it too, and reports it.
        return None
    return None


def _find_extended(
    messages: Sequence[m.Message],
    prepared: Mapping[str, PostgresStatement],
    database: DatabasePort,
    session: Session,
    status: str,
) -> FastRequest | None:
    by_tag = {chr(each.tag): each.body for each in messages}
    bind, (portal, limit) = m.parse_bind(by_tag["B"]), m.parse_execute(by_tag["E"])
    described = m.parse_target(by_tag["D"]) if "D" in by_tag else None
    if bind.portal or portal or limit or described not in (None, ("P", "")):
        return None
    parsed = None
    if "P" in by_tag:
        wanted = m.parse_parse(by_tag["P"])
        if wanted.name or bind.statement or single_query(wanted.text) is None:
            return None
        parsed = PostgresStatement.of_query(wanted.text, wanted.types)
    statement = prepared.get(bind.statement) if parsed is None else parsed
    if statement is None or single_query(statement.template.text) is None:
        return None
    text = single_query(statement.text_of(bind, database, session))
    if text is None:
        return None
    encode = FastRows(
        text,
        m.BIND_COMPLETE if parsed is None else m.PARSE_COMPLETE + m.BIND_COMPLETE,
        described is not None,
        bind.result_formats,
        statement.heads,
        style_of(session),
        status,
    )
    return FastRequest(text, encode, is_simple=False, statement=parsed)

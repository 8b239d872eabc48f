"""Prepared statements and portals.

A portal reads its rows when it is executed, as many as requested, and keeps the rest of a batch. Its statement starts
with the first message that needs it: Describe where there are rows to describe, else Execute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.types as pt

from tsdb.database import DatabasePort
from tsdb.errors import TsdbError
from tsdb.model import DataType
from tsdb.query import Affected, Output, Records, Session
from tsdb.servers.postgres._errors import PgError, ProtocolViolation
from tsdb.servers.postgres._messages import Bind, ColumnHead
from tsdb.servers.postgres._placeholders import InferredType, infer_types, parse_template
from tsdb.servers.postgres._types import column_heads
from tsdb.servers.postgres._values import (
    TEXT,
    UNKNOWN,
    Moment,
    count_literal,
    decode_value,
    literal,
    null_literal,
)
from tsdb.sql import Parsed, parse
from tsdb.sql.statements import Copy, Dialect, Insert
from tsdb.sql.template import Placeholder, StatementTemplate

PARAMETER_TYPES_OPEN = (0, UNKNOWN)
"""A client that says these says nothing."""


def parse_one(text: str) -> Parsed | None:
    """Parse a text of one statement, None if it has none."""
    found = parse(text, Dialect.POSTGRESQL)
    if len(found) > 1:
        raise PgError("42601", "cannot insert multiple commands into a prepared statement")
    return found[0] if found else None


@dataclass(slots=True)
class PostgresStatement:
    """A prepared statement."""

    template: StatementTemplate
    declared: tuple[int, ...]
    is_insert: bool = False
    """Whether it writes rows of values."""
    heads: tuple[ColumnHead, ...] | None = None
    """The columns that were described to the client, None if it did not ask."""
    _found: dict[int, InferredType] | None = None
    _parsed: Parsed | None = None
    _is_parsed: bool = False

    @classmethod
    def of(cls, text: str, declared: tuple[int, ...]) -> PostgresStatement:
        made = cls(parse_template(text), declared)
        statement = None if made.parsed is None else made.parsed.statement
        made.is_insert = isinstance(statement, Insert) and statement.values is not None
        return made

    @classmethod
    def of_query(cls, text: str, declared: tuple[int, ...]) -> PostgresStatement:
        """A query that is parsed when that is needed; it may turn out to be none."""
        return cls(parse_template(text), declared)

    @property
    def parsed(self) -> Parsed | None:
        """With nulls for its parameters; None if the text has no statement."""
        if not self._is_parsed:
            self._parsed, self._is_parsed = parse_one(self.template.fill(lambda place: "NULL")), True
        return self._parsed

    @property
    def count(self) -> int:
        return max(self.template.count, len(self.declared))

    def found(self, database: DatabasePort, session: Session) -> dict[int, InferredType]:
        """The types that the text implies; looked up once."""
        if self._found is None:
            self._found = infer_types(self.template, lambda parts: _column_types(database, parts, session))
        return self._found

    def oids(self, database: DatabasePort, session: Session) -> list[int]:
        """The types of all parameters."""
        return [self.oid(number, database, session) for number in range(self.count)]

    def oid(self, number: int, database: DatabasePort, session: Session) -> int:
        declared = self.declared[number] if number < len(self.declared) else 0
        if declared not in PARAMETER_TYPES_OPEN:
            return declared
        found = self.found(database, session).get(number)
        return TEXT if found is None else found.oid

    def described(self, database: DatabasePort, session: Session) -> Parsed | None:
        """The statement with a value of the right type for each parameter."""
        if not self.template.places:
            return self.parsed

        def write(place: Placeholder) -> str:
            if self.template.word_before(place) in ("LIMIT", "OFFSET"):
                return "1"
            found = self.found(database, session).get(place.number)
            if self.is_insert or (found is not None and found.is_compared):
                return "NULL"
            return null_literal(self.oid(place.number, database, session))

        return parse_one(self.template.fill(write))

    def bound(self, bind: Bind, database: DatabasePort, session: Session) -> Parsed | None:
        """The statement with the values of a Bind in it."""
        text = self.text_of(bind, database, session)
        # The cells of an INSERT are consumed by the write.
        return parse_one(text) if self.template.places or self.is_insert else self.parsed

    def text_of(self, bind: Bind, database: DatabasePort, session: Session) -> str:
        """The text with the values of a Bind in it."""
        if len(bind.values) != self.count:
            raise ProtocolViolation(
                f"bind message supplies {len(bind.values)} parameters, but the prepared statement requires {self.count}"
            )
        if not self.template.places:
            return self.template.text
        is_binary = expand_formats(bind.formats, len(bind.values))
        return self.template.fill(lambda place: self._write(place, bind, is_binary, database, session))

    def _write(
        self, place: Placeholder, bind: Bind, is_binary: Sequence[bool], database: DatabasePort, session: Session
    ) -> str:
        number = place.number
        oid = self.oid(number, database, session)
        found = self.found(database, session).get(number)
        raw = bind.values[number]
        try:
            value = None if raw is None else decode_value(raw, oid, is_binary=is_binary[number])
        except ValueError as error:
            raise PgError("22P02", f"invalid value for parameter ${number + 1}: {error}") from error
        if found is not None and found.unit is not None and isinstance(value, Moment):
            return count_literal(value, found.unit, session.time_zone)
        is_compared = found is not None and found.is_compared
        return literal(value, oid, is_cell=self.is_insert, is_compared=is_compared)


def _column_types(database: DatabasePort, parts: Sequence[str], session: Session) -> Mapping[str, DataType] | None:
    if not 1 <= len(parts) <= 3:
        return None
    try:
        table = database.find_table(parts, session)
    except TsdbError:  # the statement itself will say so
        return None
    return None if table is None else {column.name: column.type for column in table.columns}


def expand_formats(formats: Sequence[int], count: int) -> list[bool]:
    """Return for each of so many values whether it is binary: none given is text, one holds for all."""
    if any(each not in (0, 1) for each in formats):
        raise ProtocolViolation("unsupported format code")
    if len(formats) not in (0, 1, count):
        raise ProtocolViolation(f"{len(formats)} format codes for {count} values")
    if len(formats) == 1:
        return [bool(formats[0])] * count
    return [bool(each) for each in formats] if formats else [False] * count


def refuse_other_columns(described: Sequence[ColumnHead], schema: pa.Schema) -> None:
    """Fail if the columns are not those described, because a table has changed."""
    actual = column_heads(schema)
    kinds = zip(described, actual, schema.types, strict=False)
    if len(described) != len(actual) or any(a.oid != b.oid and not pt.is_null(kind) for a, b, kind in kinds):
        raise PgError("0A000", "cached plan must not change result type")


@dataclass(slots=True)
class Portal:
    """A statement with its values, as far as it is read."""

    parsed: Parsed | None
    prepared: PostgresStatement
    result_formats: tuple[int, ...]
    output: Output | None = None
    formats: list[bool] = field(default_factory=list)
    _batches: Iterator[pa.RecordBatch] | None = None
    _rest: pa.RecordBatch | None = None

    def begin(self, database: DatabasePort, session: Session) -> Output:
        """Run the statement if that was not done yet."""
        if self.output is None:
            assert self.parsed is not None
            self.output = database.run_parsed(self.parsed, session)
            if not isinstance(self.output, Affected):
                self._check_heads(self.output)
                self.formats = expand_formats(self.result_formats, len(self.output.schema))
        return self.output

    def _check_heads(self, records: Records) -> None:
        if self.prepared.heads is not None:
            try:
                refuse_other_columns(self.prepared.heads, records.schema)
            except PgError:
                records.close()
                raise

    def batches(self, limit: int) -> Iterator[pa.RecordBatch]:
        """Yield rows, at most `limit` of them unless that is 0; what is over that waits for the next call."""
        assert self.output is not None
        assert not isinstance(self.output, Affected)
        if self._batches is None:
            self._batches = iter(self.output)
        left = limit
        while (batch := self._next()) is not None:
            if limit and batch.num_rows > left:
                self._rest = batch.slice(left)
                batch = batch.slice(0, left)
            yield batch
            left -= batch.num_rows
            if limit and left <= 0:
                return

    def reset(self) -> None:
        """Have the statement run again from its beginning."""
        self.close()
        self.output = self._batches = None

    def _next(self) -> pa.RecordBatch | None:
        rest, self._rest = self._rest, None
        if rest is not None:
            return rest
        assert self._batches is not None
        return next((batch for batch in self._batches if batch.num_rows), None)

    def close(self) -> None:
        """Stop what it reads."""
        self._rest = None
        if self.output is not None and not isinstance(self.output, Affected):
            self.output.close()

    @property
    def is_copy(self) -> bool:
        statement = None if self.parsed is None else self.parsed.statement
        return isinstance(statement, Copy) and statement.path is None

"""Columns as CREATE TABLE and ALTER TABLE ADD COLUMN write them: name, type, and options in any order."""

from __future__ import annotations

from dataclasses import replace

from tsdb.errors import InvalidArguments, InvalidSyntax, TsdbError, Unsupported
from tsdb.model import ColumnIndex, DataType, Kind
from tsdb.sql._types import type_of_name
from tsdb.sql.keywords import RESERVED, RESERVED_IN_POSTGRESQL
from tsdb.sql.lexer import TokenKind, unquote
from tsdb.sql.parser._cursor import TokenCursor
from tsdb.sql.parser._indexes import is_index, parse_index
from tsdb.sql.statements import ColumnDef, DefaultExpression, Dialect


class IntervalColumn(InvalidArguments):
    """An interval is a value of expressions; no column holds it."""


def parse_column(cursor: TokenCursor) -> ColumnDef:
    """`name type option*`."""
    column = ColumnDef(parse_column_name(cursor), _column_type(cursor))
    while True:
        changed = _option(cursor, column)
        if changed is None:
            break
        column = changed
    _check(column)
    return column


def parse_column_name(cursor: TokenCursor) -> str:
    """A new column's name; a reserved word only in quotes."""
    token = cursor.token
    if token.word in (RESERVED_IN_POSTGRESQL if cursor.dialect is Dialect.POSTGRESQL else RESERVED):
        message = f"Cannot use keyword '{token.text}' as column name. Hint: add quotes to the name."
        raise cursor.error(token, message)
    return cursor.name_part("the name of a column")


def _column_type(cursor: TokenCursor) -> DataType:
    if cursor.word == "INTERVAL":
        name = unquote(cursor.tokens[cursor.position - 1], cursor.dialect)
        raise IntervalColumn(f"column name `{name}` is interval type, which is not supported")
    return parse_type(cursor)


def parse_type(cursor: TokenCursor) -> DataType:
    """`BIGINT UNSIGNED`, `TIMESTAMP(6)`, `DOUBLE PRECISION`, `CHARACTER VARYING(10)`, …"""
    token = cursor.token
    if token.kind != TokenKind.WORD:
        cursor.fail("a type")
    cursor.take()
    if token.word == "DOUBLE":
        cursor.accept("PRECISION")
    elif token.word in ("CHAR", "CHARACTER"):
        cursor.accept("VARYING")
    arguments = cursor.parenthesised(cursor.integer) if cursor.is_operator("(") else []
    if token.word.startswith("TIMESTAMP"):
        _ = cursor.accept("WITH", "TIME", "ZONE") or cursor.accept("WITHOUT", "TIME", "ZONE")
    is_unsigned = cursor.accept("UNSIGNED")
    if not is_unsigned:
        cursor.accept("SIGNED")
    try:
        found = type_of_name(token.text, arguments, is_unsigned=is_unsigned)
    except InvalidSyntax as error:
        raise cursor.error(token, error.message) from None
    if found is None:
        raise cursor.error(token, f"there is no type {token.text}")
    if cursor.is_operator("["):
        raise Unsupported("columns of arrays are not supported")
    return found


def _option(cursor: TokenCursor, column: ColumnDef) -> ColumnDef | None:
    """Read one option and return the column with it, None when no option follows."""
    if cursor.accept("NOT", "NULL"):
        return _nullable(column, is_nullable=False)
    if cursor.accept("NULL"):
        return _nullable(column, is_nullable=True)
    if cursor.accept("DEFAULT"):
        if column.default is not None:
            raise cursor.error(cursor.token, f"column {column.name} has two defaults")
        return replace(column, default=parse_default(cursor, column.type))
    if cursor.accept("TIME", "INDEX"):
        return replace(column, is_time_index=True)
    if cursor.accept("PRIMARY", "KEY"):
        return replace(column, is_primary_key=True)
    if cursor.accept("COMMENT"):
        return replace(column, comment=_comment(cursor))
    if is_index(cursor):
        return replace(column, indexes=(*column.indexes, _new_index(cursor, column)))
    if cursor.accept("UNIQUE"):
        cursor.accept("KEY")
        return column
    if cursor.accept("CHARACTER", "SET") or cursor.accept("CHARSET") or cursor.accept("COLLATE"):
        cursor.name_part("a character set")
        return column
    return None


def _comment(cursor: TokenCursor) -> str:
    if cursor.token.kind == TokenKind.QUOTED:
        return cursor.identifier()
    return cursor.string("a comment in quotes")


def _nullable(column: ColumnDef, *, is_nullable: bool) -> ColumnDef:
    if column.is_nullable is not None and column.is_nullable != is_nullable:
        raise InvalidArguments(f"column {column.name} is declared both NULL and NOT NULL")
    return replace(column, is_nullable=is_nullable)


def _new_index(cursor: TokenCursor, column: ColumnDef) -> ColumnIndex:
    index = parse_index(cursor, column.name)
    check_index_type(index, column.type, column.name)
    if any(each.kind == index.kind for each in column.indexes):
        raise InvalidArguments(f"column {column.name} has two {index.kind} indexes")
    return index


def check_index_type(index: ColumnIndex, kind: DataType, column: str) -> None:
    """Refuse an index on a type it cannot hold."""
    if index.kind == "fulltext" and kind.kind is not Kind.STRING:
        raise InvalidArguments(f"FULLTEXT index only supports string type, column {column} is {kind.name}")
    if index.kind == "vector" and kind.kind is not Kind.VECTOR:
        raise InvalidArguments(f"VECTOR index only supports vector type, column {column} is {kind.name}")


def parse_default(cursor: TokenCursor, kind: DataType | None = None) -> DefaultExpression:
    """Parse what follows DEFAULT: a literal, perhaps with a sign, or a function without arguments."""
    start = cursor.token
    default = _default(cursor)
    follower = cursor.token
    is_complete = follower.kind in (TokenKind.WORD, TokenKind.END) or follower.text in (",", ")")
    if default is None or not is_complete:
        raise _unsupported_default(cursor, start.start)
    if kind is not None and kind.kind is Kind.JSON:
        raise _unsupported_default(cursor, start.start)
    return default


def _default(cursor: TokenCursor) -> DefaultExpression | None:
    token = cursor.take()
    if token.kind == TokenKind.STRING or (token.kind == TokenKind.QUOTED and token.text[0] == '"'):
        return DefaultExpression(unquote(token, cursor.dialect), "string")
    if token.kind == TokenKind.NUMBER:
        return DefaultExpression(token.text, "number")
    if token.kind == TokenKind.HEX:
        return DefaultExpression(hex_digits(token.text), "hex")
    if token.kind == TokenKind.OPERATOR and token.text in "+-" and cursor.token.kind == TokenKind.NUMBER:
        return DefaultExpression(("-" if token.text == "-" else "") + cursor.take().text, "number")
    if token.word in ("TRUE", "FALSE"):
        return DefaultExpression(token.text.lower(), "boolean")
    if token.word == "NULL":
        return DefaultExpression("null", "null")
    if token.kind != TokenKind.WORD or token.word in RESERVED - {"CURRENT_TIMESTAMP"}:
        return None
    if cursor.accept_operator("("):
        if not cursor.accept_operator(")"):
            return None
    elif token.word not in ("CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "CURRENT_DATE"):
        return None
    return DefaultExpression(token.text.lower(), "function")


def hex_digits(text: str) -> str:
    """The digits of `X'9f'` or `0x9f`, an even number of them."""
    digits = text[2:-1] if text[1] == "'" else text[2:]
    if len(digits) % 2:
        raise InvalidSyntax(f"a hexadecimal string has an even number of digits, found {text[:40]}")
    return digits.lower()


def _unsupported_default(cursor: TokenCursor, start: int) -> TsdbError:
    shown = cursor.text[start : start + 40].split("\n", 1)[0]
    return Unsupported(
        f"Unsupported default constraint near '{shown}'", hint="a default is a literal or a function without arguments"
    )


def _check(column: ColumnDef) -> None:
    if column.is_nullable is False and column.default is not None and column.default.kind == "null":
        raise InvalidArguments(f"column {column.name} is NOT NULL and cannot have the default NULL")

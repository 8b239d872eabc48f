"""COPY … FROM STDIN: text, CSV or binary rows become columns and are written.

The stream is cut after complete records, some megabytes at a time. Arrow's CSV reader reads lines into columns of text,
which are cast to the types of the table; `_copy_binary.py` reads binary rows. A piece is written before the next one is
read: if a later piece is invalid, the rows of earlier ones stay, as with every statement here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from tsdb.database import DatabasePort
from tsdb.errors import InvalidArguments, TsdbError
from tsdb.model import ColumnInfo, Kind, TableInfo, parse_timestamps
from tsdb.query import Session
from tsdb.servers.postgres._copy import CopyOptions, parse_copy_options
from tsdb.servers.postgres._copy_binary import BinaryRows
from tsdb.servers.postgres._errors import PgError
from tsdb.servers.postgres._tuning import PostgresTuning
from tsdb.sql.statements import Copy

_BAD_FORMAT, _BAD_VALUE, _TOO_LARGE, _UNDEFINED_COLUMN = "22P04", "22P02", "54000", "42703"
_END = re.compile(rb"(?:^|(?<=\n))\\\.\r?(?:\n|$)")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.)", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ROW = re.compile(r"Row #(\d+)")
_TRUE = pa.array(["t", "true", "y", "yes", "on", "1"])
_FALSE = pa.array(["f", "false", "n", "no", "off", "0"])


class RowReader(Protocol):
    """Makes columns of what a client sends."""

    def read(self, buffer: bytearray, before: int, *, is_last: bool) -> tuple[pa.Table | None, int]:
        """Return the whole rows at the beginning of what has come, None for none, and how many bytes they are.

        `before` is how many rows came before them; `is_last` says that nothing more will come.
        """


class CopyIn:
    """One COPY that is under way. `take` what comes, then `finish`."""

    def __init__(self, statement: Copy, database: DatabasePort, session: Session, tuning: PostgresTuning) -> None:
        """Check that the copy is possible; TsdbError if not, before anything is sent."""
        assert statement.table is not None
        self.statement = statement
        options = _checked(parse_copy_options(statement))
        self._database, self._session, self._tuning = database, session, tuning
        self._parts = statement.table.parts
        table = database.table_to_write(self._parts, session)
        # Writing no rows raises what prevents writing: a view, a file, a column that needs a value.
        self._append(_empty(table.columns))
        self.columns = _columns(table, statement.columns)
        self._append(_empty(self.columns))
        self.rows = 0
        self._buffer = bytearray()
        self._look_at = 0
        self._reader: RowReader
        if options.format == "binary":
            self._reader = BinaryRows(self.columns, session.time_zone)
        else:
            self._reader = TextRows(self.columns, options, session.time_zone)

    @property
    def is_binary(self) -> bool:
        return isinstance(self._reader, BinaryRows)

    def take(self, data: bytes) -> None:
        """Take a part of what is copied; write what is complete of it."""
        self._buffer += data
        if len(self._buffer) >= max(self._tuning.copy_piece_bytes, self._look_at):
            self._write(is_last=False)
            # What has no end yet is looked through again only when it has grown a lot.
            self._look_at = 2 * len(self._buffer)
        if len(self._buffer) > self._tuning.copy_record_bytes_max:
            raise PgError(_TOO_LARGE, f"a line of COPY has more than {self._tuning.copy_record_bytes_max} bytes")

    def finish(self) -> int:
        """Write what is left; the number of all rows."""
        self._write(is_last=True)
        return self.rows

    def _write(self, *, is_last: bool) -> None:
        frame, end = self._reader.read(self._buffer, self.rows, is_last=is_last)
        del self._buffer[:end]
        if frame is not None:
            self.rows += self._append(frame)

    def _append(self, frame: pa.Table) -> int:
        return self._database.append(self._parts, frame, self._session, protocol="postgres")


class TextRows:
    """Reads lines, as text or CSV."""

    def __init__(self, columns: Sequence[ColumnInfo], options: CopyOptions, zone: str) -> None:
        self._columns, self._options, self._zone = columns, options, zone
        self._has_header = options.has_header
        self._is_ended = False

    def read(self, buffer: bytearray, before: int, *, is_last: bool) -> tuple[pa.Table | None, int]:
        """Return the whole lines at the beginning of what has come; as `BinaryRows.read`."""
        if self._is_ended:
            return None, len(buffer)
        end = len(buffer) if is_last else _cut(buffer, self._options)
        piece = bytes(memoryview(buffer)[:end])
        if self._options.quote is None and (found := _END.search(piece)):
            piece, self._is_ended = piece[: found.start()], True
        if self._has_header and piece:
            piece, self._has_header = piece.partition(b"\n")[2], False
        if not piece:
            return None, end
        texts = _read(piece, [column.name for column in self._columns], self._options, before)
        frame = {column.name: self._typed(texts.column(column.name), column) for column in self._columns}
        return pa.table(frame), end

    def _typed(self, texts: pa.ChunkedArray, column: ColumnInfo) -> pa.ChunkedArray:
        values = texts
        if self._options.quote is None:
            values = _unescaped(texts)
        try:
            return convert(values.combine_chunks(), column, self._zone)
        except (pa.ArrowInvalid, ValueError) as error:
            text = str(error).removesuffix(".")
            raise PgError(_BAD_VALUE, f"COPY, column {column.name}: {text}") from error
        except TsdbError as error:
            raise PgError(_BAD_VALUE, f"COPY, column {column.name}: {error.message}", hint=error.hint) from error


def _checked(options: CopyOptions) -> CopyOptions:
    if options.forced is None or options.forced:
        raise InvalidArguments("COPY force_quote is only for COPY TO")
    return options


def _columns(table: TableInfo, names: tuple[str, ...]) -> list[ColumnInfo]:
    if not names:
        return list(table.columns)
    if len(set(names)) != len(names):
        raise PgError("42701", f"a column is named twice in COPY {table.name}")
    for name in names:
        if name not in table.by_name:
            raise PgError(_UNDEFINED_COLUMN, f'column "{name}" of relation "{table.name}" does not exist')
    return [table.by_name[name] for name in names]


def _empty(columns: Sequence[ColumnInfo]) -> pa.Table:
    return pa.schema([(column.name, column.type.arrow) for column in columns]).empty_table()


def _cut(buffer: bytearray, options: CopyOptions) -> int:
    """The end of the last whole record; 0 if none is whole."""
    end = buffer.rfind(b"\n")
    if options.quote is None:
        return end + 1
    if options.escape != options.quote:
        return 0  # which quotes count is known only from the beginning
    quote = options.quote.encode()
    count = buffer.count(quote, 0, end + 1)
    while end >= 0 and count % 2:
        before = buffer.rfind(b"\n", 0, end)
        count -= buffer.count(quote, before + 1, end)
        end = before
    return end + 1


def _read(piece: bytes, names: list[str], options: CopyOptions, before: int) -> pa.Table:
    """Read records as columns of text; `before` is how many rows were read before them."""
    is_csv = options.quote is not None
    has_own_escape = is_csv and options.escape != options.quote
    try:
        return csv.read_csv(
            pa.BufferReader(piece),
            read_options=csv.ReadOptions(column_names=names, block_size=max(len(piece), 1), use_threads=False),
            parse_options=csv.ParseOptions(
                delimiter=options.delimiter,
                quote_char=options.quote if options.quote is not None else False,
                double_quote=not has_own_escape,
                escape_char=options.escape if has_own_escape else False,
                newlines_in_values=is_csv,
                ignore_empty_lines=False,
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[options.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        text = _ROW.sub(lambda found: f"Row #{before + int(found[1])}", str(error))
        raise PgError(_BAD_FORMAT, text.removeprefix("CSV parse error: ")) from error


def _unescaped(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Read the backslashes of PostgreSQL's text form; only the distinct texts that have one are looked at."""
    if not pc.any(pc.match_substring(texts, "\\")).as_py():
        return texts
    encoded = texts.combine_chunks().dictionary_encode()
    plain = [None if text is None else _ESCAPE.sub(_sign, text) for text in encoded.dictionary.to_pylist()]
    return pa.chunked_array([pa.array(plain, pa.string()).take(encoded.indices)])


def _sign(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8) & 0xFF) if code[0] in "01234567" else _ESCAPES.get(code, code)


def convert(texts: pa.Array, column: ColumnInfo, zone: str) -> pa.Array:
    """Return texts as values of a column's type; ValueError, ArrowInvalid or TsdbError if one is none."""
    kind = column.type
    if kind.is_string or kind.kind in (Kind.JSON, Kind.VECTOR):
        return texts
    if kind.is_timestamp:
        return parse_timestamps(texts, kind.arrow.unit, zone)
    if kind.kind is Kind.BOOLEAN:
        return _booleans(texts)
    if kind.kind is Kind.BINARY:
        return pa.array([None if text is None else _bytes(text) for text in texts.to_pylist()], pa.binary())
    return pc.cast(pc.utf8_trim_whitespace(texts), kind.arrow)


def _booleans(texts: pa.Array) -> pa.Array:
    words = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    is_true, is_false = pc.is_in(words, _TRUE), pc.is_in(words, _FALSE)
    bad = pc.and_(pc.invert(pc.or_(is_true, is_false)), texts.is_valid())
    if pc.any(bad).as_py():
        raise ValueError(f"invalid input syntax for type boolean: {texts.filter(bad)[0].as_py()!r}")
    return pc.if_else(texts.is_valid(), is_true, pa.scalar(None, pa.bool_()))


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode("utf-8")

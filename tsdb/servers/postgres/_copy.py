"""COPY … TO STDOUT: the rows of a query as text, CSV or PostgreSQL's binary format."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import pyarrow as pa

from tsdb._kernels import encode_postgres_copy
from tsdb.errors import InvalidArguments
from tsdb.query import Records, Session
from tsdb.servers.postgres._messages import COPY_DONE, copy_data, copy_out_response
from tsdb.servers.postgres._types import CHUNK_BYTES, encode_rows, localized, plain, style_of
from tsdb.sql import Parsed
from tsdb.sql.statements import Copy, Query, Slice

_SIGNATURE = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_TRAILER = b"\xff\xff"
_OPTIONS = frozenset({"format", "delimiter", "null", "header", "quote", "escape", "force_quote", "encoding"})
_TRUE, _FALSE = frozenset({"", "true", "on", "1"}), frozenset({"false", "off", "0"})


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """How rows are to look."""

    format: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    has_header: bool = False
    quote: str | None = None
    escape: str = '"'
    forced: frozenset[str] | None = frozenset()
    """The columns whose values are always in quotes; None for all."""


def parse_copy_options(statement: Copy) -> CopyOptions:
    """Read the options behind WITH; InvalidArguments if one makes no sense."""
    given = {name.lower(): value for name, value in statement.options}
    if unknown := sorted(given.keys() - _OPTIONS):
        raise InvalidArguments(f'option "{unknown[0]}" not recognized', hint=f"there are {', '.join(sorted(_OPTIONS))}")
    form = given.get("format", "text").lower()
    if form not in ("text", "csv", "binary"):
        raise InvalidArguments(f'COPY format "{form}" not recognized', hint="there are text, csv and binary")
    if form == "binary" and (bad := given.keys() - {"format", "encoding"}):
        raise InvalidArguments(f"cannot specify {min(bad).upper()} in BINARY mode")
    if form != "csv" and (bad := given.keys() & {"quote", "escape", "force_quote"}):
        raise InvalidArguments(f"COPY {min(bad)} available only in CSV mode")
    if given.get("encoding", "utf8").lower().replace("-", "") not in ("utf8", "unicode"):
        raise InvalidArguments("the only encoding is UTF8")
    is_csv = form == "csv"
    delimiter = _one_byte(given.get("delimiter", "," if is_csv else "\t"), "delimiter")
    quote = _one_byte(given.get("quote", '"'), "quote") if is_csv else None
    return CopyOptions(
        format=form,
        delimiter=delimiter,
        null=_null(given.get("null", "" if is_csv else "\\N"), delimiter),
        has_header=_boolean(given["header"], "header") if "header" in given else False,
        quote=quote,
        escape=_one_byte(given.get("escape", quote or '"'), "escape"),
        forced=_forced(given.get("force_quote")),
    )


def _one_byte(text: str, name: str) -> str:
    if len(text.encode("utf-8")) != 1 or text in "\r\n":
        raise InvalidArguments(f"COPY {name} must be a single one-byte character")
    return text


def _null(text: str, delimiter: str) -> str:
    if "\r" in text or "\n" in text or delimiter in text:
        raise InvalidArguments("COPY null representation cannot use newline, carriage return or the delimiter")
    return text


def _boolean(text: str, name: str) -> bool:
    word = text.lower()
    if word not in _TRUE and word not in _FALSE:
        raise InvalidArguments(f"{name} requires a Boolean value")
    return word in _TRUE


def _forced(text: str | None) -> frozenset[str] | None:
    if text is None:
        return frozenset()
    names = [name.strip().strip('"') for name in text.strip().strip("()").split(",")]
    return None if names == ["*"] else frozenset(names)


def copied_query(statement: Copy) -> Parsed:
    """The query whose rows are copied."""
    if statement.query is not None:
        return Parsed(Query(statement.query), statement.query.text)
    assert statement.table is not None
    name = ".".join('"' + part.replace('"', '""') + '"' for part in statement.table.parts)
    text = f"SELECT * FROM {name}"
    return Parsed(Query(Slice(text, 0)), text)


def copy_out(records: Records, options: CopyOptions, session: Session) -> Generator[bytes, None, int]:
    """Yield the messages of a COPY; return the number of rows."""
    schema, rows = records.schema, 0
    is_binary = options.format == "binary"
    yield copy_out_response(len(schema), is_binary=is_binary)
    if options.has_header:
        yield copy_data(_header(schema.names, options))
    # PostgreSQL sends what stands before the first row in one message with it, and clients rely on that.
    head = _SIGNATURE if is_binary else b""
    for batch in records:
        rows += batch.num_rows
        if not is_binary:
            yield from _lines(batch, options, session)
            continue
        for piece in encode_rows(batch, [True] * batch.num_columns, style_of(session), is_copy=True):
            yield _with_head(piece, head) if head else piece
            head = b""
    if is_binary:
        yield copy_data(head + _TRAILER)
    yield COPY_DONE
    return rows


def _with_head(messages: bytes, head: bytes) -> bytes:
    """Put bytes before the body of the first of some messages."""
    length = int.from_bytes(messages[1:5], "big") + len(head)
    return messages[:1] + length.to_bytes(4, "big") + head + messages[5:]


def _lines(batch: pa.RecordBatch, options: CopyOptions, session: Session) -> Iterator[bytes]:
    if not batch.num_columns:
        yield copy_data(b"\n") * batch.num_rows
        return
    style, at = style_of(session), 0
    rows = localized(plain(batch), style.zone)
    forced = [options.forced is None or name in options.forced for name in batch.schema.names]
    while at < rows.num_rows:
        piece, at = encode_postgres_copy(
            rows,
            style=style.words,
            delimiter=ord(options.delimiter),
            null=options.null.encode("utf-8"),
            quote=None if options.quote is None else ord(options.quote),
            escape=ord(options.escape),
            forced=forced,
            start=at,
            bytes_max=CHUNK_BYTES,
        )
        yield piece


def _header(names: list[str], options: CopyOptions) -> bytes:
    return (options.delimiter.join(_title(name, options) for name in names) + "\n").encode("utf-8")


def _title(name: str, options: CopyOptions) -> str:
    if options.quote is None:
        return name.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
    if not any(sign in name for sign in (options.delimiter, options.quote, "\r", "\n")):
        return name
    quote, escape = options.quote, options.escape
    body = "".join(escape + sign if sign in (quote, escape) else sign for sign in name)
    return f"{quote}{body}{quote}"

"""Columns of results as PostgreSQL types, and rows as messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from tsdb._kernels import encode_postgres_rows
from tsdb.model import DataType, Kind, local_times, type_of_field
from tsdb.query import Session
from tsdb.query.pg_catalog import TYPES_BY_OID, type_modifier, type_oid
from tsdb.servers.postgres._messages import ColumnHead

CHUNK_BYTES = 256 << 10
"""How many bytes of rows are made at once."""

TEXT, VARCHAR, JSON, INTERVAL, TIME = 25, 1043, 114, 1186, 1083


def field_oid(field: pa.Field) -> int:
    """The number of the type a column of an answer has."""
    known = type_of_field(field)
    if known is not None:
        return type_oid(known)
    return _expression_oid(field.type)


def _expression_oid(kind: pa.DataType) -> int:
    if pt.is_null(kind):
        return TEXT
    if pt.is_time(kind):
        return TIME
    if pt.is_duration(kind) or pt.is_interval(kind):
        return INTERVAL
    if pt.is_date64(kind):
        return type_oid(DataType(Kind.DATE))
    if pt.is_float16(kind):
        return type_oid(DataType(Kind.FLOAT32))
    if _is_list(kind) and not pt.is_nested(kind.value_type):
        return TYPES_BY_OID[field_oid(kind.value_field)].array or JSON
    return JSON if pt.is_nested(kind) else TEXT


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pt.is_list(kind)
        or pt.is_large_list(kind)
        or pt.is_fixed_size_list(kind)
        or pt.is_list_view(kind)
        or pt.is_large_list_view(kind)
    )


def column_heads(schema: pa.Schema) -> list[ColumnHead]:
    """Return the columns of a result for RowDescription."""
    heads = []
    for field in schema:
        oid, known = field_oid(field), type_of_field(field)
        modifier = -1 if known is None else type_modifier(known)
        heads.append(ColumnHead(field.name, oid, TYPES_BY_OID[oid].length, modifier))
    return heads


class RowStyle(NamedTuple):
    """How values look."""

    zone: str
    words: str
    """Dates, intervals and bytes, in the words of the kernel."""


def style_of(session: Session) -> RowStyle:
    """How a session wants values to look."""
    variables = session.variables
    date, _, order = variables.get("datestyle", "ISO, MDY").lower().partition(", ")
    interval = variables.get("intervalstyle", "postgres").lower()
    words = f"{date},{order},{interval},{variables.get('bytea_output', 'hex').lower()}"
    return RowStyle(session.time_zone, words)


def localized(batch: pa.RecordBatch, zone: str) -> pa.RecordBatch:
    """Return rows with their timestamps as local times, which is what a type without a zone holds."""
    if zone == "UTC" or not any(pt.is_timestamp(kind) for kind in batch.schema.types):
        return batch
    columns = [local_times(column, zone) if pt.is_timestamp(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows without dictionaries, which have no form of their own on the wire."""
    if not any(pt.is_dictionary(kind) for kind in batch.schema.types):
        return batch
    columns = [each.dictionary_decode() if pt.is_dictionary(each.type) else each for each in batch.columns]
    fields = [field.with_type(column.type) for field, column in zip(batch.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def encode_rows(
    batch: pa.RecordBatch, formats: Sequence[bool], style: RowStyle, *, is_copy: bool = False
) -> Iterator[bytes]:
    """Yield the rows of a batch as messages, some at a time."""
    if not batch.num_columns:
        row = b"D\x00\x00\x00\x06\x00\x00" if not is_copy else b"d\x00\x00\x00\x06\x00\x00"
        yield row * batch.num_rows
        return
    rows, at = localized(plain(batch), style.zone), 0
    while at < rows.num_rows:
        piece, at = encode_postgres_rows(
            rows, binary=formats, style=style.words, is_copy=is_copy, start=at, bytes_max=CHUNK_BYTES
        )
        yield piece

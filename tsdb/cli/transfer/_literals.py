"""Columns of Arrow as literals of SQL, column by column: an INSERT is made without touching single values."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tsdb.model import type_of_arrow

_NULL = "NULL"


def insert_text(table: str, batch: pa.RecordBatch) -> str:
    """Return an INSERT of all rows of a batch, whose columns have types that a table can have."""
    names = ", ".join(quoted(name) for name in batch.schema.names)
    cells = [literals(column) for column in batch.columns]
    rows = pc.binary_join_element_wise(*cells, ",") if len(cells) > 1 else cells[0]
    whole = pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows)
    return f"INSERT INTO {quoted_path(table)} ({names}) VALUES ({pc.binary_join(whole, '),(')[0].as_py()})"


def quoted(name: str) -> str:
    """A name as SQL has to have it."""
    return '"' + name.replace('"', '""') + '"'


def quoted_path(table: str) -> str:
    """A table, with its database in front of it if it has one: `database.table`."""
    database, dot, name = table.partition(".")
    return f"{quoted(database)}.{quoted(name)}" if dot and name else quoted(table)


def literals(column: pa.Array) -> pa.Array:
    """Return a column as literals; a null is NULL."""
    kind = column.type
    if pt.is_dictionary(kind):
        return literals(column.dictionary_decode())
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        texts = _in_quotes(pc.replace_substring(column.cast(pa.string()), "'", "''"))
    elif pt.is_timestamp(kind):
        # A number is a count of the column's own unit.
        texts = column.cast(pa.timestamp(kind.unit)).cast(pa.int64()).cast(pa.string())
    elif pt.is_floating(kind):
        texts = _float_literals(column)
    elif _is_binary(kind):
        texts = pa.array([None if each is None else f"X'{each.hex()}'" for each in column.to_pylist()], pa.string())
    elif pt.is_date(kind) or pt.is_decimal(kind):
        texts = _in_quotes(column.cast(pa.string()))
    else:
        texts = column.cast(pa.string())
    return pc.fill_null(texts, _NULL)


def _in_quotes(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise("'", texts, "'", "")


def _float_literals(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    # As an integer, -0 would lose its sign.
    texts = pc.if_else(pc.equal(texts, "-0"), "-0.0", texts)
    is_finite = pc.is_finite(column)
    if pc.all(is_finite).as_py() is not False:
        return texts
    kind = "float" if pt.is_float32(column.type) else "double"
    named = pc.if_else(pc.is_nan(column), "NaN", pc.if_else(pc.greater(column, 0), "inf", "-inf"))
    return pc.if_else(is_finite, texts, pc.binary_join_element_wise("'", named, f"'::{kind}", ""))


def _is_binary(kind: pa.DataType) -> bool:
    found = type_of_arrow(kind)
    return found is not None and found.kind.value == "Binary"


def create_table_text(
    table: str, columns: Sequence[tuple[str, str]], *, time: str, tags: Sequence[str], is_append: bool
) -> str:
    """Return a CREATE TABLE of columns and their types as SQL spells them."""
    parts = [f"{quoted(name)} {kind}{' NOT NULL' if name == time else ''}" for name, kind in columns]
    parts.append(f"TIME INDEX ({quoted(time)})")
    if tags:
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, tags))})")
    options = " WITH (append_mode = 'true')" if is_append else ""
    return f"CREATE TABLE IF NOT EXISTS {quoted_path(table)} ({', '.join(parts)}){options}"

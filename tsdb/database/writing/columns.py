"""Rows on their way into a table: completed with defaults, checked, split by partition, written to the regions.

Rows are written to all regions at once; each region takes its part as a whole or not at all. A change of the table
between reading its description and writing shows as an outdated request and is tried again with the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass

import pyarrow as pa

from tsdb.catalog import TableNotFound
from tsdb.database._defaults import default_array
from tsdb.database._services import Services
from tsdb.database.writing.conform import conform_rows
from tsdb.engine import SchemaOutdated
from tsdb.errors import Cancelled, InvalidArguments, Unsupported
from tsdb.metric import ON_PHYSICAL, check_writable, write_batch
from tsdb.model import Batch, OpType, PartitionRule, RegionId, RegionSchema, TableInfo, region_id
from tsdb.query import WriteToken

ROWS_PER_BATCH = 65_536
"""Larger inserts are written in several batches: one log entry stays of a bearable size."""

ATTEMPTS_MAX = 5
"""How often rows are brought to the schema that their region has by then, when it changes while they are written."""


def complete_rows(
    table: TableInfo, given: Mapping[str, pa.Array | pa.ChunkedArray], rows: int, *, now_ns: int
) -> pa.Table:
    """Return all columns of a table, in its order, for rows that name some of them."""
    columns = []
    for column in table.columns:
        values = given.get(column.name)
        if values is None:
            if column.default is None and not column.nullable:
                raise InvalidArguments(
                    f"column {column.name} of table {table.name} is not null and has no default: it needs a value",
                    column=column.name,
                )
            values = default_array(column, rows, now_ns=now_ns)
        elif not column.nullable and values.null_count:
            raise InvalidArguments(f"column {column.name} is not null but input has null", column=column.name)
        columns.append(values)
    return pa.table(columns, schema=table.arrow)


def put_rows(services: Services, table: TableInfo, rows: pa.Table, token: WriteToken | None = None) -> int:
    """Write rows that have all columns of the table; the number of rows, once they are durable and visible."""
    return _write(services, table, rows, OpType.PUT, token or WriteToken())


def delete_keys(services: Services, table: TableInfo, keys: pa.Table, token: WriteToken | None = None) -> int:
    """Delete rows by tags and time."""
    check_deletable(services, table)
    return _write(services, table, keys, OpType.DELETE, token or WriteToken())


def check_deletable(services: Services, table: TableInfo) -> None:
    """Refuse to delete from a table that keeps every row or shows a file."""
    if table.engine == "file":
        raise Unsupported(f"table {table.name} is read-only: it shows a file")
    if table.is_append or stored_in(services, table).is_append:
        raise InvalidArguments(f"table {table.name} is in append mode: its rows cannot be deleted")


def stored_in(services: Services, table: TableInfo) -> TableInfo:
    """The table whose regions hold the rows of a table: itself, unless it is a logical one of the metric engine."""
    if table.physical_table_id is None:
        return table
    physical = services.catalog.table_by_id(table.physical_table_id)
    if physical is None:
        raise TableNotFound(table.database, table.options.get(ON_PHYSICAL, ""))
    return physical


def _write(services: Services, table: TableInfo, rows: pa.Table, op: OpType, token: WriteToken) -> int:
    if not rows.num_rows:
        return 0
    check_writable(table)
    if not table.region_ids and not table.is_logical:
        raise Unsupported(f"table {table.name} is read-only: it shows a file")
    pieces = [
        _Piece(region, pa.Table.from_batches([batch]))
        for region, part in _split(services, table, rows)
        for batch in part.combine_chunks().to_batches(max_chunksize=ROWS_PER_BATCH)
    ]
    for attempt in range(1, ATTEMPTS_MAX + 1):
        outdated = _write_pieces(services, table, pieces, op, token)
        if outdated is None:
            break
        if attempt == ATTEMPTS_MAX:
            raise outdated
        pieces = [piece for piece in pieces if not piece.is_written]
    return int(rows.num_rows)


@dataclass(slots=True, eq=False)
class _Piece:
    """Rows that one region takes as a whole or not at all."""

    region: RegionId
    rows: pa.Table
    is_written: bool = False


def _write_pieces(
    services: Services, table: TableInfo, pieces: list[_Piece], op: OpType, token: WriteToken
) -> SchemaOutdated | None:
    """Write pieces, all at once; an error if some are refused because their region has another schema by now."""
    outdated: SchemaOutdated | None = None
    stopped: Cancelled | None = None
    writing: list[tuple[_Piece, Future[int]]] = []
    for piece in pieces:
        try:
            token.enter()
            writing.append((piece, _start_write(services, table, piece, op)))
        except SchemaOutdated as error:
            outdated = error
        except Cancelled as error:
            # Pieces that were sent before are waited for: they are counted.
            stopped = error
            break
    for piece, future in writing:
        try:
            future.result()
            piece.is_written = True
            token.note(rows=piece.rows.num_rows)
        except SchemaOutdated as error:
            outdated = error
    if stopped is not None:
        raise stopped
    return outdated


def _start_write(services: Services, table: TableInfo, piece: _Piece, op: OpType) -> Future[int]:
    schema = services.regions.schema(piece.region)
    rows = piece.rows
    if table.is_logical:
        (batch,) = rows.combine_chunks().to_batches()
        return _send(services, piece.region, write_batch(schema, table, batch, op), schema)
    if schema.version != table.schema_version:
        newest = services.catalog.table_by_id(table.id) or table
        rows = conform_rows(rows, table, newest, schema, op, now_ns=services.clock.now_ns())
    (batch,) = rows.combine_chunks().to_batches()
    return _send(services, piece.region, Batch.from_arrow(schema, batch, op), schema)


def _send(services: Services, region: RegionId, batch: Batch, schema: RegionSchema) -> Future[int]:
    timeout = services.options.write_timeout
    return services.regions.write(region, batch, timeout=timeout, schema_version=schema.version)


def _split(services: Services, table: TableInfo, rows: pa.Table) -> list[tuple[RegionId, pa.Table]]:
    stored = stored_in(services, table)
    if len(stored.region_numbers) == 1:
        return [(stored.region_ids[0], rows)]
    types = {name: stored.by_name[name].type for name in stored.partition_columns}
    rule = PartitionRule.parse(stored.partition_columns, stored.partition_rules, types)
    lacking = [name for name in stored.partition_columns if name not in rows.column_names]
    for name in lacking:
        # A logical table need not have every label of its physical one.
        rows = rows.append_column(name, pa.nulls(rows.num_rows, types[name].arrow))
    parts = rule.split(rows)
    return [(region_id(stored.id, stored.region_numbers[index]), part.drop_columns(lacking)) for index, part in parts]

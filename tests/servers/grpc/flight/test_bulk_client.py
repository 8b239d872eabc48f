"""The bulk writer of `greptimedb-ingester`, which speaks DoPut by itself."""

from __future__ import annotations

from typing import Any

import pytest
from greptimedb_ingester import Client, Column, ColumnDataType, GreptimeError, SemanticType, WriteOptions

from tests.servers.grpc.flight.clients import CREATE
from tests.servers.grpc.running import RunningServer

HOST = Column("host", ColumnDataType.STRING, SemanticType.TAG)
TS = Column("ts", ColumnDataType.TIMESTAMP_MILLISECOND, SemanticType.TIMESTAMP)
V = Column("v", ColumnDataType.FLOAT64, SemanticType.FIELD)


def client(served: RunningServer, **options: Any) -> Client:
    return Client([served.address], database="public", **options)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_batches_are_acknowledged_by_their_numbers(served: RunningServer, compression: str | None) -> None:
    served.sql("DROP TABLE IF EXISTS bulk_rows")
    served.sql(CREATE.format("bulk_rows"))
    options = WriteOptions(compression=compression) if compression else None
    writer = client(served).bulk_writer("bulk_rows", [HOST, TS, V], options)
    answers = []
    for number in range(3):
        rows = writer.alloc_rows(500)
        rows.add_rows([[f"h{row}", 1000 * number + row, float(row)] for row in range(500)])
        answers.append(writer.write(rows))
    writer.finish()
    assert [each.affected_rows for each in answers] == [500, 500, 500]
    assert len({each.request_id for each in answers}) == 3
    assert served.sql("SELECT count(*) AS n, sum(v) AS s FROM bulk_rows") == [{"n": 1500, "s": 374_250.0}]


def write_one(served: RunningServer, table: str) -> None:
    writer = client(served).bulk_writer(table, [HOST, TS, V])
    rows = writer.alloc_rows(1)
    rows.add_rows([["a", 1, 1.0]])
    writer.write(rows)


def test_a_table_that_is_not_there_is_refused_with_its_name(served: RunningServer) -> None:
    with pytest.raises(GreptimeError, match="bulk_missing"):
        write_one(served, "bulk_missing")


def test_rows_inserted_and_rows_in_bulk_are_in_the_same_table(served: RunningServer) -> None:
    served.sql("DROP TABLE IF EXISTS bulk_both")
    sender = client(served)
    assert sender.insert("bulk_both", [HOST, TS, V], [["a", 1, 1.0]]) == 1
    writer = sender.bulk_writer("bulk_both", [HOST, TS, V])
    rows = writer.alloc_rows(1)
    rows.add_rows([["a", 2, None]])
    assert writer.write(rows).affected_rows == 1
    writer.finish()
    assert served.sql("SELECT host, v FROM bulk_both ORDER BY ts") == [
        {"host": "a", "v": 1.0},
        {"host": "a", "v": None},
    ]

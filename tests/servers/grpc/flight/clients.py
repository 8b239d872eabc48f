"""Clients of Arrow Flight that are not ours: `pyarrow.flight`, and the Flight SQL driver of ADBC."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pyarrow.flight as fl
from google.protobuf.message import Message

from tests.servers.grpc.running import RunningServer
from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
from tsdb.servers.grpc.flight._commands import pack

SCHEMA = pa.schema([("host", pa.string()), ("v", pa.float64()), ("ts", pa.timestamp("ms"))])
CREATE = "CREATE TABLE {} (host STRING PRIMARY KEY, v DOUBLE, ts TIMESTAMP(3) TIME INDEX)"


@contextmanager
def flight(served: RunningServer) -> Iterator[fl.FlightClient]:
    with fl.connect(f"grpc://{served.address}") as client:
        yield client


@contextmanager
def adbc(served: RunningServer, **options: str) -> Iterator[Any]:
    """A cursor of the driver, which warns that there are no transactions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        connection = flight_sql.connect(f"grpc://{served.address}", db_kwargs=options)
    with connection, connection.cursor() as cursor:
        yield cursor


def rows_of(count: int, *, start: int = 0) -> pa.Table:
    """Rows of `SCHEMA`, one series each."""
    numbers = range(start, start + count)
    return pa.table([[f"h{n}" for n in numbers], [float(n) for n in numbers], list(numbers)], schema=SCHEMA)


def command(message: Message) -> fl.FlightDescriptor:
    return fl.FlightDescriptor.for_command(pack(message))


def ask(client: fl.FlightClient, text: str, options: fl.FlightCallOptions | None = None) -> pa.Table:
    """Ask a query by its text, as clients of Flight SQL do."""
    info = client.get_flight_info(command(sql.CommandStatementQuery(query=text)), options)
    return client.do_get(info.endpoints[0].ticket, options).read_all()


def headers(**pairs: str) -> fl.FlightCallOptions:
    return fl.FlightCallOptions(
        headers=[(key.replace("_", "-").encode(), value.encode()) for key, value in pairs.items()]
    )

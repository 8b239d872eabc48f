"""The time zone of a gRPC call, from its header or metadata, applies to every kind of query as over SQL protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import adbc_driver_manager
import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest

from tests.servers.grpc.flight.clients import adbc, ask, command, flight, headers
from tests.servers.grpc.running import RunningServer
from tsdb.auth import SYSTEM
from tsdb.query import Affected, Session
from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
from tsdb.servers.grpc.proto import greptime_pb2 as v1

ZONE = "America/New_York"
INSTANT = 1_720_000_000_000
"""2024-07-03 09:46:40 UTC, 05:46:40 in New York."""

EXPRESSIONS = (
    "CAST(ts AS VARCHAR)",
    "CAST(ts AS DATE)",
    "CAST(date_trunc('day', ts) AS BIGINT)",
    "CAST(date_bin(INTERVAL '1 day', ts) AS BIGINT)",
    "extract(hour FROM ts)",
    "date_part('hour', ts)",
    "to_char(ts, 'YYYY-MM-DD HH24:MI')",
    "date_format(ts, '%Y-%m-%d %H:%M')",
    "CAST('2024-07-03 05:46:40'::TIMESTAMP AS BIGINT)",
    "ts = '2024-07-03 05:46:40'",
)
QUERY = f"SELECT {', '.join(f'{text} AS c{number}' for number, text in enumerate(EXPRESSIONS))} FROM zoned WHERE v = 1"


@pytest.fixture(scope="module", autouse=True)
def table(served: RunningServer) -> Iterator[None]:
    served.sql("CREATE TABLE zoned (host STRING PRIMARY KEY, v DOUBLE, ts TIMESTAMP(3) TIME INDEX)")
    served.sql(f"INSERT INTO zoned VALUES ('a', 1, {INSTANT})")
    yield
    served.sql("DROP TABLE zoned")


def _greptime(served: RunningServer, text: str, options: fl.FlightCallOptions | None, **header: str) -> pa.Table:
    request = v1.GreptimeRequest(query=v1.QueryRequest(sql=text), header=v1.RequestHeader(**header))
    with flight(served) as client:
        return client.do_get(fl.Ticket(request.SerializeToString()), options).read_all()


def _flight_sql(served: RunningServer, text: str) -> pa.Table:
    with flight(served) as client:
        return ask(client, text, headers(x_tsdb_timezone=ZONE))


def _ticket_alone(served: RunningServer, text: str) -> pa.Table:
    """A ticket keeps the zone of the call that made it."""
    with flight(served) as client:
        info = client.get_flight_info(command(sql.CommandStatementQuery(query=text)), headers(x_tsdb_timezone=ZONE))
        return client.do_get(info.endpoints[0].ticket).read_all()


def _adbc(served: RunningServer, text: str, values: tuple[Any, ...] | None = None) -> pa.Table:
    with adbc(served, **{"adbc.flight.sql.rpc.call_header.x-tsdb-timezone": ZONE}) as cursor:
        cursor.execute(text, values)
        return cursor.fetch_arrow_table()


PATHS: dict[str, Callable[[RunningServer, str], pa.Table]] = {
    "header": lambda served, text: _greptime(served, text, None, timezone=ZONE),
    "metadata": lambda served, text: _greptime(served, text, headers(x_tsdb_timezone=ZONE)),
    "other metadata": lambda served, text: _greptime(served, text, headers(x_greptime_timezone=ZONE)),
    "flight sql": _flight_sql,
    "ticket": _ticket_alone,
    "adbc": _adbc,
    "adbc prepared": lambda served, text: _adbc(served, text.replace("v = 1", "v = ?"), (1.0,)),
}


@pytest.mark.parametrize("path", PATHS)
def test_calendars_and_texts_follow_the_zone_of_the_call(served: RunningServer, path: str) -> None:
    output = served.database.run(QUERY, Session(identity=SYSTEM, time_zone=ZONE))
    assert not isinstance(output, Affected)
    wanted = [tuple(row.values()) for batch in output for row in batch.to_pylist()]
    [row] = PATHS[path](served, QUERY).to_pylist()
    assert [tuple(row.values())] == wanted
    assert row["c0"].startswith("2024-07-03T05:46:40")
    assert (row["c4"], row["c8"], row["c9"]) == (5, INSTANT, True)


def test_texts_that_are_written_are_read_in_the_zone_of_the_call(served: RunningServer) -> None:
    with adbc(served, **{"adbc.flight.sql.rpc.call_header.x-tsdb-timezone": ZONE}) as cursor:
        cursor.execute("INSERT INTO zoned VALUES ('b', 2, '2024-07-03 05:46:40')")
        cursor.executemany("INSERT INTO zoned VALUES (?, ?, ?)", [("c", 3.0, "2024-07-03 05:46:41")])
        cursor.execute("DELETE FROM zoned WHERE host = 'b' AND ts < '2024-07-03 05:46:40'")
        assert cursor.rowcount == 0
    request = v1.GreptimeRequest(query=v1.QueryRequest(sql="INSERT INTO zoned VALUES ('d', 4, '2024-07-03 05:46:42')"))
    request.header.timezone = ZONE
    assert served.handle(request) == 1
    rows = served.sql("SELECT host, CAST(ts AS BIGINT) AS t FROM zoned WHERE v > 1 ORDER BY host")
    assert [(row["host"], row["t"] - INSTANT) for row in rows] == [("b", 0), ("c", 1000), ("d", 2000)]


def test_the_zone_of_one_call_is_not_that_of_the_next(served: RunningServer) -> None:
    _flight_sql(served, QUERY)
    with flight(served) as client:
        text = "SELECT extract(hour FROM ts) AS h, date_trunc('day', ts) AS d FROM zoned WHERE v = 1"
        [row] = ask(client, text).to_pylist()
    assert (row["h"], row["d"]) == (9, datetime(2024, 7, 3))


def test_an_unknown_zone_is_refused(served: RunningServer) -> None:
    with flight(served) as client, pytest.raises(pa.ArrowInvalid, match="Mars"):
        ask(client, "SELECT 1", headers(x_tsdb_timezone="Mars/Base"))
    request = v1.GreptimeRequest(query=v1.QueryRequest(sql="SELECT 1"), header=v1.RequestHeader(timezone="Mars/Base"))
    with pytest.raises(grpc.RpcError, match="Mars"):
        served.handle(request)


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("SET time_zone = 'Asia/Tokyo'", "x-tsdb-timezone"),
        ("SET TIME ZONE 'Asia/Tokyo'", "x-tsdb-timezone"),
        ("SET series_aggregate = 'on', time_zone = '+01:00'", "x-tsdb-timezone"),
        ("USE public", "x-tsdb-db-name"),
    ],
)
def test_statements_that_would_change_the_session_name_the_header(
    served: RunningServer, text: str, header: str
) -> None:
    with adbc(served) as cursor, pytest.raises(adbc_driver_manager.NotSupportedError, match=header):
        cursor.execute(text)
    with flight(served) as client, pytest.raises(NotImplementedError, match=header):
        ask(client, text)


def test_a_zone_that_is_set_applies_to_the_later_statements_of_the_same_call(served: RunningServer) -> None:
    text = f"SET time_zone = '{ZONE}'; INSERT INTO zoned VALUES ('e', 5, '2024-07-03 05:46:40')"
    assert served.handle(v1.GreptimeRequest(query=v1.QueryRequest(sql=text))) == 1
    assert served.sql("SELECT CAST(ts AS BIGINT) AS t FROM zoned WHERE v = 5") == [{"t": INSTANT}]

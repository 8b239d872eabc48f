"""Flight SQL with the driver of ADBC: statements, values, bulk, what there is."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import adbc_driver_manager
import pyarrow as pa
import pyarrow.flight as fl
import pytest

from tests.servers.grpc.flight.clients import CREATE, adbc, ask, command, flight
from tests.servers.grpc.running import RunningServer
from tests.servers.http.test_interrupted_writes import Gate
from tsdb.catalog import Catalog
from tsdb.database import Database, Session
from tsdb.servers.grpc.flight import _put
from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
from tsdb.servers.grpc.flight._catalog import PRIMARY_KEYS
from tsdb.servers.grpc.flight._ingest import plan_ingest

TIMES = pa.array([1, 2, 3], pa.timestamp("ms"))


def read(client: fl.FlightClient, message: Any) -> list[dict[str, Any]]:
    """Ask for what there is."""
    info = client.get_flight_info(command(message))
    table = client.do_get(info.endpoints[0].ticket).read_all()
    assert table.schema == info.schema
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_statements_are_done_when_they_return_and_say_how_many_rows(served: RunningServer) -> None:
    with adbc(served) as cursor:
        cursor.execute(CREATE.format("done"))
        cursor.execute("INSERT INTO done VALUES ('a', 1.5, 1), ('b', 2.5, 2)")
        assert cursor.rowcount == 2
        assert len(served.sql("SELECT * FROM done")) == 2
        cursor.execute("SELECT * FROM done ORDER BY host")
        assert cursor.fetchall() == [
            ("a", 1.5, datetime(1970, 1, 1, microsecond=1000)),
            ("b", 2.5, datetime(1970, 1, 1, microsecond=2000)),
        ]
        cursor.execute("SHOW TABLES LIKE 'done'")
        assert cursor.fetchall() == [("done",)]
        cursor.execute("ADMIN flush_table('done')")
        assert cursor.fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("SELECT * FROM not_there", adbc_driver_manager.ProgrammingError, "Table not found"),
        ("SELECT 1; SELECT 2", adbc_driver_manager.ProgrammingError, "expected one statement, found 2"),
        ("SELECT (1", adbc_driver_manager.ProgrammingError, "INVALID_ARGUMENT"),
        ("SELECT ? + $1", adbc_driver_manager.ProgrammingError, "one kind of placeholder"),
        ("BEGIN", adbc_driver_manager.NotSupportedError, "BEGIN"),
        ("-- nothing", adbc_driver_manager.ProgrammingError, "found 0"),
    ],
)
def test_statements_that_cannot_be_run_are_refused_at_once(
    served: RunningServer, text: str, error: type[Exception], words: str
) -> None:
    values = (1,) if "?" in text else None
    with adbc(served) as cursor, pytest.raises(error, match=words):
        cursor.execute(text, values)


VALUES = [
    ("bigint", 2**62),
    ("bigint", -7),
    ("double", -1.5e300),
    ("double", 0.1),
    ("string", "it's; -- ? $1 \\ \x01 'ü"),
    ("string", ""),
    ("boolean", True),
    ("boolean", False),
    ("binary", b"\x00\xff'"),
    ("timestamp(6)", datetime(2024, 2, 29, 12, 30, 15, 123456)),
    ("date", date(1969, 12, 31)),
    ("decimal(12, 3)", Decimal("-12345.678")),
    ("string", None),
]


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=str)
def test_values_are_written_and_compared_as_they_are(served: RunningServer, kind: str, value: Any) -> None:
    served.sql("DROP TABLE IF EXISTS kinds")
    served.sql(f"CREATE TABLE kinds (x {kind}, ts TIMESTAMP TIME INDEX)")
    with adbc(served) as cursor:
        cursor.execute("INSERT INTO kinds (x, ts) VALUES (?, 5)", (value,))
        cursor.execute("SELECT x FROM kinds")
        assert cursor.fetchall() == [(value,)]
        cursor.execute("SELECT count(*) FROM kinds WHERE x = $1", (value,))
        assert cursor.fetchall() == [(0 if value is None else 1,)]


def test_rows_of_values_are_inserted_as_columns(served: RunningServer) -> None:
    served.sql(CREATE.format("many"))
    rows = [(n % 100, f"h{n}", datetime(2024, 1, 1, tzinfo=UTC)) for n in range(5000)]
    with adbc(served) as cursor:
        cursor.executemany("INSERT INTO many (v, host, ts) VALUES (? + 0.5, upper(?), ?)", rows)
        assert cursor.rowcount == 5000
    assert served.sql("SELECT count(*) AS n, sum(v) AS s, max(host) AS h FROM many") == [
        {"n": 5000, "s": 250_000.0, "h": "H999"}
    ]


def test_other_statements_are_run_for_each_row_of_values(served: RunningServer) -> None:
    served.sql(CREATE.format("each_row"))
    with adbc(served) as cursor:
        cursor.executemany(
            "INSERT INTO each_row (host, v, ts) VALUES ($1, $2, $3), ('twin', $2, $3)", [("a", 1.0, 5), ("b", 2.0, 6)]
        )
        assert cursor.rowcount == 4
        cursor.executemany("DELETE FROM each_row WHERE host = ? AND v = ?", [("twin", 1.0), ("b", 2.0)])
        assert cursor.rowcount == 2
    assert [row["host"] for row in served.sql("SELECT host FROM each_row ORDER BY host")] == ["a", "twin"]


def test_a_query_with_several_rows_of_values_answers_for_all(served: RunningServer) -> None:
    with adbc(served) as cursor:
        cursor.adbc_statement.set_sql_query("SELECT CAST(? AS BIGINT) AS n")
        cursor.adbc_statement.prepare()
        cursor.adbc_statement.bind(pa.record_batch({"0": [3, 1, 2]}))
        handle, _ = cursor.adbc_statement.execute_query()
        assert pa.RecordBatchReader._import_from_c(handle.address).read_all().column("n").to_pylist() == [3, 1, 2]


def test_a_prepared_statement_tells_the_types_of_its_values(served: RunningServer) -> None:
    served.sql(CREATE.format("typed"))
    with adbc(served) as cursor:
        schema = cursor.adbc_prepare("SELECT ? FROM typed WHERE host = ? AND 5 < v AND ? >= v AND ts > ? LIMIT ?")
        assert schema.types == [pa.null(), pa.string(), pa.float64(), pa.timestamp("ms"), pa.int64()]
        schema = cursor.adbc_prepare('INSERT INTO public.typed ("ts", v, host) VALUES (?, ? + 1, ?)')
        assert schema.types == [pa.timestamp("ms"), pa.float64(), pa.string()]


@pytest.mark.parametrize("values", [(), (1, 2)])
def test_too_few_and_too_many_values_are_refused(served: RunningServer, values: tuple[int, ...]) -> None:
    with adbc(served) as cursor, pytest.raises(adbc_driver_manager.Error, match="takes 1 values"):
        cursor.execute("SELECT ?", values or None)


def test_bulk_creates_appends_replaces_and_refuses_as_it_is_told(served: RunningServer) -> None:
    table = pa.table({"host": ["a", "b", "a"], "v": [1.0, 2.0, 3.0], "ts": TIMES})
    with adbc(served) as cursor, pytest.raises(adbc_driver_manager.ProgrammingError, match="Table not found"):
        cursor.adbc_ingest("bulk", table, mode="append")
    with adbc(served) as cursor:
        assert cursor.adbc_ingest("bulk", table, mode="create") == 3
        assert cursor.adbc_ingest("bulk", table, mode="append") == 3
        assert cursor.adbc_ingest("bulk", table, mode="create_append") == 3
        # Nothing says which columns identify a row, so that all rows are kept.
        assert served.sql("SELECT count(*) AS n FROM bulk") == [{"n": 9}]
        with pytest.raises(adbc_driver_manager.ProgrammingError, match="already exists"):
            cursor.adbc_ingest("bulk", table, mode="create")
    with adbc(served) as cursor:
        assert cursor.adbc_ingest("bulk", table.rename_columns(["host", "w", "ts"]), mode="replace") == 3
    assert served.sql("SELECT sum(w) AS s FROM bulk") == [{"s": 6.0}]


def test_bulk_takes_tags_and_time_from_the_fields(served: RunningServer) -> None:
    schema = pa.schema(
        [
            pa.field("host", pa.string(), metadata={"greptime:semantic_type": "tag"}),
            pa.field("made", pa.timestamp("ms")),
            pa.field("at", pa.timestamp("us"), metadata={"tsdb:semantic_type": "timestamp"}),
            pa.field("v", pa.float64()),
        ]
    )
    table = pa.table([["a", "a", "b"], [1, 2, 3], [1, 1, 1], [1.0, 2.0, 3.0]], schema=schema)
    with adbc(served) as cursor:
        cursor.adbc_ingest("by_fields", table, mode="create")
    assert served.sql("SELECT host, v FROM by_fields ORDER BY host") == [
        {"host": "a", "v": 2.0},
        {"host": "b", "v": 3.0},
    ]


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        (pa.table({"v": [1.0]}), {}, "none is a timestamp"),
        (pa.table({"a": TIMES, "b": TIMES}), {}, "several are timestamps"),
        (pa.table({"l": [[1], [2], [3]], "ts": TIMES}), {}, "which tables do not support"),
        (pa.table({"ts": TIMES}), {"temporary": True}, "temporary tables are not supported"),
        (pa.table({"ts": TIMES}), {"catalog_name": "nope"}, "no catalog 'nope'"),
        (pa.table({"ts": TIMES}), {"db_schema_name": "nope"}, "nope"),
    ],
)
def test_bulk_that_makes_no_table_is_refused_and_leaves_nothing(
    served: RunningServer, table: pa.Table, options: dict[str, Any], words: str
) -> None:
    with adbc(served) as cursor, pytest.raises(adbc_driver_manager.Error, match=words):
        cursor.adbc_ingest("refused", table, mode="create", **options)
    assert served.sql("SHOW TABLES LIKE 'refused'") == []


def test_a_replacement_that_cannot_be_made_leaves_the_table_as_it_was(served: RunningServer) -> None:
    served.sql(CREATE.format("kept"))
    served.sql("INSERT INTO kept VALUES ('a', 1, 1)")
    with adbc(served) as cursor, pytest.raises(adbc_driver_manager.Error, match="none is a timestamp"):
        cursor.adbc_ingest("kept", pa.table({"v": [1.0]}), mode="replace")
    assert len(served.sql("SELECT * FROM kept")) == 1


def test_objects_are_told_with_their_columns(served: RunningServer) -> None:
    served.sql("CREATE DATABASE IF NOT EXISTS told")
    served.sql(CREATE.format("told.a_table"))
    served.sql("CREATE VIEW told.a_view AS SELECT host FROM told.a_table")
    with adbc(served) as cursor:
        objects = cursor.connection.adbc_get_objects(db_schema_filter="told").read_all().to_pylist()
        (schema,) = objects[0]["catalog_db_schemas"]
        shown = [
            (each["table_name"], each["table_type"], [column["column_name"] for column in each["table_columns"]])
            for each in schema["db_schema_tables"]
        ]
        assert shown == [("a_table", "TABLE", ["host", "v", "ts"]), ("a_view", "VIEW", ["host"])]
        assert cursor.connection.adbc_get_table_types() == ["SYSTEM TABLE", "TABLE", "VIEW"]
        described = cursor.connection.adbc_get_table_schema("a_table", db_schema_filter="told")
        assert described.types == [pa.string(), pa.float64(), pa.timestamp("ms")]
        assert cursor.connection.adbc_get_info()["vendor_name"] == "tsdb"


def test_what_there_is_is_told_as_tables(served: RunningServer) -> None:
    served.sql("CREATE DATABASE IF NOT EXISTS keyed")
    served.sql("CREATE TABLE keyed.t (b STRING, a STRING, v DOUBLE, ts TIMESTAMP TIME INDEX, PRIMARY KEY (b, a))")
    with flight(served) as client:
        assert read(client, sql.CommandGetCatalogs()) == [{"catalog_name": "tsdb"}]
        assert read(client, sql.CommandGetDbSchemas(db_schema_filter_pattern="key%")) == [
            {"catalog_name": "tsdb", "db_schema_name": "keyed"}
        ]
        assert read(client, sql.CommandGetDbSchemas(catalog="other")) == []
        keys = read(client, sql.CommandGetPrimaryKeys(table="t", db_schema="keyed"))
        assert [(each["column_name"], each["key_sequence"]) for each in keys] == [("b", 1), ("a", 2), ("ts", 3)]
        assert list(keys[0]) == PRIMARY_KEYS.names
        served.sql(
            "CREATE TABLE keyed.kept (a STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX) WITH (append_mode = 'true')"
        )
        assert read(client, sql.CommandGetPrimaryKeys(table="kept", db_schema="keyed")) == []
        served.sql("DROP TABLE keyed.kept")
        for empty in (sql.CommandGetExportedKeys, sql.CommandGetImportedKeys):
            assert read(client, empty(table="t")) == []
        assert read(client, sql.CommandGetCrossReference(pk_table="t", fk_table="t")) == []
        tables = read(client, sql.CommandGetTables(db_schema_filter_pattern="keyed", table_types=["TABLE"]))
        assert [each["table_name"] for each in tables] == ["t"]
        assert read(client, sql.CommandGetTables(db_schema_filter_pattern="keyed", table_types=["VIEW"])) == []
        facts = {each["info_name"]: each["value"] for each in read(client, sql.CommandGetSqlInfo(info=[0, 1, 8, 99]))}
        assert facts == {0: "tsdb", 1: "9.9.9", 8: 0}
        everything = [each["info_name"] for each in read(client, sql.CommandGetSqlInfo())]
        assert set(everything) >= {*range(6), *range(500, 577)}
        types = read(client, sql.CommandGetXdbcTypeInfo(data_type=-5))
        assert [each["type_name"] for each in types] == ["Int64", "UInt64"]


def test_names_that_look_like_sql_are_names(served: RunningServer) -> None:
    with flight(served) as client:
        nasty = "x' OR '1'='1"
        assert read(client, sql.CommandGetTables(table_name_filter_pattern=nasty)) == []
        assert read(client, sql.CommandGetPrimaryKeys(table=nasty)) == []
        with pytest.raises(KeyError, match="Table not found"):
            client.get_flight_info(fl.FlightDescriptor.for_path('a" UNION SELECT 1 --'))


def test_transactions_are_refused(served: RunningServer) -> None:
    with flight(served) as client:
        asked = command(sql.CommandStatementQuery(query="SELECT 1", transaction_id=b"x"))
        with pytest.raises(pa.ArrowException, match="there are no transactions"):
            client.get_flight_info(asked)
        writer, _ = client.do_put(
            command(sql.CommandStatementUpdate(query="SELECT 1", transaction_id=b"x")), pa.schema([])
        )
        with pytest.raises(pa.ArrowException, match="there are no transactions"):
            writer.close()


def test_the_database_of_a_statement_is_that_of_its_headers_in_every_call(served: RunningServer) -> None:
    served.sql("CREATE DATABASE IF NOT EXISTS elsewhere")
    served.sql(CREATE.format("elsewhere.only_there"))
    with adbc(served, **{"adbc.flight.sql.rpc.call_header.x-greptime-db-name": "elsewhere"}) as cursor:
        cursor.execute("INSERT INTO only_there VALUES (?, ?, ?)", ("a", 1.0, 1))
        cursor.execute("SELECT count(*) FROM only_there WHERE host = ?", ("a",))
        assert cursor.fetchall() == [(1,)]


def test_a_ticket_says_the_database_that_its_statement_was_asked_in(served: RunningServer) -> None:
    served.sql("CREATE DATABASE IF NOT EXISTS asked_in")
    served.sql(CREATE.format("asked_in.t"))
    options = fl.FlightCallOptions(headers=[(b"x-greptime-db-name", b"asked_in")])
    with flight(served) as client:
        info = client.get_flight_info(command(sql.CommandStatementQuery(query="SELECT * FROM t")), options)
        assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == 0


def test_schemas_are_the_same_in_the_info_and_in_the_stream(served: RunningServer) -> None:
    served.sql(CREATE.format("alike"))
    served.sql("INSERT INTO alike VALUES ('a', 1, 1000)")
    texts = [
        "SELECT * FROM alike",
        "SELECT host, count(*), avg(v) FROM alike GROUP BY host",
        "SHOW CREATE TABLE alike",
        "DESC TABLE alike",
        "EXPLAIN SELECT 1",
        "TQL EVAL (0, 10, '5s') alike",
        "SELECT ts, host, avg(v) RANGE '5s' FROM alike ALIGN '5s'",
        "SELECT NULL AS n, [1, 2] AS l, interval '1 day' AS i, CAST(1 AS DECIMAL(5, 2)) AS d",
        "SELECT * FROM information_schema.tables",
    ]
    with flight(served) as client:
        for text in texts:
            info = client.get_flight_info(command(sql.CommandStatementQuery(query=text)))
            table = client.do_get(info.endpoints[0].ticket).read_all()
            assert table.schema.equals(info.schema, check_metadata=True), text
            assert ask(client, text).num_rows == table.num_rows > 0


def test_a_table_is_not_created_for_an_ingest_that_was_cancelled(
    served: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, Catalog, "table", free=0)
    cancelled, cancel = threading.Event(), Database.cancel

    def note(database: Database, session: Session) -> None:
        cancel(database, session)
        cancelled.set()

    ended = threading.Event()

    def plan(*args: Any) -> Any:
        try:
            return plan_ingest(*args)
        finally:
            ended.set()

    monkeypatch.setattr(Database, "cancel", note)
    monkeypatch.setattr(_put, "plan_ingest", plan)
    table = pa.table([["a", "b", "c"], [1.0, 2.0, 3.0], TIMES], names=["host", "v", "ts"])
    with ThreadPoolExecutor(1) as pool, adbc(served) as cursor:
        ingesting = pool.submit(cursor.adbc_ingest, "never", table, mode="create")
        assert gate.reached.wait(30)
        cursor.adbc_cancel()
        was_cancelled = cancelled.wait(10)
        gate.is_open.set()
        with pytest.raises(adbc_driver_manager.Error):
            ingesting.result()
    assert was_cancelled
    assert ended.wait(30)
    assert served.sql("SHOW TABLES LIKE 'never'") == []

"""Real clients against a real server: what they send when they connect, and what they read."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Iterator
from typing import Any

import aiomysql
import mysql.connector
import pymysql
import pytest
import sqlalchemy
from pymysql.constants import CLIENT
from pymysql.cursors import SSCursor

from tests.servers.mysql.served import SECONDS_MAX, Served, serving

CREATE = """
CREATE TABLE kinds (ts TIMESTAMP(3) TIME INDEX, host STRING PRIMARY KEY, v DOUBLE, b VARBINARY, n BIGINT,
  ok BOOLEAN, d DATE, j JSON, x DECIMAL(10, 2), u BIGINT UNSIGNED, f FLOAT)
"""
INSERT = """
INSERT INTO kinds VALUES (1667446797450, 'a', 1.5, X'00ff27', 7, true, '2024-02-03', '{"a":1}', 12.30,
  18446744073709551615, 0.1), (1667446798000, 'b', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
"""
ROW_A = (
    dt.datetime(2022, 11, 3, 3, 39, 57, 450000),
    "a",
    1.5,
    b"\x00\xff'",
    7,
    1,
    dt.date(2024, 2, 3),
    '{"a":1}',
    decimal.Decimal("12.30"),
    2**64 - 1,
    0.1,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("mysql")) as served:
        served.fetch(CREATE)
        served.fetch(INSERT)
        yield served


def _connector(server: Served, **options: Any) -> Any:
    return mysql.connector.connect(
        host="127.0.0.1",
        port=server.port,
        user="me",
        password="secret",
        database="public",
        use_pure=True,
        connection_timeout=SECONDS_MAX,
        **options,
    )


def test_pymysql_reads_every_type_and_nulls(server: Served) -> None:
    first, second = server.fetch("SELECT * FROM kinds ORDER BY ts")
    assert first == ROW_A
    assert second == (dt.datetime(2022, 11, 3, 3, 39, 58), "b", *[None] * 9)


def test_times_are_shown_in_the_time_zone_of_the_session(server: Served) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for zone, hour in (("+08:00", 11), ("America/New_York", 23), ("-03:30", 0), ("SYSTEM", 3)):
            cursor.execute(f"SET time_zone = '{zone}'")
            cursor.execute("SELECT ts FROM kinds WHERE host = 'a'")
            (found,) = cursor.fetchall()
            assert found[0].hour == hour, zone
        cursor.execute("SET time_zone = '+08:00'")
        cursor.execute("SELECT ts FROM kinds WHERE host = 'a'")
        assert str(cursor.fetchall()[0][0]) == "2022-11-03 11:39:57.450000"


def test_text_without_a_zone_is_read_in_the_time_zone_of_the_session(server: Served) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+08:00'")
        assert cursor.execute("SELECT host FROM kinds WHERE ts = '2022-11-03 11:39:57.450'") == 1


def test_calendars_and_formats_are_those_of_the_session(server: Served) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = 'Asia/Kolkata'")
        cursor.execute(
            "SELECT date_trunc('hour', ts), extract(hour FROM ts), CAST(ts AS DATE), "
            "date_format(ts, '%%d %%M %%H:%%i:%%s') "
            "FROM kinds WHERE host = %s",
            ("a",),
        )
        (found,) = cursor.fetchall()
        assert found == (dt.datetime(2022, 11, 3, 9), 9, dt.date(2022, 11, 3), "03 November 09:09:57")
        cursor.execute("SELECT date_trunc('day', ts) AS k, count(*) FROM kinds GROUP BY k ORDER BY k")
        assert cursor.fetchall()[0][0] == dt.datetime(2022, 11, 3)
        cursor.execute("SELECT str_to_date('03/11/2022', '%d/%m/%Y'), CAST('2022-11-03 09:09' AS DATETIME)")
        assert cursor.fetchall() == ((dt.datetime(2022, 11, 3), dt.datetime(2022, 11, 3, 9, 9)),)


def test_values_without_a_form_of_their_own_are_text(server: Served) -> None:
    ((listed, time, odd, none),) = server.fetch(
        "SELECT make_array(1, NULL, 3), CAST('10:11:12.5' AS TIME), CAST('NaN' AS DOUBLE), NULL"
    )
    assert listed == "[1,null,3]"
    assert time == dt.timedelta(hours=10, minutes=11, seconds=12, microseconds=500000)
    assert math.isnan(odd)
    assert none is None


def test_pymysql_sends_bytes_inside_of_the_text(server: Served) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        value = bytes(range(256))
        cursor.execute("INSERT INTO kinds (ts, host, b) VALUES (1, 'bytes', %s)", (value,))
        cursor.execute("SELECT b FROM kinds WHERE host = 'bytes'")
        assert cursor.fetchone() == (value,)
        cursor.execute("DELETE FROM kinds WHERE host = 'bytes'")


def test_an_unbuffered_cursor_gets_all_rows_as_they_come(server: Served) -> None:
    with server.connect(cursorclass=SSCursor) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT number, number * 2 FROM numbers LIMIT 300000")
        total = sum(number for number, _ in cursor)
    assert total == 299_999 * 150_000


def test_several_statements_are_answered_one_after_the_other_until_one_fails(server: Served) -> None:
    with server.connect(client_flag=CLIENT.MULTI_STATEMENTS) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1; SET time_zone = '+01:00'; SELECT * FROM nowhere; SELECT 4")
        assert cursor.fetchall() == ((1,),)
        assert cursor.nextset()
        with pytest.raises(pymysql.err.ProgrammingError) as failure:
            cursor.nextset()
        assert failure.value.args[0] == 1146
        cursor.execute("SELECT 5")
        assert cursor.fetchall() == ((5,),)


def test_several_statements_are_refused_from_a_client_that_did_not_announce_them(server: Served) -> None:
    with pytest.raises(pymysql.err.ProgrammingError, match="2 statements"):
        server.fetch("SELECT 1; SELECT 2")
    assert server.fetch("SELECT 1;") == ((1,),)


STARTUP = [
    ("SELECT @@version_comment LIMIT 1", (("tsdb",),)),
    ("SELECT @@session.tx_isolation, @@transaction_isolation", (("REPEATABLE-READ", "REPEATABLE-READ"),)),
    ("SELECT @@lower_case_table_names, @@auto_increment_increment AS one", ((0, 1),)),
    ("/* mysql-connector-j-8 */SELECT @@character_set_client AS a, @@init_connect AS b", (("utf8mb4", ""),)),
    ("SELECT @@a_variable_of_another_server", ((0,),)),
    ("SELECT DATABASE(), USER()", (("public", "me"),)),
    ("SELECT 1 FROM DUAL", ((1,),)),
    ("SHOW VARIABLES LIKE 'lower_case_table_names'", (("lower_case_table_names", "0"),)),
    ("SHOW SESSION VARIABLES LIKE 'autocommit'", (("autocommit", "ON"),)),
    ("SHOW WARNINGS", ()),
    ("SHOW COUNT(*) WARNINGS", ((0,),)),
    ("SHOW PLUGINS", ()),
    ("/* ApplicationName=DBeaver 24 */ SHOW PLUGINS", ()),
    ("SHOW TRIGGERS FROM public", ()),
    ("SHOW PROCEDURE STATUS WHERE Db = 'public'", ()),
    ("SHOW MASTER STATUS", ()),
    ("SELECT TIMEDIFF(NOW(), UTC_TIMESTAMP())", (("00:00:00",),)),
]


@pytest.mark.parametrize(("statement", "rows"), STARTUP, ids=[statement for statement, _ in STARTUP])
def test_questions_of_clients_that_connect_are_answered(
    server: Served, statement: str, rows: tuple[tuple[object, ...], ...]
) -> None:
    assert server.fetch(statement) == rows


@pytest.mark.parametrize(
    "statement",
    [
        "SET NAMES utf8mb4",
        "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_0900_ai_ci'",
        "SET character_set_results = NULL",
        "SET AUTOCOMMIT = 0",
        "SET @@session.autocommit = OFF",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET sql_mode = 'STRICT_TRANS_TABLES', SQL_SELECT_LIMIT = DEFAULT",
        "SET FOREIGN_KEY_CHECKS = 0",
        "BEGIN",
        "START TRANSACTION",
        "COMMIT",
        "ROLLBACK",
        "LOCK TABLES kinds READ",
        "UNLOCK TABLES",
        "/*!40101 SET NAMES utf8 */",
        "/*!40000 ALTER TABLE kinds DISABLE KEYS */;",
    ],
)
def test_what_clients_set_and_begin_unasked_succeeds(server: Served, statement: str) -> None:
    assert server.fetch(statement) == ()


def test_a_variable_keeps_the_time_zone_for_the_end_of_a_dump(server: Served) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for text in (
            "SET time_zone = 'Asia/Tokyo'",
            "/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */",
            "/*!40103 SET TIME_ZONE='+00:00' */",
            "/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */",
            "SELECT @@time_zone",
        ):
            cursor.execute(text)
        assert cursor.fetchall() == (("Asia/Tokyo",),)
        with pytest.raises(pymysql.err.MySQLError, match="@NEVER_SET"):
            cursor.execute("SET time_zone = @NEVER_SET")


def test_views_of_dumps_are_restored(server: Served) -> None:
    for text in (
        "/*M!999999\\- enable the sandbox mode */ \n\n/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */",
        "/*!50001 CREATE VIEW `dumped` AS SELECT\n 1 AS `one`*/;",
        "/*!50001 DROP VIEW IF EXISTS `dumped`*/;",
        "/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`root`@`%` SQL SECURITY DEFINER */\n"
        "/*!50001 VIEW `dumped` AS select 2 AS `two` */;",
    ):
        assert server.fetch(text) == ()
    assert server.fetch("SELECT two FROM dumped") == ((2,),)
    listed = server.fetch(
        "SELECT CHECK_OPTION, DEFINER, SECURITY_TYPE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION"
        " FROM information_schema.views WHERE table_name = 'dumped'"
    )
    # Programs that dump views take all of these for text.
    assert listed == (("NONE", "tsdb@%", "INVOKER", "utf8", "utf8_bin"),)
    server.fetch("DROP VIEW dumped")


def test_what_is_set_is_what_the_variable_shows(server: Served) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        assert connection.get_autocommit()
        cursor.execute("SET autocommit = 0")
        assert not connection.get_autocommit()
        cursor.execute("SELECT @@autocommit")
        assert cursor.fetchall() == ((0,),)


@pytest.mark.parametrize("text", [";", "", " -- nothing", "/* nothing */"])
def test_a_text_without_a_statement_is_an_error(server: Served, text: str) -> None:
    with pytest.raises(pymysql.err.ProgrammingError, match="empty statements"):
        server.fetch(text)


def test_errors_carry_the_number_and_the_state_of_their_status(server: Served) -> None:
    for statement, errno, state, text in (
        ("SELECT * FROM bar", 1146, "42S02", "(TableNotFound): Failed to plan SQL: Table not found: tsdb.public.bar"),
        ("SELEC 1", 1064, "42000", "did you mean SELECT?"),
        ("SELECT (1", 1149, "42000", "(InvalidSyntax)"),
        ("CREATE TABLE kinds (ts TIMESTAMP TIME INDEX)", 1050, "42S01", "(TableAlreadyExists)"),
        ("USE nowhere", 1102, "42000", "(DatabaseNotFound)"),
    ):
        connection = _connector(server)
        with pytest.raises(mysql.connector.Error) as failure:
            connection.cmd_query(statement)
        assert (failure.value.errno, failure.value.sqlstate) == (errno, state)
        assert text in str(failure.value)
        connection.close()


def test_a_database_is_chosen_at_the_login_and_by_command(server: Served) -> None:
    for name in ("tsdb-public", "greptime-public", "public"):
        assert server.fetch("SELECT DATABASE()", database=name) == (("public",),)
    assert server.fetch("SELECT DATABASE()", database=None) == (("public",),)
    with pytest.raises(pymysql.err.ProgrammingError) as failure:
        server.fetch("SELECT 1", database="nowhere")
    assert failure.value.args == (1102, "Unknown database 'nowhere'")
    with server.connect() as connection, connection.cursor() as cursor:
        connection.select_db("information_schema")
        cursor.execute("SELECT DATABASE()")
        assert cursor.fetchall() == (("information_schema",),)
        with pytest.raises(pymysql.err.ProgrammingError, match="Unknown database"):
            connection.select_db("nowhere")


def test_mysql_connector_binds_values_of_every_type(server: Served) -> None:
    connection = _connector(server)
    with connection.cursor(prepared=True) as cursor:
        when = dt.datetime(2024, 1, 2, 3, 4, 5, 678000)
        values = (when, 'it\'s \\1 "q" ?', -1.5, b"\xff\x00'", -7, True, dt.date(2020, 2, 29), decimal.Decimal("1.25"))
        cursor.execute("INSERT INTO kinds (ts, host, v, b, n, ok, d, x) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        assert cursor.rowcount == 1
        cursor.execute(
            "SELECT ts, host, v, b, n, ok, d, x, '?' AS q FROM kinds WHERE host = ? -- or ?\n LIMIT ?", (values[1], 5)
        )
        assert cursor.fetchall() == [(*values[:5], 1, *values[6:], "?")]
        cursor.execute("SELECT ts FROM kinds WHERE ts > ? AND ts <= ?", (dt.datetime(2024, 1, 1), when))
        assert cursor.fetchall() == [(when,)]
        cursor.execute("DELETE FROM kinds WHERE host = ?", (values[1],))
    connection.close()


def test_mysql_connector_reads_binary_rows_like_text_rows(server: Served) -> None:
    connection = _connector(server)
    with connection.cursor(prepared=True) as cursor:
        cursor.execute("SELECT * FROM kinds WHERE host <> ? ORDER BY ts", ("z",))
        first, second = cursor.fetchall()
        assert first[:10] == ROW_A[:10]
        assert first[10] == pytest.approx(0.1)
        assert second[2:] == (None,) * 9
    connection.close()


def test_mysql_connector_resets_and_changes_its_user(server: Served) -> None:
    connection = _connector(server)
    with connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+05:00'")
        connection.cmd_reset_connection()
        cursor.execute("SELECT @@time_zone")
        assert cursor.fetchall() == [("UTC",)]
    connection.cmd_change_user("other", "secret", "information_schema")
    with connection.cursor() as cursor:
        cursor.execute("SELECT USER(), DATABASE()")
        assert cursor.fetchall() == [("other", "information_schema")]
    connection.close()


async def test_aiomysql_uses_a_pool(server: Served) -> None:
    pool = await aiomysql.create_pool(
        host="127.0.0.1", port=server.port, user="me", password="secret", db="public", minsize=2, maxsize=4
    )
    async with pool.acquire() as connection, connection.cursor() as cursor:
        await cursor.execute("SELECT host FROM kinds ORDER BY host")
        assert await cursor.fetchall() == (("a",), ("b",))
    pool.close()
    await pool.wait_closed()


@pytest.mark.parametrize("driver", ["pymysql", "mysqlconnector"])
def test_sqlalchemy_reflects_a_table_and_reads_it(server: Served, driver: str) -> None:
    engine = sqlalchemy.create_engine(f"mysql+{driver}://me:secret@127.0.0.1:{server.port}/public")
    inspector = sqlalchemy.inspect(engine)
    assert "kinds" in inspector.get_table_names()
    assert inspector.get_pk_constraint("kinds")["constrained_columns"] == ["host", "ts"]
    table = sqlalchemy.Table("kinds", sqlalchemy.MetaData(), autoload_with=engine)
    kinds = {column.name: type(column.type).__name__ for column in table.columns}
    assert kinds == {
        "ts": "TIMESTAMP",
        "host": "TEXT",
        "v": "DOUBLE",
        "b": "BLOB",
        "n": "BIGINT",
        "ok": "TINYINT",
        "d": "DATE",
        "j": "JSON",
        "x": "DECIMAL",
        "u": "BIGINT",
        "f": "FLOAT",
    }
    with engine.connect() as connection:
        found = connection.execute(sqlalchemy.select(table.c.ts, table.c.n).where(table.c.host == "a")).all()
    engine.dispose()
    assert found == [(ROW_A[0], 7)]

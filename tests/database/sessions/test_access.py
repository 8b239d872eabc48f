"""Who may do what: every kind of statement, every way to write and to read, for every kind of user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.prometheus_messages import write_request
from tsdb.auth import PermissionDenied, UserNotFound, open_authenticator
from tsdb.components._local import LocalDatabase, LocalOptions, open_directory
from tsdb.database import Affected, Channel, Database, DatabaseOptions, Session, read_all
from tsdb.engine import EngineOptions, WalSettings
from tsdb.errors import Status, TsdbError
from tsdb.ingest import NewTable, TableRows
from tsdb.ingest.influx import parse_lines
from tsdb.ingest.prometheus import NEW_TABLE as METRIC_TABLE
from tsdb.ingest.prometheus import RemoteWriteReader
from tsdb.ingest.prometheus_read import ReadQuery
from tsdb.query import QueryEngineOptions
from tsdb.query.promql import QueryTimes
from tsdb.sql import statements
from tsdb.units import Size

from tsdb.database.sessions.access import _RULES  # isort: skip

PROVIDER = "catalog_user_provider:cmd:root=r,reader:ro=r,writer:wo=w"
PASSWORDS = {"root": "r", "reader": "r", "writer": "w", "limited": "l", "nothing": "n"}
DENIED = {Status.PERMISSION_DENIED, Status.ACCESS_DENIED}


def open_guarded(directory: Path, provider: str = PROVIDER) -> LocalDatabase:
    options = LocalOptions(
        engine=EngineOptions(num_workers=1, max_background_jobs=1),
        wal=WalSettings(ballast_bytes=Size(0)),
        query=QueryEngineOptions(spill_dir=directory / "spill"),
        database=DatabaseOptions(copy_root=directory / "copy"),
        authenticator=open_authenticator(provider),
        has_housekeeping=False,
    )
    return open_directory(directory, options=options)


def login(database: Database, user: str, *, into: str = "public") -> Session:
    identity = database.services.authenticator.check_password(user, PASSWORDS[user])
    return Session(database=into, user=user, identity=identity)


def run(database: Database, text: str, session: Session) -> list[dict[str, Any]] | int:
    output = database.run(text, session)
    return output.rows if isinstance(output, Affected) else read_all(output).to_pylist()


def outcome(database: Database, text: str, session: Session) -> Status:
    """The status of a statement: success, or that of its error."""
    try:
        run(database, text, session)
    except TsdbError as error:
        return error.status
    return Status.SUCCESS


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    local = open_guarded(tmp_path_factory.mktemp("access"))
    root = login(local.database, "root")
    for text in (
        "CREATE DATABASE mine",
        "CREATE DATABASE seen",
        "CREATE DATABASE hidden",
        *(
            f"CREATE TABLE {where}t (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE)"
            for where in ("", "mine.", "seen.", "hidden.")
        ),
        *(f"INSERT INTO {where}t VALUES ('a', 1000, 1)" for where in ("", "mine.", "seen.", "hidden.")),
        "CREATE VIEW mine.window AS SELECT * FROM hidden.t",
        "CREATE VIEW mine.own AS SELECT host, v FROM mine.t WHERE v > 0",
        "CREATE USER limited IDENTIFIED BY 'l'",
        "CREATE USER nothing IDENTIFIED BY 'n'",
        "GRANT ALL ON mine.* TO limited",
        "GRANT READ ON seen.* TO limited",
    ):
        run(local.database, text, root)
    yield local.database
    local.close()


READING = [
    "SELECT 1",
    "SELECT * FROM t",
    "SELECT v FROM public.t WHERE host = 'a'",
    "WITH x AS (SELECT * FROM t) SELECT * FROM x",
    "SELECT * FROM information_schema.tables",
    "SELECT min(v) RANGE '5s' FROM t ALIGN '5s'",
    "EXPLAIN SELECT * FROM t",
    "EXPLAIN ANALYZE SELECT * FROM t",
    "TQL EVAL (0, 10, '5s') t",
    "TQL EXPLAIN (0, 10, '5s') t",
    "SHOW TABLES",
    "SHOW FULL TABLES",
    "SHOW DATABASES",
    "SHOW COLUMNS FROM t",
    "SHOW INDEX FROM t",
    "SHOW CREATE TABLE t",
    "SHOW CREATE DATABASE public",
    "SHOW TABLE STATUS",
    "SHOW VIEWS",
    "SHOW PROCESSLIST",
    "DESC TABLE t",
    "DESCRIBE t",
]
WRITING = [
    "CREATE DATABASE IF NOT EXISTS fresh",
    "ALTER DATABASE fresh SET 'ttl' = '1d'",
    "DROP DATABASE fresh",
    "CREATE TABLE made (ts TIMESTAMP TIME INDEX, v DOUBLE)",
    "CREATE TABLE alike LIKE t",
    "ALTER TABLE made ADD COLUMN w DOUBLE",
    "COMMENT ON TABLE made IS 'x'",
    "INSERT INTO made (ts, v) VALUES (1, 1)",
    "DELETE FROM made WHERE ts = 1",
    "DELETE FROM made",
    "TRUNCATE TABLE made",
    "ADMIN flush_table('made')",
    "DROP TABLE made, alike",
    "DROP VIEW IF EXISTS nope",
]
ADMINISTRATING = [
    "CREATE USER x IDENTIFIED BY 'x'",
    "ALTER USER limited IDENTIFIED BY 'l'",
    "GRANT READ ON public.* TO x",
    "REVOKE READ ON public.* FROM x",
    "SHOW USERS",
    "SHOW GRANTS FOR limited",
    "DROP USER x",
]
EVERYBODY = [
    "SET time_zone = '+08:00'",
    "SHOW VARIABLES LIKE 'x%'",
    "SHOW WARNINGS",
    "SHOW GRANTS",
    "SHOW GRANTS FOR CURRENT_USER()",
    "PREPARE p AS SELECT 1",
    "DEALLOCATE p",
]


def test_every_kind_of_statement_has_a_rule_or_is_an_administrators() -> None:
    kinds = set(statements.Statement.__args__)
    of_administrators = {statements.CreateUser, statements.DropUser, statements.Grant, statements.Revoke}
    assert set(_RULES) == kinds - of_administrators


@pytest.mark.parametrize("text", READING)
def test_reading_needs_the_right_to_read(database: Database, text: str) -> None:
    assert outcome(database, text, login(database, "root")) is Status.SUCCESS
    assert outcome(database, text, login(database, "reader")) is Status.SUCCESS
    assert outcome(database, text, login(database, "writer")) is Status.PERMISSION_DENIED
    assert outcome(database, text, login(database, "nothing")) is Status.PERMISSION_DENIED


@pytest.mark.parametrize("user", ["root", "writer"])
def test_writing_works_for_those_who_may_write_even_if_they_may_not_read(database: Database, user: str) -> None:
    session = login(database, user)
    for text in WRITING:
        assert outcome(database, text, session) is Status.SUCCESS, text


@pytest.mark.parametrize("text", [*WRITING, "INSERT INTO t SELECT * FROM t", "COPY t TO 'x.parquet'", "DROP TABLE t"])
def test_writing_needs_the_right_to_write(database: Database, text: str) -> None:
    for user in ("reader", "nothing"):
        assert outcome(database, text, login(database, user)) is Status.PERMISSION_DENIED
    assert run(database, "SELECT count(*) AS n FROM t", login(database, "root")) == [{"n": 1}]


def test_administrating_needs_an_administrator(database: Database) -> None:
    for text in ADMINISTRATING:
        for user in ("reader", "writer", "limited", "nothing"):
            if (user, text[:10]) == ("limited", "ALTER USER") or (user, text[-7:]) == ("limited", "limited"):
                continue
            assert outcome(database, text, login(database, user)) is Status.PERMISSION_DENIED, (user, text)
        assert outcome(database, text, login(database, "root")) is Status.SUCCESS, text


@pytest.mark.parametrize("text", EVERYBODY)
@pytest.mark.parametrize("user", ["root", "reader", "writer", "limited", "nothing"])
def test_what_concerns_the_session_alone_is_everybodys(database: Database, user: str, text: str) -> None:
    session = login(database, user)
    session.prepared["p"] = "SELECT 1"
    assert outcome(database, text, session) is Status.SUCCESS


def test_those_who_may_write_but_not_read_get_at_no_rows(database: Database) -> None:
    session = login(database, "writer")
    for text in (
        "INSERT INTO t SELECT * FROM hidden.t",
        "INSERT INTO t VALUES ((SELECT max(host) FROM hidden.t), 5, 1)",
        "DELETE FROM t WHERE v = (SELECT max(v) FROM hidden.t)",
        "DELETE FROM t WHERE EXISTS (SELECT 1 FROM t WHERE v = 1)",
        "COPY t TO 'x.parquet'",
        "COPY (SELECT * FROM t) TO 'x.parquet'",
        "CREATE VIEW peek AS SELECT * FROM t",
        "DECLARE c CURSOR FOR SELECT * FROM t",
    ):
        assert outcome(database, text, session) is Status.PERMISSION_DENIED, text
    session.prepared["p"] = "SELECT * FROM t"
    assert outcome(database, "EXECUTE p", session) is Status.PERMISSION_DENIED
    assert run(database, "SELECT count(*) AS n FROM t", login(database, "root")) == [{"n": 1}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM mine.t", Status.SUCCESS),
        ("SELECT * FROM seen.t", Status.SUCCESS),
        ("SELECT * FROM mine.own", Status.SUCCESS),
        ("SELECT 1", Status.SUCCESS),
        ("WITH x AS (SELECT * FROM seen.t) SELECT * FROM x", Status.SUCCESS),
        ("SELECT a.v FROM mine.t a JOIN seen.t b ON a.host = b.host", Status.SUCCESS),
        ("SELECT * FROM hidden.t", Status.ACCESS_DENIED),
        ("SELECT * FROM tsdb.hidden.t", Status.ACCESS_DENIED),
        ("SELECT * FROM t", Status.ACCESS_DENIED),
        ("SELECT * FROM nope.t", Status.ACCESS_DENIED),
        ("SELECT host FROM hidden.t WHERE host = 'a'", Status.ACCESS_DENIED),
        ("SELECT * FROM mine.t WHERE v IN (SELECT v FROM hidden.t)", Status.ACCESS_DENIED),
        ("SELECT * FROM mine.t UNION ALL SELECT * FROM hidden.t", Status.ACCESS_DENIED),
        ("WITH x AS (SELECT * FROM hidden.t) SELECT * FROM x", Status.ACCESS_DENIED),
        ("SELECT * FROM mine.window", Status.ACCESS_DENIED),
        ("SELECT min(v) RANGE '5s' FROM hidden.t ALIGN '5s'", Status.ACCESS_DENIED),
        ("EXPLAIN SELECT * FROM hidden.t", Status.ACCESS_DENIED),
        ("EXPLAIN ANALYZE SELECT * FROM hidden.t", Status.ACCESS_DENIED),
        ("TQL EVAL (0, 10, '5s') t{__database__=\"seen\"}", Status.SUCCESS),
        ("TQL EVAL (0, 10, '5s') t{__database__=\"hidden\"}", Status.ACCESS_DENIED),
        ('TQL EVAL (0, 10, \'5s\') {__name__=~".+",__schema__="hidden"}', Status.ACCESS_DENIED),
        ("TQL EVAL (0, 10, '5s') t", Status.ACCESS_DENIED),
        ("DESC TABLE seen.t", Status.SUCCESS),
        ("DESC TABLE hidden.t", Status.ACCESS_DENIED),
        ("SHOW TABLES FROM mine", Status.SUCCESS),
        ("SHOW TABLES FROM mine WHERE Tables = 't'", Status.SUCCESS),
        ("SHOW TABLES FROM hidden", Status.ACCESS_DENIED),
        ("SHOW TABLES", Status.ACCESS_DENIED),
        ("SHOW TABLES FROM information_schema", Status.SUCCESS),
        ("SHOW CREATE TABLE hidden.t", Status.ACCESS_DENIED),
        ("SHOW COLUMNS FROM t FROM hidden", Status.ACCESS_DENIED),
        ("SHOW CREATE DATABASE hidden", Status.ACCESS_DENIED),
        ("SHOW CREATE VIEW mine.own", Status.SUCCESS),
        ("USE mine", Status.SUCCESS),
        ("USE hidden", Status.ACCESS_DENIED),
        ("USE information_schema", Status.SUCCESS),
        ("INSERT INTO mine.t VALUES ('a', 1000, 1)", Status.SUCCESS),
        ("INSERT INTO mine.t SELECT * FROM seen.t", Status.SUCCESS),
        ("INSERT INTO mine.t SELECT * FROM hidden.t", Status.ACCESS_DENIED),
        ("INSERT INTO seen.t VALUES ('a', 1000, 1)", Status.ACCESS_DENIED),
        ("INSERT INTO hidden.t VALUES ('a', 1000, 1)", Status.ACCESS_DENIED),
        ("DELETE FROM seen.t", Status.ACCESS_DENIED),
        ("DELETE FROM mine.t WHERE v = (SELECT max(v) + 5 FROM hidden.t)", Status.ACCESS_DENIED),
        ("TRUNCATE TABLE hidden.t", Status.ACCESS_DENIED),
        ("DROP TABLE mine.nope, hidden.t", Status.ACCESS_DENIED),
        ("ALTER TABLE hidden.t ADD COLUMN w DOUBLE", Status.ACCESS_DENIED),
        ("CREATE TABLE hidden.x (ts TIMESTAMP TIME INDEX)", Status.ACCESS_DENIED),
        ("CREATE TABLE mine.x LIKE hidden.t", Status.ACCESS_DENIED),
        ("CREATE VIEW mine.y AS SELECT * FROM hidden.t", Status.ACCESS_DENIED),
        ("CREATE VIEW hidden.y AS SELECT 1", Status.ACCESS_DENIED),
        ("DROP VIEW hidden.y", Status.ACCESS_DENIED),
        ("COMMENT ON TABLE hidden.t IS 'x'", Status.ACCESS_DENIED),
        ("ADMIN flush_table('mine.t')", Status.SUCCESS),
        ("ADMIN flush_table('hidden.t')", Status.ACCESS_DENIED),
        ("ADMIN flush_region(1)", Status.PERMISSION_DENIED),
        ("ADMIN backup('mine.t')", Status.PERMISSION_DENIED),
        ("ADMIN START_BACKUP('mine')", Status.PERMISSION_DENIED),
        ("ADMIN backup_state('mine')", Status.PERMISSION_DENIED),
        ("ADMIN cancel_backup('mine')", Status.PERMISSION_DENIED),
        ("ADMIN skip_log_object('wal/1/00000001/0000000000000007.log')", Status.PERMISSION_DENIED),
        ("ADMIN restore_table('mine', 'latest', 'mine.t', 'mine.u')", Status.PERMISSION_DENIED),
        ("COPY hidden.t TO 'h.parquet'", Status.ACCESS_DENIED),
        ("COPY DATABASE hidden TO 'h/'", Status.ACCESS_DENIED),
        ("COPY (SELECT * FROM hidden.t) TO 'h.parquet'", Status.ACCESS_DENIED),
        ("COPY mine.t TO 'm.parquet'", Status.SUCCESS),
        ("COPY hidden.t FROM 'm.parquet'", Status.ACCESS_DENIED),
        ("CREATE DATABASE more", Status.PERMISSION_DENIED),
        ("DROP DATABASE mine", Status.PERMISSION_DENIED),
        ("ALTER DATABASE mine SET 'ttl' = 'forever'", Status.SUCCESS),
        ("ALTER DATABASE hidden SET 'ttl' = '1s'", Status.ACCESS_DENIED),
    ],
)
def test_rights_in_single_databases_hold_there_alone(database: Database, text: str, expected: Status) -> None:
    assert outcome(database, text, login(database, "limited")) is expected


@pytest.mark.parametrize("channel", list(Channel))
def test_the_describing_tables_tell_nobody_of_what_they_may_not_see(database: Database, channel: Channel) -> None:
    session = login(database, "limited")
    session.channel = channel
    queries = [
        "SELECT DISTINCT table_schema AS s FROM information_schema.tables",
        "SELECT DISTINCT table_schema AS s FROM information_schema.columns",
        "SELECT schema_name AS s FROM information_schema.schemata",
        "SELECT DISTINCT table_schema AS s FROM information_schema.views",
        "SELECT DISTINCT table_schema AS s FROM information_schema.key_column_usage",
        "SELECT DISTINCT table_schema AS s FROM information_schema.partitions",
        "SELECT DISTINCT table_schema AS s FROM information_schema.region_peers",
        "SHOW DATABASES",
    ]
    if channel is Channel.POSTGRES:
        queries += ["SELECT nspname AS s FROM pg_catalog.pg_namespace", "SELECT datname FROM pg_catalog.pg_database"]
    for query in queries:
        rows = run(database, query, session)
        assert isinstance(rows, list)
        names = {next(iter(row.values())) for row in rows}
        assert "mine" in names, query
        assert "hidden" not in names, query


def test_a_user_sees_and_stops_only_what_is_their_own(database: Database) -> None:
    root, limited = login(database, "root"), login(database, "limited")
    output = database.run("SELECT * FROM numbers LIMIT 5", root)
    try:
        shown = run(database, "SELECT query FROM information_schema.process_list", limited)
        assert isinstance(shown, list)
        assert [row["query"] for row in shown] == ["SELECT query FROM information_schema.process_list"]
        (process,) = [each for each in database.services.processes.all() if each.session is root]
        assert outcome(database, f"KILL '{process.id}'", limited) is Status.PERMISSION_DENIED
        assert outcome(database, f"KILL {root.connection_id}", limited) is Status.PERMISSION_DENIED
        assert not process.is_cancelled
        assert outcome(database, f"KILL '{process.id}'", login(database, "root")) is Status.SUCCESS
        assert process.is_cancelled
    finally:
        assert not isinstance(output, Affected)
        output.close()


def test_the_process_list_shows_no_password(database: Database) -> None:
    seen: list[str] = []
    processes = database.services.processes
    enter = processes.enter

    def watched(session: Session, text: str) -> Any:
        seen.append(text)
        return enter(session, text)

    processes.enter = watched  # type: ignore[method-assign]
    try:
        root = login(database, "root")
        run(database, "CREATE USER shown IDENTIFIED BY 'hunter2'", root)
        run(database, "ALTER USER shown PASSWORD 'hunter2'", root)
        run(database, "DROP USER shown", root)
    finally:
        processes.enter = enter  # type: ignore[method-assign]
    assert seen[2] == "DROP USER shown"
    assert "hunter2" not in "".join(seen)


def test_a_session_without_a_user_may_do_nothing_where_users_log_in(database: Database) -> None:
    nobody = Session()
    for text in ("SELECT 1", "SHOW TABLES", "INSERT INTO t VALUES ('a', 1, 1)", "SET time_zone = 'UTC'", "SHOW GRANTS"):
        assert outcome(database, text, nobody) is Status.PERMISSION_DENIED
    for work in (
        lambda: database.ingest(_lines("m v=1 1"), nobody, NewTable(time_unit="ns")),
        lambda: database.promql.run("1", nobody, QueryTimes.instant(0)),
        lambda: database.read_remote([], nobody),
        lambda: database.describe_metrics([("m", None)], nobody),  # type: ignore[list-item]
    ):
        with pytest.raises(PermissionDenied):
            work()


def _lines(text: str) -> list[TableRows]:
    return parse_lines(text.encode(), precision="ns", now_ns=0)


@pytest.mark.parametrize(
    ("user", "into", "expected"),
    [
        ("root", "public", Status.SUCCESS),
        ("writer", "public", Status.SUCCESS),
        ("reader", "public", Status.PERMISSION_DENIED),
        ("nothing", "public", Status.PERMISSION_DENIED),
        ("limited", "mine", Status.SUCCESS),
        ("limited", "seen", Status.ACCESS_DENIED),
        ("limited", "hidden", Status.ACCESS_DENIED),
    ],
)
def test_rows_and_samples_go_only_where_their_sender_may_write(
    database: Database, user: str, into: str, expected: Status
) -> None:
    session = login(database, user, into=into)

    def status(work: Any) -> Status:
        try:
            work()
        except TsdbError as error:
            return error.status
        return Status.SUCCESS

    new = NewTable(time_unit="ns")
    assert status(lambda: database.ingest(_lines("lines v=1 1"), session, new)) is expected
    assert status(lambda: database.ingest(_lines("lines v=1 1"), session, new, dry_run=True)) is expected
    reader = RemoteWriteReader(is_strict=True)
    for _ in range(2):
        message = write_request([([("__name__", "sampled")], [(1, 1.0)])]).SerializeToString()
        samples = reader.read(message, version=1)
        assert status(lambda samples=samples: database.ingest_samples(samples, session, METRIC_TABLE)) is expected


def test_a_series_that_others_wrote_opens_no_way_into_a_database(database: Database) -> None:
    """Known series go straight to their region: that shortcut is everybody's own."""
    reader = RemoteWriteReader(is_strict=True)

    def send(user: str, into: str) -> None:
        message = write_request([([("__name__", "routed"), ("__database__", into)], [(1, 1.0)])]).SerializeToString()
        database.ingest_samples(reader.read(message, version=1), login(database, user, into="mine"), METRIC_TABLE)

    for _ in range(3):
        send("root", "hidden")
        with pytest.raises(TsdbError) as caught:
            send("limited", "hidden")
        assert caught.value.status is Status.ACCESS_DENIED
        send("limited", "mine")
    run(database, "REVOKE WRITE ON mine.* FROM limited", login(database, "root"))
    try:
        with pytest.raises(PermissionDenied):
            send("limited", "mine")
    finally:
        run(database, "GRANT WRITE ON mine.* TO limited", login(database, "root"))


@pytest.mark.parametrize(
    ("user", "into", "expected"),
    [
        ("reader", "public", Status.SUCCESS),
        ("writer", "public", Status.PERMISSION_DENIED),
        ("limited", "seen", Status.SUCCESS),
        ("limited", "hidden", Status.ACCESS_DENIED),
    ],
)
def test_series_are_read_only_by_those_who_may(database: Database, user: str, into: str, expected: Status) -> None:
    session = login(database, user, into=into)

    def status(work: Any) -> Status:
        try:
            work()
        except TsdbError as error:
            return error.status
        return Status.SUCCESS

    query = ReadQuery("t", 0, 2000, ())
    assert status(lambda: database.read_remote([query], session)) is expected
    assert status(lambda: database.promql.run("t", session, QueryTimes.instant(1000))) is expected
    assert status(lambda: database.promql.run('{__name__=~"t.*"}', session, QueryTimes.instant(1000))) is expected

    def shown() -> None:
        with database.running_promql("t", session):
            database.promql.run("t", session, QueryTimes.instant(1000))

    assert status(shown) is expected


def test_a_right_that_is_taken_away_is_gone_for_those_who_are_in_already(database: Database) -> None:
    root, session = login(database, "root"), login(database, "limited")
    assert outcome(database, "SELECT * FROM seen.t", session) is Status.SUCCESS
    run(database, "REVOKE READ ON seen.* FROM limited", root)
    assert outcome(database, "SELECT * FROM seen.t", session) is Status.ACCESS_DENIED
    run(database, "GRANT READ ON seen.* TO limited", root)
    assert outcome(database, "SELECT * FROM seen.t", session) is Status.SUCCESS


def test_a_dropped_user_can_do_nothing_more(database: Database) -> None:
    root = login(database, "root")
    run(database, "CREATE USER nothing2 IDENTIFIED BY 'x'", root)
    run(database, "GRANT READ ON *.* TO nothing2", root)
    identity = database.services.authenticator.check_password("nothing2", "x")
    session = Session(user="nothing2", identity=identity)
    assert outcome(database, "SELECT * FROM t", session) is Status.SUCCESS
    run(database, "DROP USER nothing2", root)
    assert outcome(database, "SELECT * FROM t", session) is Status.PERMISSION_DENIED


def test_rights_in_a_database_go_with_it(database: Database) -> None:
    root = login(database, "root")
    run(database, "CREATE DATABASE brief", root)
    run(database, "GRANT ALL ON brief.* TO limited", root)
    run(database, "DROP DATABASE brief", root)
    run(database, "CREATE DATABASE brief", root)
    assert outcome(database, "USE brief", login(database, "limited")) is Status.ACCESS_DENIED
    run(database, "DROP DATABASE brief", root)


def test_show_tells_users_and_grants(database: Database) -> None:
    root = login(database, "root")
    shown = run(database, "SHOW USERS", root)
    assert isinstance(shown, list)
    by_name = {row["User"]: row for row in shown}
    assert by_name["root"] == {
        "User": "root",
        "Source": "provider",
        "Administrator": "yes",
        "Rights": "read and write in *",
    }
    assert by_name["limited"]["Source"] == "catalog"
    assert by_name["limited"]["Rights"] == "read and write in mine; read in seen"
    expected = [
        {"Grants for limited": 'GRANT ALL ON "mine".* TO "limited"'},
        {"Grants for limited": 'GRANT READ ON "seen".* TO "limited"'},
    ]
    assert run(database, "SHOW GRANTS FOR limited", root) == expected
    assert run(database, "SHOW GRANTS", login(database, "limited")) == expected
    assert run(database, "SHOW GRANTS", root) == [{"Grants for root": 'GRANT ALL ON *.* TO "root" WITH GRANT OPTION'}]
    assert run(database, "SHOW GRANTS", login(database, "nothing")) == []
    with pytest.raises(UserNotFound):
        run(database, "SHOW GRANTS FOR nope", root)


def test_users_change_their_own_password_and_nobody_elses(database: Database) -> None:
    session = login(database, "limited")
    assert outcome(database, "ALTER USER nothing IDENTIFIED BY 'x'", session) is Status.PERMISSION_DENIED
    assert outcome(database, "ALTER USER limited IDENTIFIED BY 'other'", session) is Status.SUCCESS
    check = database.services.authenticator.check_password
    assert check("limited", "other").name == "limited"
    with pytest.raises(TsdbError):
        check("limited", "l", client="own")
    assert outcome(database, "ALTER USER limited IDENTIFIED BY 'l'", session) is Status.SUCCESS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE USER root IDENTIFIED BY 'x'", Status.INVALID_ARGUMENTS),
        ("CREATE USER limited IDENTIFIED BY 'x'", Status.INVALID_ARGUMENTS),
        ("CREATE USER IF NOT EXISTS limited IDENTIFIED BY 'x'", Status.SUCCESS),
        ("CREATE USER empty IDENTIFIED BY ''", Status.INVALID_ARGUMENTS),
        ("ALTER USER nope IDENTIFIED BY 'x'", Status.USER_NOT_FOUND),
        ("ALTER USER IF EXISTS nope IDENTIFIED BY 'x'", Status.SUCCESS),
        ("DROP USER limited, nope", Status.USER_NOT_FOUND),
        ("DROP USER IF EXISTS nope", Status.SUCCESS),
        ("GRANT READ ON nope.* TO limited", Status.DATABASE_NOT_FOUND),
        ("GRANT READ ON mine.* TO nope", Status.USER_NOT_FOUND),
        ("GRANT READ ON hidden.* TO limited, nope", Status.USER_NOT_FOUND),
        ("GRANT READ ON hidden.* TO reader", Status.UNSUPPORTED),
        ("GRANT READ ON *.* TO limited WITH GRANT OPTION", Status.UNSUPPORTED),
        ("GRANT ALL ON mine.* TO limited WITH GRANT OPTION", Status.UNSUPPORTED),
        ("REVOKE GRANT OPTION ON mine.* FROM limited", Status.UNSUPPORTED),
    ],
)
def test_what_administrators_cannot_do_changes_nothing(database: Database, text: str, expected: Status) -> None:
    before = database.services.users.users()
    assert outcome(database, text, login(database, "root")) is expected
    assert database.services.users.users() == before


def test_an_administrator_is_made_and_unmade_in_sql(database: Database) -> None:
    root = login(database, "root")
    run(database, "CREATE USER boss IDENTIFIED BY 'b'", root)
    run(database, "GRANT ALL ON *.* TO boss WITH GRANT OPTION", root)
    boss = Session(user="boss", identity=database.services.authenticator.check_password("boss", "b"))
    assert outcome(database, "CREATE USER by_boss IDENTIFIED BY 'x'", boss) is Status.SUCCESS
    assert outcome(database, "DROP USER by_boss", boss) is Status.SUCCESS
    run(database, "REVOKE ALL PRIVILEGES, GRANT OPTION FROM boss", root)
    assert outcome(database, "SHOW USERS", boss) is Status.PERMISSION_DENIED
    assert outcome(database, "SELECT 1", boss) is Status.PERMISSION_DENIED
    run(database, "DROP USER boss", root)


def test_users_of_a_list_cannot_be_changed_in_sql(tmp_path: Path) -> None:
    local = open_guarded(tmp_path, "static_user_provider:cmd:root=r,reader:ro=r")
    try:
        for text in ("CREATE USER x IDENTIFIED BY 'x'", "DROP USER root", "GRANT READ ON public.* TO reader"):
            assert outcome(local.database, text, login(local.database, "root")) is Status.UNSUPPORTED
            assert outcome(local.database, text, login(local.database, "reader")) is Status.PERMISSION_DENIED
    finally:
        local.close()


def test_users_made_while_nobody_logs_in_can_log_in_after_the_next_start(tmp_path: Path) -> None:
    local = open_guarded(tmp_path, "")
    session = Session()
    run(local.database, "CREATE USER first IDENTIFIED BY 'f'", session)
    assert session.warnings
    run(local.database, "GRANT ALL ON *.* TO first WITH GRANT OPTION", session)
    local.close()
    local = open_guarded(tmp_path, "catalog_user_provider")
    try:
        identity = local.database.services.authenticator.check_password("first", "f")
        assert identity.is_admin
        first = Session(user="first", identity=identity)
        assert outcome(local.database, "CREATE DATABASE d", first) is Status.SUCCESS
    finally:
        local.close()


def test_a_guarded_database_answers_the_same_rows(database: Database) -> None:
    rows = run(database, "SELECT host, v FROM mine.own", login(database, "limited"))
    assert rows == [{"host": "a", "v": 1.0}]

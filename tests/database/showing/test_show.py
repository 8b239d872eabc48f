"""SHOW answers from a real database, in the columns its clients know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sql.show_kinds import SHOW_KINDS
from tsdb.components._local import LocalDatabase, LocalOptions, open_directory
from tsdb.database import Affected, Channel, DatabaseOptions, Session, read_all
from tsdb.engine import EngineOptions, WalSettings
from tsdb.errors import Status, TsdbError
from tsdb.query import QueryEngineOptions
from tsdb.units import Duration, Size

from tsdb.database.showing.show import _FORMS  # isort: skip


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDatabase]:
    directory: Path = tmp_path_factory.mktemp("show")
    options = LocalOptions(
        engine=EngineOptions(num_workers=1, max_background_jobs=1),
        wal=WalSettings(ballast_bytes=Size(0)),
        query=QueryEngineOptions(spill_dir=directory / "spill"),
        database=DatabaseOptions(copy_root=directory / "copy"),
        has_housekeeping=False,
    )
    local = open_directory(directory, options=options)
    session = Session()
    for text in (
        "CREATE DATABASE other WITH (ttl = '7d')",
        """CREATE TABLE monitor (host STRING SKIPPING INDEX, "Zone" INT COMMENT 'where',
           ts TIMESTAMP TIME INDEX DEFAULT CURRENT_TIMESTAMP, load DOUBLE DEFAULT 0.5, PRIMARY KEY (host, "Zone"))""",
        "CREATE TABLE other.logs (ts TIMESTAMP(9) TIME INDEX, line STRING FULLTEXT INDEX)",
        "INSERT INTO monitor (host, \"Zone\", ts, load) VALUES ('a', 1, 1000, 2.5), ('b', 2, 2000, 3.5)",
        "CREATE VIEW busy AS SELECT host, load FROM monitor WHERE load > 1",
    ):
        for output in local.database.execute(text, session):
            assert isinstance(output, Affected)
    yield local
    local.close()


def shown(opened: LocalDatabase, text: str, session: Session | None = None) -> list[dict[str, Any]]:
    output = opened.database.run(text, session or Session())
    assert not isinstance(output, Affected)
    rows: list[dict[str, Any]] = read_all(output).to_pylist()
    return rows


def first_column(opened: LocalDatabase, text: str, session: Session | None = None) -> list[Any]:
    return [next(iter(row.values())) for row in shown(opened, text, session)]


def status(opened: LocalDatabase, text: str, session: Session | None = None) -> Status:
    with pytest.raises(TsdbError) as caught:
        shown(opened, text, session)
    return caught.value.status


def test_there_is_a_form_for_everything_the_parser_reads() -> None:
    assert set(_FORMS) | {"grants", "users"} == SHOW_KINDS


def test_databases_are_sorted_and_full_shows_their_options(opened: LocalDatabase) -> None:
    assert first_column(opened, "SHOW DATABASES") == ["information_schema", "other", "public", "tsdb_private"]
    assert shown(opened, "SHOW FULL DATABASES LIKE 'oth%'") == [{"Database": "other", "Options": "'ttl'='7days'"}]
    assert first_column(opened, "SHOW SCHEMAS WHERE Database = 'public' OR database LIKE 'tsdb%'") == [
        "public",
        "tsdb_private",
    ]


def test_tables_and_views_are_listed_together(opened: LocalDatabase) -> None:
    assert shown(opened, "SHOW TABLES") == [{"Tables_in_public": name} for name in ("busy", "monitor", "numbers")]
    full = {row["Tables_in_public"]: row["Table_type"] for row in shown(opened, "SHOW FULL TABLES")}
    assert full == {"busy": "VIEW", "monitor": "BASE TABLE", "numbers": "LOCAL TEMPORARY"}


def test_tables_are_filtered_by_pattern_and_condition(opened: LocalDatabase) -> None:
    assert first_column(opened, "SHOW TABLES LIKE 'mon_tor'") == ["monitor"]
    assert first_column(opened, "SHOW TABLES LIKE 'MON%'") == []
    assert first_column(opened, "SHOW TABLES WHERE Tables = 'monitor'") == ["monitor"]
    assert first_column(opened, "SHOW FULL TABLES WHERE Table_type = 'VIEW'") == ["busy"]
    assert first_column(opened, "SHOW TABLES FROM other") == ["logs"]
    assert status(opened, "SHOW TABLES WHERE nonsense = 1") == Status.PLAN_QUERY


def test_a_condition_may_end_in_a_comment(opened: LocalDatabase) -> None:
    assert first_column(opened, "SHOW TABLES WHERE Tables = 'monitor' -- only this") == ["monitor"]


def test_quoted_columns_of_a_condition_keep_their_case(opened: LocalDatabase) -> None:
    session = Session(channel=Channel.MYSQL)
    assert first_column(opened, "SHOW INDEX FROM monitor WHERE `Key_name` = 'PRIMARY'", session) == ["monitor"] * 3


def test_table_status_counts_rows(opened: LocalDatabase) -> None:
    (row,) = shown(opened, "SHOW TABLE STATUS LIKE 'monitor'")
    assert (row["Name"], row["Engine"], row["Version"], row["Rows"]) == ("monitor", "mito", 11, 2)
    assert list(row)[-3:] == ["Checksum", "Create_options", "Comment"]


def test_columns_are_sorted_by_name(opened: LocalDatabase) -> None:
    rows = shown(opened, "SHOW COLUMNS FROM monitor")
    assert [(row["Field"], row["Type"], row["Key"]) for row in rows] == [
        ("Zone", "int", "PRI"),
        ("host", "string", "PRI"),
        ("load", "double", ""),
        ("ts", "timestamp(3)", "TIME INDEX"),
    ]
    assert list(rows[0]) == ["Field", "Type", "Null", "Key", "Default", "Extra", "Tsdb_type"]
    assert rows[3]["Default"] == "current_timestamp()"


def test_full_columns_tell_comments_and_collations(opened: LocalDatabase) -> None:
    (row,) = shown(opened, "SHOW FULL COLUMNS FROM monitor IN public LIKE 'Zo%'")
    assert (row["Comment"], row["Collation"], row["Privileges"]) == ("where", None, "select,insert")


def test_columns_of_tables_nobody_created_can_be_shown(opened: LocalDatabase) -> None:
    assert first_column(opened, "SHOW COLUMNS FROM numbers") == ["number"]
    assert "table_name" in first_column(opened, "SHOW COLUMNS FROM tables FROM information_schema")
    assert first_column(opened, "SHOW COLUMNS FROM busy") == ["host", "load"]


def test_index_lists_keys_and_declared_indexes(opened: LocalDatabase) -> None:
    rows = shown(opened, "SHOW INDEX FROM monitor")
    assert [(row["Key_name"], row["Non_unique"], row["Seq_in_index"], row["Column_name"]) for row in rows] == [
        ("PRIMARY", 0, 1, "host"),
        ("PRIMARY", 0, 2, "Zone"),
        ("SKIPPING_INDEX_host", 1, 1, "host"),
        ("TIME INDEX", 1, 1, "ts"),
    ]
    assert status(opened, "SHOW INDEX FROM monitor LIKE 'x'") == Status.UNSUPPORTED
    assert shown(opened, "SHOW INDEX FROM numbers") == []


def test_regions_have_a_leader(opened: LocalDatabase) -> None:
    (row,) = shown(opened, "SHOW REGION FROM monitor")
    assert (row["Table"], row["Region"] & 0xFFFFFFFF, row["Peer"], row["Leader"]) == ("monitor", 0, 0, "Yes")


def test_create_table_includes_what_the_database_gives(opened: LocalDatabase) -> None:
    (row,) = shown(opened, "SHOW CREATE TABLE other.logs")
    assert row["Table"] == "logs"
    assert row["Create Table"].endswith("ENGINE=mito\nWITH(\n  ttl = '7days'\n)")


def test_create_table_can_be_run_again(opened: LocalDatabase) -> None:
    session = Session(channel=Channel.MYSQL)
    text = shown(opened, "SHOW CREATE TABLE monitor", session)[0]["Create Table"]
    opened.database.run(text.replace("`monitor`", "`again`"), session)
    again = shown(opened, "SHOW CREATE TABLE again", session)[0]["Create Table"]
    opened.database.run("DROP TABLE again", session)
    assert again == text.replace("`monitor`", "`again`")


def test_create_table_is_for_tables_that_were_created(opened: LocalDatabase) -> None:
    for name in ("numbers", "information_schema.columns", "busy"):
        assert status(opened, f"SHOW CREATE TABLE {name}") == Status.UNSUPPORTED
    assert "FOREIGN TABLE" in shown(opened, "SHOW CREATE TABLE monitor FOR POSTGRES_FOREIGN_TABLE")[0]["Create Table"]


def test_create_database_and_view_print_statements(opened: LocalDatabase) -> None:
    (row,) = shown(opened, "SHOW CREATE DATABASE other")
    assert row == {
        "Database": "other",
        "Create Database": "CREATE DATABASE IF NOT EXISTS other\nWITH(\n  ttl = '7days'\n)",
    }
    (row,) = shown(opened, "SHOW CREATE VIEW busy")
    assert row["View"] == "busy"
    assert row["Create View"].startswith("CREATE VIEW busy AS SELECT")
    assert status(opened, "SHOW CREATE VIEW monitor") == Status.INVALID_ARGUMENTS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SHOW CREATE TABLE nope", Status.TABLE_NOT_FOUND),
        ("SHOW CREATE VIEW nope", Status.TABLE_NOT_FOUND),
        ("SHOW CREATE FLOW nope", Status.FLOW_NOT_FOUND),
        ("SHOW CREATE DATABASE nope", Status.DATABASE_NOT_FOUND),
        ("SHOW TABLES FROM nope", Status.DATABASE_NOT_FOUND),
        ("SHOW VIEWS FROM nope", Status.DATABASE_NOT_FOUND),
        ("SHOW COLUMNS FROM nope", Status.TABLE_NOT_FOUND),
        ("SHOW INDEX FROM nope", Status.TABLE_NOT_FOUND),
        ("SHOW REGION FROM nope", Status.TABLE_NOT_FOUND),
        ("SHOW TABLES FROM pg_catalog", Status.DATABASE_NOT_FOUND),
        ("SHOW VARIABLES nope", Status.UNSUPPORTED),
    ],
)
def test_what_is_not_there_has_its_code(opened: LocalDatabase, text: str, expected: Status) -> None:
    assert status(opened, text) == expected


def test_views_flows_and_their_status(opened: LocalDatabase) -> None:
    assert shown(opened, "SHOW VIEWS") == [{"Views": "busy"}]
    assert shown(opened, "SHOW VIEWS LIKE 'z%'") == []
    assert shown(opened, "SHOW FLOWS") == []
    assert shown(opened, "SHOW FLOW STATUS LIKE 'f'") == []


def test_character_sets_collations_and_engines(opened: LocalDatabase) -> None:
    assert shown(opened, "SHOW CHARSET LIKE 'utf8'") == [
        {"Charset": "utf8", "Description": "UTF-8 Unicode", "Default collation": "utf8_bin", "Maxlen": 4}
    ]
    assert shown(opened, "SHOW CHARACTER SET WHERE Charset = 'latin1'") == []
    assert first_column(opened, "SHOW COLLATION WHERE Charset = 'utf8'") == ["utf8_bin"]
    assert first_column(opened, "SHOW ENGINES") == ["mito", "metric"]


def test_the_process_list_shows_the_statement_that_asks(opened: LocalDatabase) -> None:
    (row,) = shown(opened, "SHOW PROCESSLIST")
    assert (list(row), row["Query"]) == (["Id", "Catalog", "Query", "Elapsed Time"], "SHOW PROCESSLIST")
    (full,) = shown(opened, "SHOW FULL PROCESSLIST")
    assert list(full) == ["Id", "Catalog", "Schema", "Client", "Frontend", "Start Time", "Elapsed Time", "Query"]


def test_variables_are_those_of_the_session(opened: LocalDatabase) -> None:
    session = Session(time_zone="+08:00")
    assert shown(opened, "SHOW VARIABLES time_zone", session) == [{"TIME_ZONE": "+08:00"}]
    assert shown(opened, "SHOW VARIABLES system_time_zone", session) == [{"SYSTEM_TIME_ZONE": "UTC"}]
    assert shown(opened, "SHOW VARIABLES read_preference") == [{"READ_PREFERENCE": "LEADER"}]


def test_timeouts_are_told_as_each_client_knows_them(opened: LocalDatabase) -> None:
    mysql = Session(channel=Channel.MYSQL, timeout=Duration(1_500_000_000))
    assert shown(opened, "SHOW VARIABLES MAX_EXECUTION_TIME", mysql) == [{"MAX_EXECUTION_TIME": "1500"}]
    postgres = Session(channel=Channel.POSTGRES, timeout=Duration(1_500_000_000))
    assert shown(opened, "SHOW statement_timeout", postgres) == [{"STATEMENT_TIMEOUT": "1500ms"}]


def test_settings_that_clients_of_postgresql_read_first(opened: LocalDatabase) -> None:
    session = Session(channel=Channel.POSTGRES, database="other")
    assert first_column(opened, "SHOW standard_conforming_strings", session) == ["on"]
    assert first_column(opened, "SHOW TRANSACTION ISOLATION LEVEL", session) == ["read committed"]
    assert shown(opened, "SHOW search_path", session) == [{"search_path": "other"}]
    assert "pg_catalog" in first_column(opened, "SHOW DATABASES", session)
    assert "pg_class" in first_column(opened, "SHOW TABLES FROM pg_catalog", session)


def test_variables_of_mysql_are_filtered_by_pattern(opened: LocalDatabase) -> None:
    session = Session(channel=Channel.MYSQL)
    assert shown(opened, "SHOW VARIABLES LIKE 'lower_case_table_names'", session) == [
        {"Variable_name": "lower_case_table_names", "Value": "0"}
    ]
    assert shown(opened, "SHOW STATUS", session) == []


def test_warnings_of_the_last_statement_are_shown(opened: LocalDatabase) -> None:
    session = Session(channel=Channel.MYSQL)
    opened.database.run("SET unheard_of = 1", session)
    (row,) = shown(opened, "SHOW WARNINGS", session)
    assert (row["Level"], row["Code"]) == ("Warning", 1000)

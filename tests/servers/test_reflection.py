"""What tools learn of tables is the same by MySQL's and by PostgreSQL's protocol."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pymysql
import pytest
import sqlalchemy as sa

from tests.server_process import ServerProcess, running

TABLES = {
    "tagged": ("(b STRING, a STRING, v DOUBLE, ts TIMESTAMP TIME INDEX, PRIMARY KEY (a, b))", ["a", "b", "ts"]),
    "untagged": ("(v DOUBLE, ts TIMESTAMP TIME INDEX)", ["ts"]),
    "appended": (
        "(a STRING PRIMARY KEY, v DOUBLE, ts TIMESTAMP TIME INDEX) WITH (append_mode = 'true')",
        [],
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("reflection")) as started:
        for name, (columns, _) in TABLES.items():
            answer = httpx.post(f"{started.url}/v1/sql", data={"sql": f"CREATE TABLE {name} {columns}"}, timeout=30)
            assert answer.status_code == 200, answer.text
        yield started


def _port(server: ServerProcess, protocol: str) -> str:
    found = re.search(rf"^  {protocol} +\S+:(\d+)$", server.output, flags=re.MULTILINE)
    assert found is not None, server.output
    return found[1]


@pytest.mark.parametrize(("driver", "protocol"), [("mysql+pymysql", "MySQL"), ("postgresql+psycopg", "Postgres")])
def test_sqlalchemy_reflects_views_with_their_columns_and_nothing_of_the_system(
    server: ServerProcess, driver: str, protocol: str
) -> None:
    engine = sa.create_engine(f"{driver}://me@127.0.0.1:{_port(server, protocol)}/public")
    try:
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE OR REPLACE VIEW seen AS SELECT a, v * 2 AS twice, ts FROM tagged"))
        inspector = sa.inspect(engine)
        assert sorted(inspector.get_table_names()) == sorted(TABLES)
        assert inspector.get_view_names() == ["seen"]
        kinds = {each["name"]: each["type"] for each in inspector.get_columns("seen")}
        assert list(kinds) == ["a", "twice", "ts"]
        assert isinstance(kinds["a"], sa.String)
        assert isinstance(kinds["twice"], sa.Float)
        assert isinstance(kinds["ts"], sa.TIMESTAMP)
        metadata = sa.MetaData()
        metadata.reflect(engine, views=True)
        assert sorted(metadata.tables) == sorted([*TABLES, "seen"])
    finally:
        with engine.begin() as connection:
            connection.execute(sa.text("DROP VIEW IF EXISTS seen"))
        engine.dispose()


@pytest.mark.parametrize(("driver", "protocol"), [("mysql+pymysql", "MySQL"), ("postgresql+psycopg", "Postgres")])
@pytest.mark.parametrize("table", TABLES)
def test_sqlalchemy_finds_the_same_primary_key(server: ServerProcess, driver: str, protocol: str, table: str) -> None:
    engine = sa.create_engine(f"{driver}://me@127.0.0.1:{_port(server, protocol)}/public")
    try:
        found = sa.inspect(engine).get_pk_constraint(table)["constrained_columns"]
        assert found == TABLES[table][1]
        reflected = sa.Table(table, sa.MetaData(), autoload_with=engine)
        assert [column.name for column in reflected.primary_key] == TABLES[table][1]
    finally:
        engine.dispose()


@pytest.mark.parametrize("table", TABLES)
def test_information_schema_tells_clients_of_mysql_the_same_key_everywhere(server: ServerProcess, table: str) -> None:
    key = TABLES[table][1]
    where = f"table_schema = 'public' AND table_name = '{table}'"
    connection = pymysql.connect(host="127.0.0.1", port=int(_port(server, "MySQL")), user="me", database="public")
    with connection, connection.cursor() as cursor:
        cursor.execute(
            f"SELECT column_name FROM information_schema.key_column_usage WHERE {where} "
            "AND constraint_name = 'PRIMARY' ORDER BY ordinal_position"
        )
        assert [row[0] for row in cursor.fetchall()] == key
        cursor.execute(
            f"SELECT column_name, non_unique FROM information_schema.statistics WHERE {where} "
            "AND index_name = 'PRIMARY' ORDER BY seq_in_index"
        )
        assert cursor.fetchall() == tuple((name, 0) for name in key)
        cursor.execute(f"SELECT column_name FROM information_schema.columns WHERE {where} AND column_key = 'PRI'")
        assert {row[0] for row in cursor.fetchall()} == set(key)
        cursor.execute(
            f"SELECT count(*) FROM information_schema.table_constraints WHERE {where} "
            "AND constraint_type = 'PRIMARY KEY'"
        )
        assert cursor.fetchall() == ((min(len(key), 1),),)
        cursor.execute(f"SHOW KEYS FROM {table} WHERE Key_name = 'PRIMARY'")
        assert [row[4] for row in cursor.fetchall()] == key


def test_other_clients_are_told_of_the_tags_and_of_the_time_index(server: ServerProcess) -> None:
    text = (
        "SELECT constraint_name, column_name FROM information_schema.key_column_usage "
        "WHERE table_name = 'tagged' ORDER BY constraint_name, ordinal_position"
    )
    answer = httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=30).json()
    expected = [["PRIMARY", "a"], ["PRIMARY", "b"], ["TIME INDEX", "ts"]]
    assert answer["output"][0]["records"]["rows"] == expected

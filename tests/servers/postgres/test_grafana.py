"""The statements that Grafana's PostgreSQL data source sends, letter by letter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.postgres.running import RunningServer

# How Grafana finds the schemas of the search path.
IN_SEARCH_PATH = """
          quote_ident(table_schema) IN (
          SELECT
            CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
          FROM
            generate_series(
              array_lower(string_to_array(current_setting('search_path'),','),1),
              array_upper(string_to_array(current_setting('search_path'),','),1)
            ) as i,
            string_to_array(current_setting('search_path'),',') s
          )"""
SYSTEM_SCHEMAS = """('information_schema',
                             'pg_catalog',
                             '_timescaledb_cache',
                             '_timescaledb_catalog',
                             '_timescaledb_internal',
                             '_timescaledb_config',
                             'timescaledb_information',
                             'timescaledb_experimental')"""
TABLES = f"""SELECT
        CASE WHEN
          {IN_SEARCH_PATH}
          THEN quote_ident(table_name)
          ELSE quote_ident(table_schema) || '.' || quote_ident(table_name)
        END AS "table"
      FROM information_schema.tables
      WHERE quote_ident(table_schema) NOT IN {SYSTEM_SCHEMAS}
      ORDER BY CASE WHEN
          {IN_SEARCH_PATH} THEN 0 ELSE 1 END, 1"""
OLD_TABLES = f"SELECT quote_ident(table_name) FROM information_schema.tables WHERE {IN_SEARCH_PATH} ORDER BY table_name"


def _columns(table: str) -> str:
    return f"""SELECT quote_ident(column_name) AS "column", data_type AS "type"
    FROM information_schema.columns
    WHERE
      CASE WHEN array_length(parse_ident({table}),1) = 2
        THEN quote_ident(table_schema) = (parse_ident({table}))[1]
          AND quote_ident(table_name) = (parse_ident({table}))[2]
        ELSE quote_ident(table_name) = {table}
          AND {IN_SEARCH_PATH}
      END"""


@pytest.fixture(scope="module")
def panels(pg: RunningServer) -> Iterator[RunningServer]:
    with pg.connect() as connection:
        connection.execute("CREATE DATABASE elsewhere")
        connection.execute("CREATE TABLE grafana (ts TIMESTAMP TIME INDEX, v DOUBLE)")
        connection.execute("CREATE TABLE elsewhere.far (ts TIMESTAMP TIME INDEX, w DOUBLE)")
        connection.execute("INSERT INTO grafana VALUES ('2024-01-01 00:00:30', 1), ('2024-01-01 00:02:30', 3)")
        yield pg
        connection.execute("DROP TABLE elsewhere.far")
        connection.execute("DROP TABLE grafana")
        connection.execute("DROP DATABASE elsewhere")


def test_the_table_picker_lists_the_search_path_first_and_nothing_of_the_system(panels: RunningServer) -> None:
    with panels.connect() as connection:
        found = [row[0] for row in connection.execute(TABLES).fetchall()]
        old = [row[0] for row in connection.execute(OLD_TABLES).fetchall()]
    assert found[-1] == "elsewhere.far"
    assert "grafana" in found
    assert found[:-1] == old == sorted(old)
    assert "numbers" not in found


@pytest.mark.parametrize(
    ("table", "names"), [("'grafana'", ["ts", "v"]), ("'elsewhere.far'", ["ts", "w"]), ("'none'", [])]
)
def test_the_column_picker_takes_names_with_and_without_a_schema(
    panels: RunningServer, table: str, names: list[str]
) -> None:
    with panels.connect() as connection:
        found = connection.execute(_columns(table))
        assert [each.name for each in found.description or ()] == ["column", "type"]
        assert [row[0] for row in found.fetchall()] == names


def test_the_data_source_is_recognised_and_panels_are_drawn(panels: RunningServer) -> None:
    with panels.connect() as connection:
        version = connection.execute("SELECT current_setting('server_version_num')::int/100 as version").fetchone()
        assert version is not None
        assert version[0] >= 1500
        assert not connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'").fetchall()
        rows = connection.execute(
            'SELECT floor(extract(epoch from "ts")/60)*60 AS "time", avg(v) AS "v" FROM grafana'
            " WHERE \"ts\" BETWEEN '2024-01-01T00:00:00Z' AND '2024-01-01T01:00:00Z' GROUP BY 1 ORDER BY 1"
        ).fetchall()
    assert rows == [(1704067200.0, 1.0), (1704067320.0, 3.0)]


def test_arrays_and_names_are_taken_apart_as_postgresql_does(pg: RunningServer) -> None:
    with pg.connect() as connection:
        row = connection.execute(
            "SELECT array_lower(ARRAY[7, 8], 1), array_upper(ARRAY[7, 8, 9], 1), parse_ident('Public.cpu'),"
            ' parse_ident(\'"My Table"."x""y"\')'
        ).fetchone()
    assert row == (1, 3, ["public", "cpu"], ["My Table", 'x"y'])

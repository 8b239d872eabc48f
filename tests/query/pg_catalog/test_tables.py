"""The tables of pg_catalog tell what exists the way PostgreSQL tells it."""

from __future__ import annotations

import pytest

from tests.query.information_schema.catalogs import MONITOR, make_context
from tsdb.query import Channel
from tsdb.query.pg_catalog import PG_TABLES, pg_schema_of, pg_table, pg_table_infos
from tsdb.query.pg_catalog._functions import format_type, quote_ident, size_pretty
from tsdb.query.pg_catalog._oids import TYPES_BY_OID, namespace_oid, table_oid
from tsdb.query.pg_catalog._subqueries import LIVE_TABLES

CONTEXT = make_context(channel=Channel.POSTGRES)


@pytest.mark.parametrize("name", PG_TABLES)
def test_every_table_has_exactly_its_columns(name: str) -> None:
    table = pg_table(name, CONTEXT)
    assert table is not None
    assert table.schema == pg_schema_of(name)
    for column, field in zip(table.columns, table.schema, strict=True):
        assert field.nullable or column.null_count == 0, field.name


@pytest.mark.parametrize("name", sorted(set(PG_TABLES) - LIVE_TABLES))
def test_tables_that_are_answered_without_being_read_are_empty(name: str) -> None:
    table = pg_table(name, CONTEXT)
    assert table is not None
    assert len(table) == 0


def test_a_table_nobody_knows_is_none() -> None:
    assert pg_table("pg_nonsense", CONTEXT) is None


def test_numbers_are_unique_and_lead_from_table_to_table() -> None:
    classes, namespaces = pg_table("pg_class", CONTEXT), pg_table("pg_namespace", CONTEXT)
    attributes = pg_table("pg_attribute", CONTEXT)
    assert classes is not None
    assert namespaces is not None
    assert attributes is not None
    oids = classes["oid"].to_pylist()
    assert len(set(oids)) == len(oids)
    assert set(classes["relnamespace"].to_pylist()) <= set(namespaces["oid"].to_pylist())
    assert set(attributes["attrelid"].to_pylist()) <= set(oids)
    assert set(attributes["atttypid"].to_pylist()) <= set(TYPES_BY_OID)


def test_a_table_of_a_user_is_above_the_numbers_of_the_system() -> None:
    assert table_oid(MONITOR) == 16384 + 1024
    assert namespace_oid("public") == 2200
    assert namespace_oid("any") == namespace_oid("any") < 2**31


def test_pg_catalog_describes_itself() -> None:
    assert {table.name for table in pg_table_infos()} == set(PG_TABLES)


@pytest.mark.parametrize(
    ("oid", "modifier", "expected"),
    [
        (23, None, "integer"),
        (1700, (10 << 16 | 2) + 4, "numeric(10,2)"),
        (1007, -1, "integer[]"),
        (999999, None, "???"),
    ],
)
def test_types_print_as_sql_writes_them(oid: int, modifier: int | None, expected: str) -> None:
    assert format_type(oid, modifier) == expected


@pytest.mark.parametrize(
    ("size", "expected"), [(0, "0 bytes"), (10239, "10239 bytes"), (12_000, "12 kB"), (5 << 30, "5120 MB")]
)
def test_sizes_print_in_the_largest_unit_that_says_something(size: int, expected: str) -> None:
    assert size_pretty(size) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("a_1", "a_1"), ("A", '"A"'), ('q"', '"q"""'), ("1a", '"1a"'), ("", '""')]
)
def test_names_get_quotes_when_they_need_them(name: str, expected: str) -> None:
    assert quote_ident(name) == expected

"""SHOW CREATE prints statements in one layout, however they were written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.query.information_schema.catalogs import FIELD, MONITOR, TAG, TIME, column
from tsdb.database.showing.create_statement import render_create_database, render_create_table, render_foreign_table
from tsdb.model import ColumnDefault, ColumnIndex, DatabaseInfo, DataType, Kind, TableInfo
from tsdb.sql.statements import Dialect

SMALL = TableInfo(1024, "public", "small", (column("ts", Kind.TIMESTAMP_SECOND, TIME, nullable=False),))


def test_a_table_with_everything_is_printed_with_everything() -> None:
    assert render_create_table(MONITOR, MONITOR.options, Dialect.GENERIC) == "\n".join(
        [
            'CREATE TABLE IF NOT EXISTS "monitor" (',
            "  \"host\" STRING NULL SKIPPING INDEX WITH(false_positive_rate = '0.01', granularity = '10240', "
            "type = 'BLOOM') INVERTED INDEX,",
            '  "zone" INT NULL,',
            '  "ts" TIMESTAMP(3) NOT NULL DEFAULT current_timestamp(),',
            "  \"load\" DOUBLE NULL DEFAULT 0.5 COMMENT 'the host''s load',",
            '  TIME INDEX ("ts"),',
            '  PRIMARY KEY ("zone", "host")',
            ")",
            'PARTITION ON COLUMNS ("zone") (',
            "  zone < 5,",
            "  zone >= 5",
            ")",
            "ENGINE=mito",
            "WITH(",
            "  comment = 'machines',",
            "  ttl = '7days'",
            ")",
        ]
    )


def test_what_a_table_does_not_have_leaves_an_empty_line() -> None:
    assert render_create_table(SMALL, {}, Dialect.GENERIC) == (
        'CREATE TABLE IF NOT EXISTS "small" (\n  "ts" TIMESTAMP(0) NOT NULL,\n  TIME INDEX ("ts")\n)\n\nENGINE=mito\n'
    )


def test_names_are_quoted_as_the_client_writes_them() -> None:
    odd = replace(SMALL, name='o`d"d')
    assert render_create_table(odd, {}, Dialect.MYSQL).startswith('CREATE TABLE IF NOT EXISTS `o``d"d` (\n  `ts`')
    assert render_create_table(odd, {}, Dialect.POSTGRESQL).startswith('CREATE TABLE IF NOT EXISTS "o`d""d" (\n  "ts"')


def test_keys_with_a_dot_are_quoted_and_all_are_sorted() -> None:
    options = {"ttl": "1day", "compaction.type": "twcs", "append_mode": "true"}
    _, _, settings = render_create_table(SMALL, options, Dialect.GENERIC).partition("WITH(\n")
    assert settings == "  append_mode = 'true',\n  'compaction.type' = 'twcs',\n  ttl = '1day'\n)"


def test_a_value_stays_on_its_line() -> None:
    text = render_create_table(replace(SMALL, comment="a\\b\nit's"), {}, Dialect.GENERIC)
    assert "  comment = 'a\\\\b\\nit''s'\n" in text


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        (Kind.STRING, ColumnDefault(literal="it's"), "DEFAULT 'it''s'"),
        (Kind.INT16, ColumnDefault(literal="-7"), "DEFAULT -7"),
        (Kind.BOOLEAN, ColumnDefault(literal="true"), "DEFAULT true"),
        (
            Kind.TIMESTAMP_MILLISECOND,
            ColumnDefault(literal="2024-01-30 00:00:00+0000"),
            "DEFAULT '2024-01-30 00:00:00+0000'",
        ),
        (Kind.TIMESTAMP_MILLISECOND, ColumnDefault(literal="1000"), "DEFAULT 1000"),
        (Kind.TIMESTAMP_MILLISECOND, ColumnDefault(function="now()"), "DEFAULT now()"),
        (Kind.FLOAT64, ColumnDefault(), "DEFAULT NULL"),
    ],
)
def test_defaults_can_be_read_back(kind: Kind, default: ColumnDefault, expected: str) -> None:
    table = replace(SMALL, columns=(*SMALL.columns, column("v", kind, FIELD, default=default)))
    assert f" NULL {expected},\n" in render_create_table(table, {}, Dialect.GENERIC)


def test_indexes_come_in_one_order() -> None:
    indexes = (ColumnIndex("inverted"), ColumnIndex("skipping", (("type", "BLOOM"),)), ColumnIndex("fulltext"))
    table = replace(SMALL, columns=(*SMALL.columns, column("v", Kind.STRING, indexes=indexes)))
    text = render_create_table(table, {}, Dialect.GENERIC)
    assert "\"v\" STRING NULL FULLTEXT INDEX SKIPPING INDEX WITH(type = 'BLOOM') INVERTED INDEX," in text


def test_what_the_metric_engine_adds_for_itself_is_not_shown() -> None:
    columns = (
        *SMALL.columns,
        column("__table_id", Kind.UINT32, TAG, nullable=False),
        column("__tsid", Kind.UINT64, TAG, nullable=False),
        column("host", Kind.STRING, TAG),
    )
    options = {"physical_metric_table": ""}
    key = ("__table_id", "__tsid", "host")
    table = replace(SMALL, columns=columns, primary_key=key, engine="metric", options=options)
    text = render_create_table(table, options, Dialect.GENERIC)
    assert "__t" not in text
    assert 'PRIMARY KEY ("host")' in text
    assert "physical_metric_table = ''" in text
    assert "__tsid" in render_create_table(replace(table, engine="mito"), options, Dialect.GENERIC)


def test_a_foreign_table_has_the_types_of_postgresql() -> None:
    table = replace(SMALL, columns=(*SMALL.columns, column("d", DataType(Kind.DECIMAL, precision=10, scale=2))))
    assert render_foreign_table(table) == (
        'CREATE FOREIGN TABLE ft_small (\n  "ts" TIMESTAMP,\n  "d" NUMERIC(10,2)\n)\n'
        "SERVER tsdbdb\nOPTIONS (table_name 'small')"
    )


def test_every_type_has_a_foreign_one() -> None:
    for kind in Kind:
        table = replace(SMALL, columns=(column("c", DataType(kind, precision=5, scale=1, dimension=3)),))
        assert '"c" ' in render_foreign_table(table)


def test_a_database_is_quoted_only_where_it_must_be() -> None:
    assert render_create_database(DatabaseInfo("plain"), Dialect.GENERIC) == "CREATE DATABASE IF NOT EXISTS plain"
    odd = DatabaseInfo("with-dash", {"ttl": "7days"})
    assert render_create_database(odd, Dialect.MYSQL) == (
        "CREATE DATABASE IF NOT EXISTS `with-dash`\nWITH(\n  ttl = '7days'\n)"
    )

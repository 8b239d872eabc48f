"""What PostgreSQL's clients write becomes what the query engine reads, and means the same."""

from __future__ import annotations

from typing import Any

import datafusion
import pyarrow.dataset as ds
import pytest
from datafusion.catalog import CatalogProvider, SchemaProvider, Table
from hypothesis import given
from hypothesis import strategies as st

from tests.query.information_schema.catalogs import make_context
from tsdb.query import Channel
from tsdb.query.functions import functions_for
from tsdb.query.pg_catalog import PG_TABLES, pg_functions, pg_table, rewrite_pg
from tsdb.sql.lexer import tokenize
from tsdb.sql.statements import Dialect


def rewritten(text: str) -> str:
    pieces, position = [], 0
    for start, end, replacement in rewrite_pg(text, tokenize(text, Dialect.POSTGRESQL)):
        assert position <= start <= end <= len(text), "edits overlap"
        pieces += [text[position:start], replacement]
        position = end
    return "".join(pieces) + text[position:]


class _Tables(SchemaProvider):  # type: ignore[misc]
    def table_names(self) -> set[str]:
        return set(PG_TABLES)

    def table(self, name: str) -> Table | None:
        found = pg_table(name, make_context(channel=Channel.POSTGRES))
        return None if found is None else Table(ds.dataset(found))

    def table_exist(self, name: str) -> bool:
        return name in PG_TABLES


class _Catalog(CatalogProvider):  # type: ignore[misc]
    def schema_names(self) -> set[str]:
        return {"pg_catalog"}

    def schema(self, name: str) -> SchemaProvider | None:
        return _Tables() if name == "pg_catalog" else None


def answer(text: str) -> list[dict[str, Any]]:
    config = datafusion.SessionConfig().with_default_catalog_and_schema("tsdb", "public")
    engine = datafusion.SessionContext(config.set("datafusion.sql_parser.dialect", "postgresql"))
    engine.register_catalog_provider("tsdb", _Catalog())
    context = make_context(channel=Channel.POSTGRES)
    for function in (*functions_for(context.session), *(each.make() for each in pg_functions(context))):
        if isinstance(function, datafusion.ScalarUDF):
            engine.register_udf(function)
    rows: list[dict[str, Any]] = engine.sql(rewritten(text)).to_arrow_table().to_pylist()
    return rows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT pg_catalog.format_type(23, NULL)", "SELECT format_type(23, NULL)"),
        ("a OPERATOR(pg_catalog.~) 'x' COLLATE pg_catalog.default", "a ~ 'x' "),
        ("SELECT x::pg_catalog.text, y::regtype::text", "SELECT x::text, format_type(y, NULL)"),
        ('SELECT 5::"pg_catalog"."int8"', "SELECT 5::int8"),
        ("SELECT 'int8'::regtype, 'text[]'::regtype", "SELECT 20, 1009"),
        ("SELECT CAST('pg_class' AS REGCLASS), CAST(x AS REGCLASS)", "SELECT 1259, CAST(x AS BIGINT)"),
        ("SELECT current_setting('jit', true), pg_class.a", "SELECT current_setting('jit'), pg_class.a"),
        ("WHERE a LIKE b || '%' ESCAPE '/'", r"WHERE a LIKE replace(replace(b || '%' , '\', '\\'), '/', '\')"),
        ("SELECT f(1, NULL, 2), [1, NULL, 2], pg_class.a", "SELECT f(1, NULL, 2), [1, NULL, 2], pg_class.a"),
        ("SELECT (i.keys).x, pg_class.a", "SELECT get_field((i.keys), 'x'), pg_class.a"),
        ("SELECT information_schema._pg_expandarray(i.indkey)", "SELECT unnest(pg_expanded(i.indkey))"),
        ("SELECT generate_subscripts(c.conkey, 1), pg_class.a", "SELECT unnest(pg_subscripts(c.conkey)), pg_class.a"),
        ("WHERE a = ANY('{r,\"\",x y}')", "WHERE a = ANY(ARRAY['r', '', 'x y'])"),
        ("WHERE a = ANY('{1,-2}') AND b = ANY('{}')", "WHERE a = ANY(ARRAY[1, -2]) AND b = ANY(CAST(NULL AS TEXT[]))"),
        ("SELECT d.datcollate as collate, pg_class.a", 'SELECT d.datcollate as "collate", pg_class.a'),
        ("SELECT typinput = 'pg_catalog.array_in'::regproc", "SELECT typinput = 'array_in'"),
        ("SELECT relname FROM pg_class, pg_type", "SELECT relname FROM pg_catalog.pg_class, pg_catalog.pg_type"),
        ("SELECT pg_class.oid FROM pg_catalog.pg_class", "SELECT pg_class.oid FROM pg_catalog.pg_class"),
        ('SELECT x::oid, x::name, x::"char" FROM pg_am', "SELECT x::bigint, x::text, x::text FROM pg_catalog.pg_am"),
        ("SELECT format('%I.%s''%%', a, f(b, c))", "SELECT concat(quote_ident(a), '.', f(b, c), '''%')"),
        ("SELECT format('<%L>', a)", "SELECT concat('<', coalesce(quote_literal(CAST(a AS TEXT)), 'NULL'), '>')"),
        ("SELECT format('all')", "SELECT concat('all')"),
        ("SELECT format('%s', a, b), format('%2$s', a, b)", "SELECT format('%s', a, b), format('%2$s', a, b)"),
        ("WHERE o = format('%I', a)::regclass::oid", "WHERE o = pg_class_number(concat(quote_ident(a), ''))::bigint"),
        ("WHERE o = (a || '.' || b)::regclass", "WHERE o = pg_class_number((a || '.' || b))"),
        ("WHERE o = (c.oid)::regclass", "WHERE o = (c.oid)"),
        ("SELECT to_regclass(a || b), to_regclass('pg_class')", "SELECT pg_class_number(a || b), 1259"),
        ("SELECT pg_get_userbyid(1)", "SELECT 'postgres'"),
        ("SELECT pg_get_expr(a.b, 1, true)", "SELECT (a.b)"),
        ("SELECT '1259'::regclass, 'pg_class'::regclass", "SELECT 1259, 1259"),
        ("WHERE EXISTS (SELECT 1 FROM pg_trigger t)", "WHERE false"),
        ("SELECT ARRAY(SELECT 1 FROM pg_catalog.pg_unheard(x))", "SELECT CAST(NULL AS VARCHAR[])"),
    ],
)
def test_words_of_postgresql_become_words_of_the_engine(text: str, expected: str) -> None:
    assert rewritten(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT host, max(load) FROM monitor WHERE ts > now() GROUP BY host",
        "SELECT (SELECT x FROM t WHERE t.a = u.a) FROM u",
        "SELECT '''pg''' || 'x'::text",
        "SELECT array(SELECT a FROM unnest(b))",
    ],
)
def test_queries_of_users_stay_as_they_are(text: str) -> None:
    assert rewrite_pg(text, tokenize(text, Dialect.POSTGRESQL)) == []


def test_a_users_table_that_is_named_like_a_system_table_is_not_taken_for_empty() -> None:
    text = "SELECT (SELECT max(x) FROM pg_mine), pg_is_in_recovery()"
    assert rewritten(text) == "SELECT (SELECT max(x) FROM pg_mine), false"


@pytest.mark.parametrize(
    ("name", "found"),
    [("'monitor'", "monitor"), ("'public.monitor'", "monitor"), ("'other.monitor'", None), ("'pg_class'", "pg_class")],
)
def test_a_relation_is_found_by_a_name_that_is_computed(name: str, found: str | None) -> None:
    text = f"SELECT pg_relation_name(to_regclass(concat({name}, ''))) AS name"
    assert answer(text) == [{"name": found}]


def test_tables_are_listed_with_their_database_and_owner() -> None:
    found = answer(
        """SELECT n.nspname AS schema, c.relname AS name, pg_catalog.pg_get_userbyid(c.relowner) AS owner
        FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_toast' AND n.nspname <> 'pg_catalog'
          AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1, 2"""
    )
    assert found == [{"schema": "public", "name": "monitor", "owner": "postgres"}]


def test_a_pattern_finds_a_table_by_operator_and_collation() -> None:
    found = answer(
        "SELECT relname FROM pg_class WHERE relname OPERATOR(pg_catalog.~) '^(monitor)$' COLLATE pg_catalog.default"
    )
    assert found == [{"relname": "monitor"}]


def test_columns_come_with_the_default_that_a_query_inside_asks_for() -> None:
    found = answer(
        """SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type,
          (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) FROM pg_catalog.pg_attrdef d
           WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef) AS value
        FROM pg_catalog.pg_attribute a WHERE a.attrelid = 'monitor'::regclass ORDER BY a.attnum"""
    )
    assert [(row["attname"], row["type"], row["value"]) for row in found] == [
        ("host", "character varying", None),
        ("zone", "integer", None),
        ("ts", "timestamp without time zone", "current_timestamp()"),
        ("load", "double precision", "0.5"),
    ]


def test_a_name_becomes_a_number_and_a_number_a_name() -> None:
    found = answer("SELECT c.oid::regclass::text AS name FROM pg_class c WHERE c.oid = 'other.logs'::regclass")
    assert found == [{"name": "other.logs"}]
    assert answer("SELECT to_regclass('nothing') AS oid") == [{"oid": None}]


def test_primary_keys_are_the_tags_in_their_order_and_then_the_time() -> None:
    """In the words of PostgreSQL's JDBC driver."""
    found = answer(
        "SELECT r.name, r.seq FROM (SELECT a.attname AS name, (information_schema._pg_expandarray(i.indkey)).n AS seq, "
        "information_schema._pg_expandarray(i.indkey) AS keys, a.attnum AS num FROM pg_catalog.pg_class ct "
        "JOIN pg_catalog.pg_attribute a ON ct.oid = a.attrelid JOIN pg_catalog.pg_index i ON a.attrelid = i.indrelid "
        "WHERE ct.relname = 'monitor' AND i.indisprimary) r WHERE r.num = (r.keys).x ORDER BY r.seq"
    )
    assert [tuple(row.values()) for row in found] == [("zone", 1), ("host", 2), ("ts", 3)]
    shown = answer(
        "SELECT pg_get_constraintdef(c.oid, true) AS text FROM pg_constraint c WHERE conname = 'monitor_pkey'"
    )
    assert shown == [{"text": "PRIMARY KEY (zone, host, ts)"}]


def test_comments_are_found_by_function_and_by_table() -> None:
    found = answer(
        """SELECT obj_description(c.oid, 'pg_class') AS said, col_description(c.oid, 4) AS of_column, d.description
        FROM pg_class c JOIN pg_description d ON d.objoid = c.oid AND d.objsubid = 0 WHERE c.relname = 'monitor'"""
    )
    assert found == [{"said": "machines", "of_column": "the host's load", "description": "machines"}]


def test_columns_without_a_name_do_not_clash() -> None:
    assert len(answer("SELECT NULL, NULL FROM pg_catalog.pg_am")[0]) == 2


def test_bare_current_schema_is_a_call() -> None:
    assert answer("SELECT current_schema AS here, current_schemas(false) AS path") == [
        {"here": "public", "path": ["public"]}
    ]


_TOKENS = (
    "SELECT FROM WHERE AND OR NULL EXISTS ARRAY COLLATE OPERATOR pg_catalog pg_class pg_trigger pg_attrdef pg_get_expr",
    "to_regclass format_type regclass oid text a b IN AS CAST LIMIT ORDER BY ( ) ( ) . . , :: :: ~ [ ] = 'x' '12' 1",
)
_WORDS = st.sampled_from(" ".join(_TOKENS).split())


@given(st.lists(_WORDS, max_size=40))
def test_any_sequence_of_tokens_is_rewritten_without_overlaps(words: list[str]) -> None:
    rewritten(" ".join(words))


def test_the_question_of_asyncpg_for_a_type_is_answered_with_the_type_of_its_items() -> None:
    text = "WITH RECURSIVE typeinfo_tree(oid) AS (SELECT 1 WHERE ti.oid = any(make_array(1016)::oid[])) SELECT *"
    found = [(row["oid"], row["name"], row["elemtype"], row["elemtype_name"], row["depth"]) for row in answer(text)]
    assert found == [(20, "int8", 0, "-", 1), (1016, "_int8", 20, "bigint", 0)]

"""CREATE in all of its forms."""

from __future__ import annotations

import pytest

from tsdb.errors import InvalidArguments, InvalidSyntax, Status, TsdbError, Unsupported
from tsdb.model import ColumnIndex, DataType, Kind
from tsdb.sql import Dialect, parse, type_of_name
from tsdb.sql.statements import (
    ColumnDef,
    CreateDatabase,
    CreateFlow,
    CreateTable,
    CreateTableLike,
    CreateView,
    DefaultExpression,
    Name,
    Slice,
    Statement,
)

TS = "ts TIMESTAMP TIME INDEX"


def _one(text: str, dialect: Dialect = Dialect.GENERIC) -> Statement:
    [parsed] = parse(text, dialect)
    return parsed.statement


def _table(text: str) -> CreateTable:
    statement = _one(text)
    assert isinstance(statement, CreateTable)
    return statement


def _column(text: str) -> ColumnDef:
    return _table(f"CREATE TABLE t ({TS}, {text})").columns[1]


def _status(text: str) -> int:
    with pytest.raises(TsdbError) as caught:
        parse(text)
    return int(caught.value.status)


def test_a_database_has_a_name_and_options() -> None:
    assert _one("CREATE DATABASE a") == CreateDatabase(Name(("a",)))
    assert _one("create schema if not exists 'A-b' with (TTL = '1d', append_mode=true,)") == CreateDatabase(
        Name(("A-b",)), True, (("ttl", "1d"), ("append_mode", "true"))
    )


def test_a_table_in_full() -> None:
    table = _table(
        """CREATE TABLE IF NOT EXISTS Db.T (
          Host STRING NOT NULL COMMENT 'the "host"' INVERTED INDEX,
          "Ts" TIMESTAMP(6),
          cpu DOUBLE NULL DEFAULT -0.5,
          TIME INDEX ("Ts"), PRIMARY KEY (host),
        ) PARTITION ON COLUMNS (host) (host < 'm', host >= 'm' AND (host <> 'a,b'),)
        ENGINE = Mito WITH ('Compaction.Type' = 'twcs', compaction.twcs.time_window = 1000, ttl = forever)"""
    )
    assert table.name == Name(("db", "t"))
    assert table.if_not_exists
    assert [column.name for column in table.columns] == ["host", "Ts", "cpu"]
    assert table.columns[0] == ColumnDef(
        "host", DataType(Kind.STRING), False, comment='the "host"', indexes=(ColumnIndex("inverted"),)
    )
    assert table.columns[1].type == DataType(Kind.TIMESTAMP_MICROSECOND)
    assert table.columns[2].default == DefaultExpression("-0.5", "number")
    assert (table.time_index, table.primary_key) == ("Ts", ("host",))
    assert table.partition_columns == ("host",)
    assert [rule.text for rule in table.partition_rules] == ["host < 'm'", "host >= 'm' AND (host <> 'a,b')"]
    assert table.engine == "mito"
    assert table.options == (
        ("compaction.type", "twcs"),
        ("compaction.twcs.time_window", "1000"),
        ("ttl", "forever"),
    )


def test_a_time_index_may_be_said_twice_of_one_column() -> None:
    assert _table(f"CREATE TABLE t ({TS}, TIME INDEX (ts))").time_index == "ts"


def test_a_column_may_be_called_time() -> None:
    assert _table("CREATE TABLE t (time TIMESTAMP TIME INDEX)").time_index == "time"


def test_an_empty_rule_list_is_one_region() -> None:
    table = _table(f"CREATE TABLE t ({TS}, a INT PRIMARY KEY) PARTITION ON COLUMNS (a) ()")
    assert (table.partition_columns, table.partition_rules) == (("a",), ())


def test_an_external_table_may_leave_its_columns_to_the_file() -> None:
    table = _table("CREATE EXTERNAL TABLE t WITH (location = '/x', format = 'csv')")
    assert (table.engine, table.is_external, table.columns, table.time_index) == ("file", True, (), None)


def test_a_table_may_be_like_another() -> None:
    assert _one("CREATE TABLE IF NOT EXISTS a LIKE b.c") == CreateTableLike(Name(("a",)), Name(("b", "c")), True)


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("1", DefaultExpression("1", "number")),
        ("-1.5", DefaultExpression("-1.5", "number")),
        ("+1", DefaultExpression("1", "number")),
        ("'it''s'", DefaultExpression("it's", "string")),
        ('"x"', DefaultExpression("x", "string")),
        ("TRUE", DefaultExpression("true", "boolean")),
        ("NULL", DefaultExpression("null", "null")),
        ("Now()", DefaultExpression("now", "function")),
        ("CURRENT_TIMESTAMP", DefaultExpression("current_timestamp", "function")),
        ("current_timestamp()", DefaultExpression("current_timestamp", "function")),
        ("X'0A'", DefaultExpression("0a", "hex")),
    ],
)
def test_a_default_is_a_literal_or_a_function(text: str, default: DefaultExpression) -> None:
    assert _column(f"a STRING DEFAULT {text} COMMENT 'c'").default == default


@pytest.mark.parametrize("text", ["1 + 1", "(1)", "now() - 1", "now(3)", "b", "-x", "SELECT", "CASE WHEN 1 THEN 2 END"])
def test_any_other_default_is_not_supported(text: str) -> None:
    with pytest.raises(Unsupported, match="default"):
        _column(f"a STRING DEFAULT {text}")


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("INVERTED INDEX", ColumnIndex("inverted")),
        (
            "SKIPPING INDEX",
            ColumnIndex("skipping", (("false_positive_rate", "0.01"), ("granularity", "10240"), ("type", "BLOOM"))),
        ),
        (
            "SKIPPING INDEX WITH (Granularity = 8192, type = 'bloom', false_positive_rate = 0.050)",
            ColumnIndex("skipping", (("false_positive_rate", "0.05"), ("granularity", "8192"), ("type", "BLOOM"))),
        ),
        (
            "FULLTEXT INDEX WITH (analyzer = 'chinese', case_sensitive = TRUE)",
            ColumnIndex(
                "fulltext",
                (
                    ("analyzer", "Chinese"),
                    ("backend", "bloom"),
                    ("case_sensitive", "true"),
                    ("false_positive_rate", "0.01"),
                    ("granularity", "10240"),
                ),
            ),
        ),
        (
            "FULLTEXT INDEX WITH (backend = 'tantivy')",
            ColumnIndex("fulltext", (("analyzer", "English"), ("backend", "tantivy"), ("case_sensitive", "false"))),
        ),
    ],
)
def test_the_options_of_an_index_are_given_in_full(text: str, index: ColumnIndex) -> None:
    assert _column(f"a STRING {text} NULL").indexes == (index,)


def test_a_vector_has_an_index_of_its_own() -> None:
    [index] = _column("v VECTOR(3) VECTOR INDEX WITH (metric = 'dot')").indexes
    assert dict(index.options)["metric"] == "dot"
    with pytest.raises(InvalidArguments):
        _column("v STRING VECTOR INDEX")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("a STRING FULLTEXT INDEX WITH (analyzer = 'Klingon')", Status.UNEXPECTED),
        ("a STRING SKIPPING INDEX WITH (granularity = 0)", Status.UNEXPECTED),
        ("a STRING SKIPPING INDEX WITH (false_positive_rate = 'nan')", Status.UNEXPECTED),
        ("a STRING FULLTEXT INDEX WITH (colour = 'red')", Status.INVALID_ARGUMENTS),
        ("a STRING INVERTED INDEX WITH (granularity = 1)", Status.INVALID_ARGUMENTS),
        ("a STRING FULLTEXT", Status.INVALID_ARGUMENTS),
        ("a STRING SKIPPING INDEX SKIPPING INDEX", Status.INVALID_ARGUMENTS),
        ("a INT FULLTEXT INDEX", Status.INVALID_ARGUMENTS),
        ("a INTERVAL", Status.INVALID_ARGUMENTS),
        ("a JSON DEFAULT '{}'", Status.UNSUPPORTED),
        ("a INT NOT NULL DEFAULT NULL", Status.INVALID_ARGUMENTS),
        ("a INT NULL NOT NULL", Status.INVALID_ARGUMENTS),
        ("a INT DEFAULT 1 DEFAULT 2", Status.INVALID_SYNTAX),
        ("select INT", Status.INVALID_SYNTAX),
        ("a TIMESTAMP(4)", Status.INVALID_SYNTAX),
        ("a DECIMAL(39)", Status.INVALID_SYNTAX),
        ("a DECIMAL(3, 4)", Status.INVALID_SYNTAX),
        ("a NOTATYPE", Status.INVALID_SYNTAX),
        ("a DOUBLE UNSIGNED", Status.INVALID_SYNTAX),
        ("a VECTOR", Status.INVALID_SYNTAX),
        ("a INT[]", Status.UNSUPPORTED),
        ("a", Status.INVALID_SYNTAX),
        ("a INT oops", Status.INVALID_SYNTAX),
        ("a INT, A INT", Status.INVALID_ARGUMENTS),
        ("a INT TIME INDEX", Status.INVALID_SYNTAX),
        ("a INT PRIMARY KEY, b INT PRIMARY KEY", Status.INVALID_ARGUMENTS),
        ("a INT PRIMARY KEY, PRIMARY KEY (a)", Status.INVALID_ARGUMENTS),
        ("a INT, PRIMARY KEY (a, a)", Status.INVALID_ARGUMENTS),
        ("a INT, PRIMARY KEY (b)", Status.INVALID_ARGUMENTS),
        ("a INT, PRIMARY KEY (ts)", Status.INVALID_ARGUMENTS),
        ("TIME INDEX (ts, ts)", Status.INVALID_SYNTAX),
        ("a INT, TIME INDEX (b)", Status.INVALID_SYNTAX),
    ],
)
def test_a_wrong_column_is_refused_with_its_code(text: str, status: Status) -> None:
    assert _status(f"CREATE TABLE t ({TS}, {text})") == status


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("CREATE TABLE t (a INT)", Status.INVALID_SYNTAX),
        ("CREATE TABLE t (a INT, TIME INDEX (b))", Status.INVALID_SYNTAX),
        ("CREATE TABLE t (a INT TIME INDEX)", Status.INVALID_ARGUMENTS),
        ("CREATE TABLE t (ts TIMESTAMP NULL TIME INDEX)", Status.INVALID_ARGUMENTS),
        ("CREATE TABLE t ()", Status.INVALID_SYNTAX),
        ("CREATE TABLE t", Status.INVALID_SYNTAX),
        ("CREATE TABLE IF EXISTS t (ts TIMESTAMP TIME INDEX)", Status.UNSUPPORTED),
        ("CREATE TABLE t AS SELECT 1", Status.UNSUPPORTED),
        ("CREATE OR REPLACE TABLE t (ts TIMESTAMP TIME INDEX)", Status.UNSUPPORTED),
        ("CREATE TEMPORARY TABLE t (ts TIMESTAMP TIME INDEX)", Status.UNSUPPORTED),
        ("CREATE TRIGGER x", Status.UNSUPPORTED),
        ("CREATE USER x", Status.INVALID_SYNTAX),
        ("CREATE ROLE x", Status.UNSUPPORTED),
        ("CREATE 1", Status.INVALID_SYNTAX),
        ("CREATE", Status.INVALID_SYNTAX),
        ("CREATE DATABASE a-b", Status.UNSUPPORTED),
        ("CREATE DATABASE a b", Status.UNSUPPORTED),
        (f"CREATE TABLE t ({TS}) WITH (ttl = -1)", Status.INVALID_ARGUMENTS),
        (f"CREATE TABLE t ({TS}) WITH (ttl = f(1))", Status.INVALID_ARGUMENTS),
        (f"CREATE TABLE t ({TS}) WITH (ttl)", Status.INVALID_SYNTAX),
        (f"CREATE TABLE t ({TS}) junk", Status.UNSUPPORTED),
        (f"CREATE TABLE a.b.c.d ({TS})", Status.INVALID_SYNTAX),
        (f"CREATE TABLE '' ({TS})", Status.INVALID_SYNTAX),
        (f"CREATE TABLE t ({TS}) PARTITION ON COLUMNS (ts) (,)", Status.INVALID_SYNTAX),
        ("CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1", Status.INVALID_ARGUMENTS),
        ("CREATE VIEW v AS DROP TABLE t", Status.INVALID_SYNTAX),
        ("CREATE OR REPLACE FLOW IF NOT EXISTS f SINK TO s AS SELECT 1", Status.UNSUPPORTED),
        ("CREATE FLOW f AS SELECT 1", Status.INVALID_SYNTAX),
        ("CREATE FLOW f SINK TO s AS DROP TABLE t", Status.INVALID_SYNTAX),
    ],
)
def test_a_wrong_create_is_refused_with_its_code(text: str, status: Status) -> None:
    assert _status(text) == status


def test_an_error_says_where_and_what() -> None:
    with pytest.raises(InvalidSyntax, match=r"expected ',' or '\)', found 'oops' at line 2, column 7"):
        parse("CREATE TABLE t (\na INT oops)")


def test_a_view_keeps_its_text() -> None:
    text = "CREATE OR REPLACE VIEW db.V (a, B) AS SELECT 1, 2 -- end"
    view = _one(f"{text};")
    assert view == CreateView(
        Name(("db", "v")), Slice("SELECT 1, 2", 38), Slice(text[:49]), ("a", "b"), or_replace=True
    )


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("'1 hour'", "1 hour"),
        ("INTERVAL '1 hour'", "1 hour"),
        ("'1 hour'::INTERVAL", "1 hour"),
        ("INTERVAL 2 DAYS", "2 days"),
        ("INTERVAL '2' HOUR", "2 hour"),
        ("60", "60 seconds"),
    ],
)
def test_the_spans_of_a_flow_are_text(text: str, interval: str) -> None:
    flow = _one(f"CREATE FLOW f SINK TO s EXPIRE AFTER {text} AS SELECT 1")
    assert isinstance(flow, CreateFlow)
    assert flow.expire_after == interval


def test_a_flow_in_full() -> None:
    flow = _one(
        "CREATE OR REPLACE FLOW f SINK TO db.s EXPIRE AFTER '1h' EVAL INTERVAL '1m' COMMENT 'c' "
        "WITH (defer_on_missing_source = true) AS TQL EVAL (0, 1, '5s') m"
    )
    assert isinstance(flow, CreateFlow)
    assert flow.sink == Name(("db", "s"))
    assert flow.or_replace
    assert (flow.expire_after, flow.eval_interval, flow.comment) == ("1h", "1m", "c")
    assert flow.options == (("defer_on_missing_source", "true"),)
    assert flow.query.text == "TQL EVAL (0, 1, '5s') m"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("INT8", Kind.INT64),
        ("INT2", Kind.INT16),
        ("INT4", Kind.INT32),
        ("INT16", Kind.INT16),
        ("INT64", Kind.INT64),
        ("TINYINT", Kind.INT8),
        ("TINYINT UNSIGNED", Kind.UINT8),
        ("UINT8", Kind.UINT8),
        ("INT(11) UNSIGNED", Kind.UINT32),
        ("BIGINT UNSIGNED", Kind.UINT64),
        ("FLOAT4", Kind.FLOAT32),
        ("FLOAT8", Kind.FLOAT64),
        ("DOUBLE PRECISION", Kind.FLOAT64),
        ("VARCHAR(20)", Kind.STRING),
        ("CHARACTER VARYING(20)", Kind.STRING),
        ("BYTEA", Kind.BINARY),
        ("BOOL", Kind.BOOLEAN),
        ("DATETIME", Kind.TIMESTAMP_MICROSECOND),
        ("DATETIME(3)", Kind.TIMESTAMP_MILLISECOND),
        ("TIMESTAMP", Kind.TIMESTAMP_MILLISECOND),
        ("TIMESTAMP(9)", Kind.TIMESTAMP_NANOSECOND),
        ("TIMESTAMP(0) WITH TIME ZONE", Kind.TIMESTAMP_SECOND),
        ("TIMESTAMPTZ", Kind.TIMESTAMP_MILLISECOND),
        ("TimestampSecond", Kind.TIMESTAMP_SECOND),
        ("timestamp_us", Kind.TIMESTAMP_MICROSECOND),
        ("JSON", Kind.JSON),
        ("DATE", Kind.DATE),
    ],
)
def test_a_type_has_many_names(text: str, kind: Kind) -> None:
    assert _column(f"a {text} NULL").type == DataType(kind)


def test_decimals_and_vectors_carry_their_numbers() -> None:
    assert _column("a DECIMAL").type == DataType(Kind.DECIMAL, precision=38, scale=10)
    assert _column("a DECIMAL(5)").type == DataType(Kind.DECIMAL, precision=5)
    assert _column("a NUMERIC(5, 2)").type == DataType(Kind.DECIMAL, precision=5, scale=2)
    assert _column("a VECTOR(3)").type == DataType(Kind.VECTOR, dimension=3)
    assert type_of_name("nothing") is None

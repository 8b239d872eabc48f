"""Every statement but CREATE and VALUES: text in, dataclass or code out."""

from __future__ import annotations

import pytest

from tests.sql.show_kinds import SHOW_KINDS
from tsdb.errors import Status, TsdbError, Unsupported
from tsdb.model import ColumnIndex, DataType, Kind
from tsdb.sql import Dialect, parse
from tsdb.sql import statements as s
from tsdb.sql.statements import Filter, Name, Slice, Statement

GENERIC, MYSQL, POSTGRESQL = Dialect.GENERIC, Dialect.MYSQL, Dialect.POSTGRESQL
T = Name(("t",))
INT = DataType(Kind.INT32)


def _one(text: str, dialect: Dialect = GENERIC) -> Statement:
    [parsed] = parse(text, dialect)
    return parsed.statement


def _set(name: str, *values: str) -> s.SetVariable:
    return s.SetVariable(name, values)


@pytest.mark.parametrize(
    ("text", "operations"),
    [
        ("ADD COLUMN c INT", [s.AddColumnOp(s.ColumnDef("c", INT))]),
        ("add c INT FIRST", [s.AddColumnOp(s.ColumnDef("c", INT), position="first")]),
        (
            "ADD COLUMN IF NOT EXISTS c INT NULL AFTER d, ADD e INT PRIMARY KEY",
            [
                s.AddColumnOp(s.ColumnDef("c", INT, True), True, "after", "d"),
                s.AddColumnOp(s.ColumnDef("e", INT, is_primary_key=True)),
            ],
        ),
        ("DROP COLUMN c", [s.DropColumnOp("c")]),
        ("MODIFY COLUMN c BIGINT", [s.ModifyTypeOp("c", DataType(Kind.INT64))]),
        ("MODIFY c STRING", [s.ModifyTypeOp("c", DataType(Kind.STRING))]),
        (
            "MODIFY COLUMN c SET DEFAULT 1, MODIFY COLUMN d SET DEFAULT now()",
            [
                s.SetDefaultOp("c", s.DefaultExpression("1", "number")),
                s.SetDefaultOp("d", s.DefaultExpression("now", "function")),
            ],
        ),
        ("MODIFY COLUMN c DROP DEFAULT, MODIFY COLUMN d DROP DEFAULT", [s.DropDefaultOp("c"), s.DropDefaultOp("d")]),
        ("MODIFY COLUMN c SET INVERTED INDEX", [s.SetIndexOp("c", ColumnIndex("inverted"))]),
        ("MODIFY COLUMN c UNSET FULLTEXT INDEX", [s.UnsetIndexOp("c", "fulltext")]),
        ("RENAME u", [s.RenameTableOp(Name(("u",)))]),
        ("RENAME TO 'U'", [s.RenameTableOp(Name(("U",)))]),
        ("RENAME COLUMN a TO b", [s.RenameColumnOp("a", "b")]),
        ("SET 'TTL' = '1d', skip_wal = true", [s.SetOptionsOp((("ttl", "1d"), ("skip_wal", "true")))]),
        ("SET compaction.twcs.time_window = NULL", [s.SetOptionsOp((("compaction.twcs.time_window", None),))]),
        ("UNSET 'ttl', a.b", [s.UnsetOptionsOp(("ttl", "a.b"))]),
        ("ADD COLUMN c INT WITH (timeout = '1s', wait = false)", [s.AddColumnOp(s.ColumnDef("c", INT))]),
    ],
)
def test_alter_table(text: str, operations: list[s.AlterOp]) -> None:
    assert _one(f"ALTER TABLE t {text}") == s.AlterTable(T, tuple(operations))


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("ALTER DATABASE d SET 'ttl' = '1d', a = 1", s.AlterDatabase(Name(("d",)), (("ttl", "1d"), ("a", "1")))),
        ("ALTER DATABASE d UNSET 'ttl', 'a'", s.AlterDatabase(Name(("d",)), unset_options=("ttl", "a"))),
        ("DROP DATABASE IF EXISTS d", s.DropDatabase(Name(("d",)), True)),
        ("drop schema d", s.DropDatabase(Name(("d",)))),
        ('DROP TABLE a, "B".`C`', s.DropTable((Name(("a",)), Name(("B", "C"))))),
        ("DROP TABLE IF EXISTS tsdb.public.a", s.DropTable((Name(("tsdb", "public", "a")),), True)),
        ("DROP VIEW v", s.DropView(Name(("v",)))),
        ("DROP FLOW IF EXISTS f", s.DropFlow(Name(("f",)), True)),
        ("TRUNCATE t", s.TruncateTable(T)),
        (
            "TRUNCATE TABLE t FILE RANGE (0, 'a'), (f(1, 2), 3),",
            s.TruncateTable(T, ((Slice("0", 29), Slice("'a'", 32)), (Slice("f(1, 2)", 39), Slice("3", 48)))),
        ),
        ("COMMENT ON TABLE t IS 'x'", s.Comment("table", T, None, "x")),
        ("COMMENT ON COLUMN d.t.C IS NULL", s.Comment("column", Name(("d", "t")), "c", None)),
        ("COMMENT ON FLOW f IS ''", s.Comment("flow", Name(("f",)), None, "")),
        ("DELETE FROM t", s.Delete(T)),
        ("DELETE FROM t WHERE a IN (1, 2) AND b", s.Delete(T, Slice("a IN (1, 2) AND b", 20))),
        ("DELETE FROM t AS x WHERE x.a = 1", s.Delete(T, Slice("x.a = 1", 25), "x")),
        ("USE d", s.Use("d")),
        ("USE tsdb.`D`", s.Use("D")),
        ("DESC t", s.Describe(T)),
        ("describe table t", s.Describe(T)),
        ('ADMIN Flush_Table("t")', s.Admin("Flush_Table", ("t",), "ADMIN Flush_Table('t')")),
        ("admin f( )", s.Admin("f", (), "ADMIN f()")),
        (
            "ADMIN f('it''s',-1 , 2.5, true, NULL)",
            s.Admin("f", ("it's", -1, 2.5, True, None), "ADMIN f('it''s', -1, 2.5, true, NULL)"),
        ),
        ("KILL 'a/1'", s.Kill(process="a/1")),
        ("KILL QUERY 7", s.Kill(connection=7)),
        ("KILL 7", s.Kill(connection=7)),
        ("PREPARE p FROM 'SELECT ?;'", s.Prepare("p", "SELECT ?;")),
        ("PREPARE p (INT, DECIMAL(1, 2)) AS SELECT $1, $2", s.Prepare("p", "SELECT $1, $2")),
        ("EXECUTE p", s.Execute("p")),
        ("EXECUTE p USING 1, 'a,b'", s.Execute("p", (Slice("1", 16), Slice("'a,b'", 19)))),
        ("EXECUTE p (1, f(2, 3))", s.Execute("p", (Slice("1", 11), Slice("f(2, 3)", 14)))),
        ("DEALLOCATE p", s.Deallocate("p")),
        ("DEALLOCATE PREPARE ALL", s.Deallocate(None)),
        ("DROP PREPARE p", s.Deallocate("p")),
        ("DECLARE c CURSOR FOR SELECT 1, 2", s.DeclareCursor("c", Slice("SELECT 1, 2", 21))),
        ('DECLARE "C" NO SCROLL CURSOR WITHOUT HOLD FOR (SELECT 1)', s.DeclareCursor("C", Slice("(SELECT 1)", 46))),
        ("FETCH 5 FROM c", s.FetchCursor("c", s.CursorStep("forward", 5))),
        ("FETCH c", s.FetchCursor("c", s.CursorStep())),
        ("FETCH NEXT IN c", s.FetchCursor("c", s.CursorStep())),
        ("FETCH FORWARD ALL FROM c", s.FetchCursor("c", s.CursorStep("forward", s.FETCH_ALL))),
        ("FETCH BACKWARD 2 IN c", s.FetchCursor("c", s.CursorStep("forward", -2))),
        ("FETCH ABSOLUTE -3 FROM c", s.FetchCursor("c", s.CursorStep("absolute", -3))),
        ("FETCH prior", s.FetchCursor("prior", s.CursorStep())),
        ("MOVE RELATIVE +2 c", s.MoveCursor("c", s.CursorStep("relative", 2))),
        ("CLOSE c", s.CloseCursor("c")),
        ("CLOSE ALL", s.CloseCursor(None)),
    ],
)
def test_statements(text: str, statement: Statement) -> None:
    assert _one(text) == statement
    assert _one(f"/* a */ {text} ; -- b") is not None


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("COPY t TO 'p'", s.Copy("to", "p", T)),
        (
            "COPY t FROM 'p/' WITH (FORMAT = 'csv', Pattern = '.*') CONNECTION (Region = 'x') LIMIT 5",
            s.Copy("from", "p/", T, None, None, (("format", "csv"), ("pattern", ".*")), (("region", "x"),), 5),
        ),
        ("COPY (SELECT a, (b) FROM t) TO 'p'", s.Copy("to", "p", query=Slice("SELECT a, (b) FROM t", 6))),
        (
            "COPY (SELECT 1) TO STDOUT WITH (FORMAT csv, header true)",
            s.Copy("to", None, query=Slice("SELECT 1", 6), options=(("format", "csv"), ("header", "true"))),
        ),
        ("COPY (SELECT 1) TO STDOUT", s.Copy("to", None, query=Slice("SELECT 1", 6))),
        ("COPY t (a, B) TO STDOUT", s.Copy("to", None, query=Slice('SELECT "a", "b" FROM "t"', 5))),
        (
            "COPY t TO STDOUT (HEADER, FORCE_QUOTE (a, b), NULL 'x')",
            s.Copy("to", None, T, options=(("header", ""), ("force_quote", "a,b"), ("null", "x"))),
        ),
        (
            "COPY t TO STDOUT WITH CSV HEADER DELIMITER AS ';' FORCE QUOTE *",
            s.Copy(
                "to", None, T, options=(("format", "csv"), ("header", ""), ("delimiter", ";"), ("force_quote", "*"))
            ),
        ),
        ("COPY DATABASE d FROM 'p/'", s.Copy("from", "p/", database=Name(("d",)))),
        ("COPY t FROM STDIN", s.Copy("from", None, T)),
        ("COPY t (a, B) FROM STDIN CSV", s.Copy("from", None, T, options=(("format", "csv"),), columns=("a", "b"))),
    ],
)
def test_copy(text: str, statement: Statement) -> None:
    assert _one(text) == statement


@pytest.mark.parametrize(
    ("text", "show"),
    [
        ("DATABASES", s.Show("databases")),
        ("FULL SCHEMAS LIKE 'p%'", s.Show("databases", True, filter=Filter(like="p%"))),
        ("TABLES", s.Show("tables")),
        ("FULL TABLES IN D WHERE Table_type = 'VIEW'", None),
        ('TABLES FROM "D" LIKE abc', s.Show("tables", database="D", filter=Filter(like="abc"))),
        ("TABLE STATUS FROM d LIKE 'x'", s.Show("table_status", database="d", filter=Filter(like="x"))),
        ("COLUMNS FROM t IN d LIKE 'x'", s.Show("columns", name=T, database="d", filter=Filter(like="x"))),
        ("FULL FIELDS FROM t", s.Show("columns", True, name=T)),
        ("INDEX FROM t", s.Show("index", name=T)),
        ("KEYS IN t FROM d", s.Show("index", name=T, database="d")),
        ("REGIONS FROM t", s.Show("region", name=T)),
        ("CREATE TABLE d.t", s.Show("create_table", name=Name(("d", "t")))),
        ("CREATE TABLE t FOR POSTGRES_FOREIGN_TABLE", s.Show("create_table", name=T, is_foreign=True)),
        ("CREATE DATABASE t", s.Show("create_database", name=T)),
        ("CREATE SCHEMA t", s.Show("create_database", name=T)),
        ("CREATE VIEW t", s.Show("create_view", name=T)),
        ("CREATE FLOW t", s.Show("create_flow", name=T)),
        ("VIEWS FROM d", s.Show("views", database="d")),
        ("FLOWS LIKE 'x'", s.Show("flows", filter=Filter(like="x"))),
        ("FLOW STATUS", s.Show("flow_status")),
        ("CHARSET", s.Show("charset")),
        ("CHARACTER SET LIKE 'u'", s.Show("charset", filter=Filter(like="u"))),
        ("COLLATION", s.Show("collation")),
        ("FULL PROCESSLIST", s.Show("processlist", True)),
        ("VARIABLES", s.Show("variables")),
        ("VARIABLES Time_Zone", s.Show("variables", name=Name(("time_zone",)))),
        ("GLOBAL VARIABLES LIKE 'x'", s.Show("variables", filter=Filter(like="x"))),
        ("SESSION STATUS", s.Show("status")),
        ("SEARCH_PATH", s.Show("search_path")),
        ("WARNINGS LIMIT 5", s.Show("warnings")),
        ("STORAGE ENGINES", s.Show("engines")),
        ("DateStyle", s.Show("variable", name=Name(("datestyle",)))),
        ("TIME ZONE", s.Show("variable", name=Name(("timezone",)))),
        ("TRANSACTION ISOLATION LEVEL", s.Show("variable", name=Name(("transaction_isolation",)))),
    ],
)
def test_show(text: str, show: s.Show | None) -> None:
    found = _one(f"SHOW {text}")
    assert isinstance(found, s.Show)
    assert found.what in SHOW_KINDS
    if show is None:
        assert found.filter.where is not None
        assert found.filter.where.text == "Table_type = 'VIEW'"
        assert (found.is_full, found.database) == (True, "d")
    else:
        assert found == show


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("time_zone = '+8:00'", _set("time_zone", "+8:00")),
        ("SESSION TIME_ZONE = 'UTC'", _set("time_zone", "UTC")),
        ("LOCAL time_zone TO utc", _set("time_zone", "utc")),
        ("TIMEZONE TO 'x'", _set("time_zone", "x")),
        ("TIME ZONE 'x'", _set("time_zone", "x")),
        ("SESSION TIME ZONE LOCAL", _set("time_zone", "LOCAL")),
        ("NAMES utf8mb4", _set("names", "utf8mb4")),
        ("NAMES 'utf8' COLLATE 'utf8_bin'", _set("names", "utf8", "utf8_bin")),
        ("CHARACTER SET utf8", _set("character_set", "utf8")),
        ("@@session.x = 1", _set("x", "1")),
        ("@@Sql_Mode := 'A,B'", _set("sql_mode", "A,B")),
        ("GLOBAL x = -5", _set("x", "-5")),
        ('search_path TO a, "B", public', _set("search_path", "a", "B", "public")),
        ("datestyle = ISO, MDY", _set("datestyle", "ISO", "MDY")),
        ("sql_mode = CONCAT(@@sql_mode, ',X')", _set("sql_mode", "CONCAT(@@sql_mode, ',X')")),
        ("a = 1, SESSION b = 'x', @@c = on", s.SetMany((_set("a", "1"), _set("b", "x"), _set("c", "on")))),
        ("@Old = @@x, NAMES utf8", s.SetMany((_set("@old", "@@x"), _set("names", "utf8")))),
        ("TRANSACTION ISOLATION LEVEL READ COMMITTED", _set("transaction", "ISOLATION LEVEL READ COMMITTED")),
        ("SESSION TRANSACTION READ ONLY", _set("transaction", "READ ONLY")),
    ],
)
def test_set(text: str, statement: Statement) -> None:
    assert _one(f"SET {text}") == statement


def test_queries_are_left_as_they_are_written() -> None:
    found = parse(" SELECT 1, ';' -- x\n;(VALUES (1));WITH a AS (SELECT 1) TABLE a;TABLE t")
    assert [parsed.text for parsed in found] == [
        "SELECT 1, ';' -- x",
        "(VALUES (1))",
        "WITH a AS (SELECT 1) TABLE a",
        "TABLE t",
    ]
    assert found[0].statement == s.Query(Slice("SELECT 1, ';' -- x", 1))
    assert [type(parsed.statement) for parsed in found] == [s.Query] * 4


def test_empty_statements_are_skipped() -> None:
    assert parse("") == parse(" ; /* x */ ;; -- y") == []


@pytest.mark.parametrize(
    ("text", "analyze", "verbose", "form"),
    [
        ("", False, False, None),
        ("ANALYZE", True, False, None),
        ("ANALYZE VERBOSE FORMAT JSON", True, True, "json"),
        ("FORMAT = 'Tree'", False, False, "tree"),
        ("(ANALYZE, FORMAT TEXT)", True, False, "text"),
    ],
)
def test_explain(text: str, analyze: bool, verbose: bool, form: str | None) -> None:
    source = f"EXPLAIN {text} SELECT 1"
    query = s.Query(Slice("SELECT 1", source.index("SELECT")))
    assert _one(source) == s.Explain(query, analyze, verbose, form)


def test_explain_takes_tql_and_parenthesised_queries() -> None:
    explain = _one('EXPLAIN TQL EVAL (0, 1, \'1s\') m{a="\\";"}; ')
    assert isinstance(explain, s.Explain)
    assert isinstance(explain.statement, s.Tql)
    assert explain.statement.promql.text == 'm{a="\\";"}'
    assert _one("EXPLAIN (SELECT 1)") == s.Explain(s.Query(Slice("(SELECT 1)", 8)))
    assert _one("DESCRIBE SELECT 1") == s.Explain(s.Query(Slice("SELECT 1", 9)))


@pytest.mark.parametrize("dialect", Dialect)
def test_tql_keeps_promql_as_it_is_written(dialect: Dialect) -> None:
    body = """sum by (a) (rate(m{x=~"it's;\\"", y!='"', z=`;`}[5m] offset 1m)) # done; really\n > 1"""
    text = f"tql evaluate(0, f(1, 2), '5s', 60)\n {body} AS Total ; SELECT 1"
    first, second = parse(text, dialect)
    assert isinstance(first.statement, s.Tql)
    assert first.statement.verb == "eval"
    assert [each.text for each in first.statement.parameters] == ["0", "f(1, 2)", "'5s'", "60"]
    assert first.statement.promql == Slice(body, text.index("sum"))
    assert first.statement.alias == "total"
    assert isinstance(second.statement, s.Query)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TQL EXPLAIN m", ("explain", ["0", "0", "'5m'"], "m", None, False, None)),
        ("TQL EXPLAIN VERBOSE FORMAT JSON (0,1,'1s') m", ("explain", ["0", "1", "'1s'"], "m", None, True, "json")),
        ("TQL ANALYZE (0,1,'1s') m as \"X y\"", ("analyze", ["0", "1", "'1s'"], "m", "X y", False, None)),
        ("TQL ANALYZE VERBOSE (0,1,'1s') -m{}", ("analyze", ["0", "1", "'1s'"], "-m{}", None, True, None)),
        ("TQL EVAL (0,1,'1s') m{a=\"b as c\"}", ("eval", ["0", "1", "'1s'"], 'm{a="b as c"}', None, False, None)),
        ("TQL EVAL (0,1,'1s') 'x as y'", ("eval", ["0", "1", "'1s'"], "'x as y'", None, False, None)),
    ],
)
def test_tql_forms(text: str, expected: tuple[object, ...]) -> None:
    tql = _one(text)
    assert isinstance(tql, s.Tql)
    parameters = [each.text for each in tql.parameters]
    assert (tql.verb, parameters, tql.promql.text, tql.alias, tql.is_verbose, tql.format) == expected


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("INSERT INTO t SELECT 1, 2", s.Insert(T, query=Slice("SELECT 1, 2", 14))),
        ('REPLACE INTO TABLE t (A, "B") (SELECT 1)', s.Insert(T, ("a", "B"), query=Slice("(SELECT 1)", 30))),
        ("INSERT INTO t (SELECT 1)", s.Insert(T, query=Slice("(SELECT 1)", 14))),
        (
            "INSERT INTO t WITH x AS (VALUES (1)) TABLE x",
            s.Insert(T, query=Slice("WITH x AS (VALUES (1)) TABLE x", 14)),
        ),
        ("INSERT INTO t (a) VALUES (1), (2)", s.Insert(T, ("a",), s.Values(([1, 2],), 2))),
        ("INSERT INTO d.t(a,b)VALUES(1,'x')", s.Insert(Name(("d", "t")), ("a", "b"), s.Values(([1], ["x"]), 1))),
    ],
)
def test_insert(text: str, statement: Statement) -> None:
    assert _one(text) == statement


@pytest.mark.parametrize("dialect", [MYSQL, POSTGRESQL])
@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ("BEGIN", "begin"),
        ("BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY", "begin"),
        ("START TRANSACTION WITH CONSISTENT SNAPSHOT", "start"),
        ("COMMIT AND NO CHAIN", "commit"),
        ("ROLLBACK TO SAVEPOINT x", "rollback"),
        ("ROLLBACK TO x", "rollback"),
        ("SAVEPOINT x", "savepoint"),
        ("LOCK TABLES a READ, b WRITE", "lock"),
        ("UNLOCK TABLES", "unlock"),
        ("END", "end"),
    ],
)
def test_transactions_are_heard_where_clients_send_them(text: str, verb: str, dialect: Dialect) -> None:
    assert _one(text, dialect) == s.Transaction(verb)


UNSUPPORTED, SYNTAX, ARGUMENTS = Status.UNSUPPORTED, Status.INVALID_SYNTAX, Status.INVALID_ARGUMENTS


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("SELEC 42", UNSUPPORTED),
        ("UPDATE t SET a = 1 FROM u", UNSUPPORTED),
        ("MERGE INTO t", UNSUPPORTED),
        ("GRANT ALL", SYNTAX),
        ("42", UNSUPPORTED),
        ("'x'", SYNTAX),
        ("+", SYNTAX),
        ("BEGIN", UNSUPPORTED),
        ("USE a b", UNSUPPORTED),
        ("USE other.a", SYNTAX),
        ("USE", SYNTAX),
        ("DROP TABLE a b", UNSUPPORTED),
        ("DROP TABLE a CASCADE", UNSUPPORTED),
        ("DROP INDEX a", UNSUPPORTED),
        ("DROP TABLE", SYNTAX),
        ("DROP", SYNTAX),
        ("ALTER TABLE t", SYNTAX),
        ("ALTER TABLE t ADD c INTERVAL", UNSUPPORTED),
        ("ALTER TABLE t MODIFY COLUMN c INTERVAL", UNSUPPORTED),
        ("ALTER TABLE t ADD c TIMESTAMP TIME INDEX", ARGUMENTS),
        ("ALTER TABLE t SPLIT PARTITION (a < 1)", UNSUPPORTED),
        ("ALTER TABLE t MERGE PARTITION (a)", UNSUPPORTED),
        ("ALTER TABLE t REPARTITION (a) INTO (b)", UNSUPPORTED),
        ("ALTER TABLE t PARTITION ON COLUMNS (a) ()", UNSUPPORTED),
        ("ALTER TABLE t ADD c INT, DROP COLUMN d", UNSUPPORTED),
        ("ALTER TABLE t DROP COLUMN c, DROP COLUMN d", UNSUPPORTED),
        ("ALTER TABLE t DROP COLUMN c oops", UNSUPPORTED),
        ("ALTER TABLE t DROP COLUMN c WITH (a = 1)", ARGUMENTS),
        ("ALTER TABLE t SET ttl", SYNTAX),
        ("ALTER TABLE t MODIFY COLUMN c SET INVERTED INDEX WITH (a = 1)", ARGUMENTS),
        ("ALTER TABLE t MODIFY COLUMN c SET FULLTEXT INDEX WITH (backend = 'x')", Status.UNEXPECTED),
        ("ALTER USER u", SYNTAX),
        ("ALTER DATABASE d", SYNTAX),
        ("TRUNCATE t FILE RANGE (1)", SYNTAX),
        ("TRUNCATE t FILE RANGE (1, 2", SYNTAX),
        ("DELETE t", SYNTAX),
        ("DELETE FROM t LIMIT 1", UNSUPPORTED),
        ("DELETE FROM t WHERE a = 1 LIMIT 1", UNSUPPORTED),
        ("DELETE FROM t USING u", UNSUPPORTED),
        ("DELETE FROM t WHERE", SYNTAX),
        ("DELETE FROM t WHERE a)", UNSUPPORTED),
        ("DELETE FROM t WHERE (a", SYNTAX),
        ("COPY t (a) TO 'x'", UNSUPPORTED),
        ("COPY t TO 'x' LIMIT 1", SYNTAX),
        ("COPY DATABASE d FROM 'x' LIMIT 1", SYNTAX),
        ("COPY t TO x", SYNTAX),
        ("COPY (DROP TABLE t) TO 'x'", SYNTAX),
        ("COPY (SELECT 1) FROM 'x'", SYNTAX),
        ("SHOW", SYNTAX),
        ("SHOW INDEX", SYNTAX),
        ("SHOW COLUMNS", SYNTAX),
        ("SHOW INDEX FROM t LIKE 'x'", UNSUPPORTED),
        ("SHOW CREATE USER x", UNSUPPORTED),
        ("SHOW GRANTS FOR", SYNTAX),
        ("SHOW TABLES LIKE 1", SYNTAX),
        ("SHOW TABLES WHERE", SYNTAX),
        ("SET", SYNTAX),
        ("SET a", SYNTAX),
        ("SET a =", SYNTAX),
        ("ADMIN f", SYNTAX),
        ("ADMIN f(now())", ARGUMENTS),
        ("ADMIN f(1", SYNTAX),
        ("KILL", SYNTAX),
        ("PREPARE p", SYNTAX),
        ("EXPLAIN", SYNTAX),
        ("EXPLAIN DROP TABLE t", UNSUPPORTED),
        ("EXPLAIN EXPLAIN SELECT 1", UNSUPPORTED),
        ("TQL EVAL m", SYNTAX),
        ("TQL EVAL (0, 1) m", SYNTAX),
        ("TQL EVAL (0, 1, '5s')", SYNTAX),
        ("TQL EVAL (0, 1, '5s'", SYNTAX),
        ("TQL EVAL (0, 1, '5s') m{a=\"b}", SYNTAX),
        ("TQL", SYNTAX),
        ("TQL HELLO", SYNTAX),
        ("INSERT t VALUES (1)", UNSUPPORTED),
        ("INSERT INTO t", SYNTAX),
        ("INSERT INTO t (a) DROP TABLE x", SYNTAX),
        ("INSERT IGNORE INTO t VALUES (1)", UNSUPPORTED),
        ("INSERT INTO t DEFAULT VALUES", UNSUPPORTED),
        ("COMMENT ON COLUMN c IS 'x'", SYNTAX),
        ("COMMENT ON VIEW c IS 'x'", SYNTAX),
        ("DECLARE c CURSOR FOR DROP TABLE t", SYNTAX),
    ],
)
def test_what_cannot_be_parsed_has_its_code(text: str, status: Status) -> None:
    with pytest.raises(TsdbError) as caught:
        parse(text)
    assert caught.value.status == status, str(caught.value)
    with pytest.raises(TsdbError) as caught:
        parse(f"{text} ;")
    assert caught.value.status == status, str(caught.value)


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("RESET ALL", s.Reset("reset")),
        ("RESET TIME ZONE", s.Reset("reset", "time_zone")),
        ("RESET timezone", s.Reset("reset", "time_zone")),
        ("RESET My.Setting", s.Reset("reset", "my.setting")),
        ("DISCARD ALL", s.Reset("discard")),
        ("DISCARD PLANS", s.Reset("discard", "plans")),
        ("UNLISTEN *", s.Reset("unlisten")),
        ("UNLISTEN c", s.Reset("unlisten", "c")),
    ],
)
def test_what_pools_of_postgresql_send_is_read_in_its_dialect_only(text: str, statement: Statement) -> None:
    assert [each.statement for each in parse(text, Dialect.POSTGRESQL)] == [statement]
    with pytest.raises(Unsupported):
        parse(text, Dialect.GENERIC)

"""Full-text indexes as statements use them: answers as without, and EXPLAIN ANALYZE tells what they excluded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.database.test_indexes import ask, open_database, run
from tests.storage import store_of
from tsdb.components._local import LocalDatabase

EXCLUDED = re.compile(r"full-text indexes excluded (\d+) rows")
ROWS = 12_000
COLUMNS = "host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, code BIGINT"
OPTIONS = "WITH (granularity = 1000, false_positive_rate = 0.001)"


def identifier(number: int) -> str:
    return f"{number * 2_654_435_761 % 2**32:08x}{number * 40_503 % 2**32:08x}"


def insert_lines(local: LocalDatabase, table: str, rows: int = ROWS) -> None:
    rare = {7000: " Quagga!", 9000: " quagga-like", 11_000: "磁盘已满"}
    lines = [f"Request {identifier(at)} took {at % 977} ms{rare.get(at, '')}" for at in range(rows)]
    values = ", ".join(f"('h{at % 2}', {at}, {at % 10}, '{line}')" for at, line in enumerate(lines))
    run(local, f"INSERT INTO {table} VALUES {values}, ('h0', {rows}, 0, NULL), ('h0', {rows + 1}, 0, '')")
    run(local, f"ADMIN flush_table('{table}')")


def excluded_rows(local: LocalDatabase, text: str) -> int:
    told = " ".join(str(value) for row in ask(local, f"EXPLAIN ANALYZE {text}") for value in row.values())
    found = EXCLUDED.search(told)
    return 0 if found is None else int(found[1])


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDatabase]:
    """The same lines in a table with an index and in one without."""
    local = open_database(tmp_path_factory.mktemp("fulltext"), on_query=True)
    run(
        local,
        f"CREATE TABLE a ({COLUMNS}, msg STRING FULLTEXT INDEX {OPTIONS})",
        f"CREATE TABLE b ({COLUMNS}, msg STRING)",
    )
    for table in ("a", "b"):
        insert_lines(local, table)
    yield local
    local.close()


ONE = identifier(7777)
CONDITIONS: dict[str, tuple[str, bool]] = {
    "term": (f"matches_term(msg, '{ONE}')", True),
    "operator": (f"msg @@ '{ONE}'", True),
    "qualified": (f"t.msg @@ '{ONE}'", True),
    "case of functions": ("MATCHES_TERM(msg, 'Quagga')", True),
    "other case": ("matches_term(msg, 'QUAGGA')", True),
    "part of a word": ("matches(msg, 'uagg')", True),
    "phrase": (f"""matches(msg, '"Request {ONE} took"')""", True),
    "minus": ("matches(msg, 'Quagga -quagga')", True),
    "only minus": ("matches(msg, '-Request')", False),
    "all of": ("matches(msg, 'Request AND quagga')", True),
    "one of": ("matches(msg, 'quagga OR 磁盘已满')", True),
    "everything": ("matches_term(msg, 'took')", False),
    "empty": ("matches_term(msg, '')", False),
    "beyond ASCII": ("matches_term(msg, '磁盘已满')", True),
    "like": ("msg LIKE '%Quagga_'", True),
    "equal": (f"msg = 'Request {ONE} took {7777 % 977} ms'", True),
    "and": (f"code = 7 AND matches_term(msg, '{ONE}') AND length(msg) > 3", True),
    "between": (f"code BETWEEN 5 AND 8 AND matches_term(msg, '{ONE}')", True),
    "brackets": (f"((matches_term(msg, '{ONE}')) AND (code >= 0))", True),
    "either term": (f"matches_term(msg, '{ONE}') OR msg @@ 'Quagga'", True),
    "either in brackets": (f"(matches_term(msg, '{ONE}') OR (msg LIKE '%Quagga!' AND code = 0)) AND ts > 3", True),
    "or something else": (f"matches_term(msg, '{ONE}') OR code = 3", False),
    "not": (f"NOT matches_term(msg, '{ONE}') AND code = 7", False),
    "in a case": (f"CASE WHEN code = 3 AND matches_term(msg, '{ONE}') THEN false ELSE ts < 5 END", False),
    "compared": (f"matches_term(msg, '{ONE}') = false AND ts < 5", False),
    "another text": (f"matches_term(upper(msg), '{ONE.upper()}')", False),
    "null": ("matches_term(msg, NULL)", False),
    "quotes": ("matches(msg, 'it''s') AND matches(msg, 'bro\\ken')", True),
}


@pytest.mark.parametrize(("condition", "excludes"), CONDITIONS.values(), ids=CONDITIONS.keys())
def test_answers_are_as_without_an_index(local: LocalDatabase, condition: str, excludes: bool) -> None:
    for select in ("SELECT ts, code, msg FROM {} AS t WHERE {} ORDER BY ts", "SELECT count(*) AS n FROM {} t WHERE {}"):
        indexed, plain = (select.format(table, condition) for table in ("a", "b"))
        assert ask(local, indexed) == ask(local, plain)
        assert (excluded_rows(local, indexed) >= ROWS / 2) == excludes
        assert excluded_rows(local, plain) == 0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT x.ts FROM a AS x JOIN b AS y ON x.ts = y.ts WHERE matches_term(x.msg, '{}')",
        "SELECT count(*) AS n FROM a WHERE matches_term(msg, '{}') OR ts IN (SELECT ts FROM a WHERE code = 3)",
        "SELECT count(*) AS n FROM (SELECT * FROM a) AS s WHERE matches_term(msg, '{}')",
        "SELECT count(*) AS n FROM a UNION ALL SELECT count(*) FROM a WHERE matches_term(msg, '{}')",
        "WITH a AS (SELECT '{0}' AS msg) SELECT count(*) AS n FROM a WHERE matches_term(msg, '{0}')",
        "SELECT DISTINCT host FROM a WHERE matches_term(msg, '{}')",
        "SELECT ts, count(*) FILTER (WHERE code = 7) OVER () AS n FROM a WHERE matches_term(msg, '{}')",
        "SELECT ts FROM a WHERE matches_term(msg, '{}') LIMIT 5",
    ],
)
def test_queries_of_other_shapes_have_the_same_answers(local: LocalDatabase, text: str) -> None:
    found = ask(local, text.format(ONE))
    assert found
    assert found == ask(local, re.sub(r"\ba\b(?! AS \()", "b", text.format(ONE)).replace("WITH a", "WITH b"))


def test_a_wrong_query_is_an_error_with_an_index_too(local: LocalDatabase) -> None:
    with pytest.raises(Exception, match="closing bracket"):
        ask(local, "SELECT ts FROM a WHERE matches(msg, '(disk')")


def test_indexes_are_declared_changed_and_used(tmp_path: Path) -> None:
    local = open_database(tmp_path, on_query=True)
    run(local, f"CREATE TABLE c ({COLUMNS}, msg STRING)")
    text = f"SELECT ts FROM c WHERE matches_term(msg, '{identifier(1234)}')"
    insert_lines(local, "c", 3000)
    assert excluded_rows(local, text) == 0
    run(local, f"ALTER TABLE c MODIFY COLUMN msg SET FULLTEXT INDEX {OPTIONS}")
    # A file has the indexes that were declared when it was written; a compaction writes it again.
    assert excluded_rows(local, text) == 0
    run(local, "INSERT INTO c SELECT * FROM c WHERE ts < 100", "ADMIN flush_table('c')", "ADMIN compact_table('c')")
    assert excluded_rows(local, text) >= 2000
    assert len(ask(local, text)) == 1
    local.close()
    # The declaration and the index outlive a restart.
    local = open_database(tmp_path, on_query=True)
    assert excluded_rows(local, text) >= 2000
    run(local, "TRUNCATE c")
    insert_lines(local, "c", 3000)
    assert excluded_rows(local, text) >= 2000
    run(local, "ALTER TABLE c MODIFY COLUMN msg UNSET FULLTEXT INDEX", "TRUNCATE c")
    insert_lines(local, "c", 3000)
    assert excluded_rows(local, text) == 0
    local.close()
    local = open_database(tmp_path, on_query=False)
    assert len(ask(local, text)) == 1
    local.close()


def test_queries_in_workers_use_indexes(tmp_path: Path) -> None:
    local = open_database(tmp_path, on_query=True, workers=1)
    run(local, f"CREATE TABLE c ({COLUMNS}, msg STRING FULLTEXT INDEX {OPTIONS})")
    insert_lines(local, "c", 3000)
    # What can make large values is left to a process that can be ended.
    text = f"SELECT ts, repeat(host, 2) AS h FROM c WHERE matches_term(msg, '{identifier(1234)}')"
    assert [row["h"] for row in ask(local, text)] == ["h0h0"]
    assert excluded_rows(local, text) >= 2000
    workers = local.database.services.queries._planner._workers
    assert workers is not None
    assert len(workers.processes) == 1
    local.close()


def test_rows_that_hide_others_are_read(tmp_path: Path) -> None:
    """What a newer row has replaced must not come back because the newer row does not match."""
    local = open_database(tmp_path, on_query=True)
    run(local, f"CREATE TABLE c ({COLUMNS}, msg STRING FULLTEXT INDEX {OPTIONS})")
    insert_lines(local, "c", 3000)
    run(local, "INSERT INTO c SELECT host, ts, code, 'other' FROM c", "ADMIN flush_table('c')")
    assert ask(local, f"SELECT ts FROM c WHERE matches_term(msg, '{identifier(1234)}')") == []
    assert ask(local, "SELECT count(*) AS n FROM c WHERE matches_term(msg, 'other')") == [{"n": 3002}]
    local.close()


def test_a_damaged_index_costs_speed_only(tmp_path: Path) -> None:
    local = open_database(tmp_path, on_query=True)
    run(local, f"CREATE TABLE c ({COLUMNS}, msg STRING FULLTEXT INDEX {OPTIONS})")
    insert_lines(local, "c", 3000)
    local.close()
    store = store_of(tmp_path)
    indexes = [each.path for each in store.list("") if each.path.endswith(".idx")]
    assert indexes
    for path in indexes:
        content = store.get(path)
        assert content.endswith(b"TSDBIDX1")
        middle = len(content) // 2
        store.put(path, content[:middle] + bytes(100) + content[middle + 100 :])
    local = open_database(tmp_path, on_query=True)
    text = f"SELECT ts FROM c WHERE matches_term(msg, '{identifier(1234)}')"
    assert len(ask(local, text)) == 1
    assert excluded_rows(local, text) == 0
    local.close()


def test_matches_of_tags_prune_series_in_planned_queries(tmp_path: Path) -> None:
    local = open_database(tmp_path, on_query=True)
    run(local, "CREATE TABLE d (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE)")
    rows = ", ".join(f"('web{number:03}', {number}, {number})" for number in range(500))
    run(local, f"INSERT INTO d VALUES {rows}", "ADMIN flush_table('d')")

    def series(condition: str) -> str:
        text = f"EXPLAIN ANALYZE SELECT sqrt(v) AS r FROM d WHERE {condition}"
        told = " ".join(str(value) for row in ask(local, text) for value in row.values())
        found = re.search(r"series=(\d+) of", told)
        assert found is not None
        return found[1]

    for condition, kept in (
        ("host LIKE 'web00%' AND v > 3", "10"),
        ("host ~ '^web01' AND sqrt(v) > 0", "10"),
        ("host NOT LIKE 'web0%' AND sqrt(v) > 0", "400"),
        ("host LIKE 'web00%' OR v > 400", "500"),
    ):
        assert series(condition) == kept
        with_index, without = (
            ask(local, f"SELECT count(*) AS n, sum(sqrt(v)) AS s FROM d WHERE {text}")
            for text in (condition, condition.replace("host", "concat(host, '')"))
        )
        assert with_index == without
    local.close()

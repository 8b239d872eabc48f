"""The texts of DataFusion that the query engine reads: it still writes them.

When an upgrade changes one, the test of its name fails here, and the pattern in `tsdb/query/_datafusion_texts.py` is to
be changed. Rules about the wording of messages are in `tests/query/errors/test_error_messages.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from datafusion import RuntimeEnvBuilder, SessionContext, SQLOptions, udf

from tsdb.query import _datafusion_texts as texts

READ_ONLY = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)


def _context() -> SessionContext:
    context = SessionContext(runtime=RuntimeEnvBuilder().with_fair_spill_pool(1_000_000))
    context.register_record_batches("t", [[pa.record_batch({"a": [1, 2], "s": ["x", "y"], "n": [2**63 - 1] * 2})]])
    context.register_dataset("files", ds.dataset(pa.table({"a": [1, 2]})))
    context.register_udf(udf(_fail, [pa.int64()], pa.int64(), "volatile", "fail"))
    return context


def _fail(_: pa.Array) -> pa.Array:
    raise ValueError("a value that is wrong")


def _error(text: str) -> str:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - a panic is no Exception
        _context().sql_with_options(text, READ_ONLY).collect()
    return " ".join(str(caught.value).split("\n"))


def _groups(pattern: re.Pattern[str], text: str) -> tuple[str | None, ...]:
    match = pattern.search(text)
    assert match is not None, text
    return match.groups()


ERRORS = {
    "PARSER_ERROR": ("SELECT 'a", ("Unterminated string literal at Line: 1, Column: 8",)),
    "RECURSION_LIMIT": (f"SELECT {'(' * 1000}1{')' * 1000}", ()),
    "RUN_AGAIN": (
        "SELECT sum(x.v * y.v) FROM (SELECT value AS v FROM generate_series(1, 5000000) WHERE value % 2 = 0) x,"
        " (SELECT value AS v FROM generate_series(1, 1000) WHERE value % 2 = 0) y WHERE x.v < y.v",
        (),
    ),
    "NO_OPERATOR": ("SELECT 1 ! 2", ()),
    "MISSING_TABLE": ("SELECT * FROM nope", ("datafusion.public.nope",)),
    "NO_FIELD": ("SELECT b FROM t", ("b", "t.a, t.s, t.n")),
    "NO_FUNCTION": ("SELECT foo(1)", ("foo",)),
    "SAME_NAMES": ("SELECT s, a, a FROM t", ("1", "t.a", "2")),
    "COLUMN_AND_ALIAS": ("SELECT s, 1 AS a, a FROM t", ("a",)),
    "FORBIDDEN": ("CREATE TABLE x (a INT)", ()),
    "INTERNAL": ("SELECT regexp_like(s, 'a{1000}{1000}{1000}') FROM t", ()),
    "PYTHON_ERROR": ("SELECT fail(1)", ("ValueError", "'a value that is wrong'")),
    "BRIDGE_FAILURE": ("SELECT a FROM files WHERE NULL AND a > 1", ()),
}


@pytest.mark.parametrize("name", ERRORS)
def test_datafusion_still_words_an_error_as_it_is_read(name: str) -> None:
    text, groups = ERRORS[name]
    assert _groups(getattr(texts, name), _error(text)) == groups


PARTS = {
    "NOT_IMPLEMENTED": "SELECT * FROM t LIMIT (SELECT 1)",
    "UNSUPPORTED_LIMIT": "SELECT * FROM t LIMIT (SELECT 1)",
    "CORRELATED": "SELECT 1 FROM t x JOIN t y ON x.a = (SELECT max(a) FROM t z WHERE z.s = x.s)",
    "COMPUTE_ERROR": "SELECT regexp_like(s, 'a{1000}{1000}{1000}') FROM t",
    "OUT_OF_MEMORY": "SELECT array_agg(v) FROM (SELECT unnest(range(0, 1000000)) AS v)",
    "CAPACITY_OVERFLOW": "SELECT lpad(s, n) FROM t",
    "END_OF_STATEMENT": "SELECT 1 1",
}


@pytest.mark.parametrize("name", PARTS)
def test_datafusion_still_has_a_part_in_its_text(name: str) -> None:
    assert getattr(texts, name) in _error(PARTS[name])


def _parser_message() -> tuple[str | None, ...]:
    (message,) = _groups(texts.PARSER_ERROR, _error("SELECT 1 1"))
    match = texts.PARSER_MESSAGE.fullmatch(message or "")
    assert match is not None
    return match.groups()


def _planned_columns() -> list[tuple[str, str]]:
    plan = _context().sql("SELECT a, s FROM t").logical_plan().display_indent_schema()
    return texts.PLANNED_COLUMN.findall(plan)


def _scan_limit() -> tuple[str | None, ...]:
    plan = _context().sql("SELECT a FROM t LIMIT 3").optimized_logical_plan().display_indent()
    return _groups(re.compile(texts.SCAN_LIMIT.format(table="t")), plan)


def _actual_rows() -> tuple[str | None, ...]:
    rows = _context().sql("EXPLAIN ANALYZE FORMAT PGJSON SELECT a FROM t WHERE a > 1").to_arrow_table()
    return _groups(texts.ACTUAL_ROWS, rows["plan"][0].as_py())


PLANS: dict[str, tuple[Callable[[], object], object]] = {
    "PARSER_MESSAGE": (_parser_message, ("Expected: end of statement, found: 1", "1", "10")),
    "EXPECTED_TOKEN": (
        lambda: _groups(texts.EXPECTED_TOKEN, _parser_message()[0] or ""),
        (texts.END_OF_STATEMENT, "1"),
    ),
    "PLANNED_COLUMN": (lambda: _planned_columns()[:2], [("a", "Int64"), ("s", "Utf8")]),
    "SCAN_LIMIT": (_scan_limit, ("3",)),
    "ACTUAL_ROWS": (_actual_rows, ("1",)),
}


@pytest.mark.parametrize("name", PLANS)
def test_datafusion_still_prints_what_is_read(name: str) -> None:
    read, expected = PLANS[name]
    assert read() == expected


def test_every_text_is_produced_by_a_test() -> None:
    assert {name for name in vars(texts) if name.isupper()} == {*ERRORS, *PARTS, *PLANS}

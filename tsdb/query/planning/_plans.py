"""What DataFusion does: plans a prepared text over a source of tables, and runs the plan.

A query is planned again without handing filters to tables when one of them cannot be handed over, and with more numbers
when it limits `numbers` to more than its usual rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, SessionContext

from tsdb.errors import TsdbError
from tsdb.query._datafusion_texts import COLUMN_AND_ALIAS, SAME_NAMES, SCAN_LIMIT
from tsdb.query.errors import execution_error, is_bridge_failure, is_panic, located, planning_error
from tsdb.query.functions import functions_named
from tsdb.query.lifetime import QueryLife
from tsdb.query.planning._context import READ_ONLY, Contexts, coerced_frame
from tsdb.query.planning._job import Job, PlannedQuery
from tsdb.query.planning._records import result_schema
from tsdb.query.session import Session
from tsdb.query.tables import NUMBERS, NUMBERS_ROWS, NUMBERS_ROWS_MAX, SERIES_FUNCTIONS, TableLookup, series_functions
from tsdb.sql.expansion import calls_depth
from tsdb.sql.rewrite import header_of, name_of_same, rename_alias, rename_item
from tsdb.sql.statements import Dialect

_NUMBERS_LIMIT = re.compile(SCAN_LIMIT.format(table=NUMBERS))

# Functions that the text does not name need not be registered: 136 of them took 0.2 ms.
_WORD = re.compile(r"[a-z_]\w*")

_JOIN_WORDS = frozenset({"join", "exists", "in", "lateral"})
CALLS_DEPTH_MAX = 8
"""How deep calls may be in calls for a text to be parsed in PostgreSQL's dialect."""
_COERCED = re.compile(r"\b(?:UNION|INTERSECT|EXCEPT|RECURSIVE|CASE)\b", re.IGNORECASE)
SAME_NAMES_MAX = 100
"""How many result columns may have a name that another one has."""

ServerFunctions = Callable[[Session, set[str]], list[Any]]


class Plans:
    """Has DataFusion plan and run queries."""

    def __init__(self, contexts: Contexts, server_functions: ServerFunctions, *, can_be_ended: bool = False) -> None:
        """`server_functions` returns, of some names, the functions that run in the server process.

        Where a query can be ended at any time, it gets the numbers of a series in large batches.
        """
        self._contexts = contexts
        self._can_be_ended = can_be_ended
        self._server_functions = server_functions

    def start(self, job: Job, source: TableLookup, life: QueryLife) -> tuple[PlannedQuery, Any]:
        """Plan a query and let it run; returns the plan and the stream of its batches."""
        planned = self._plan_numbers(job, source, life)
        try:
            try:
                return planned, planned.frame.execute_stream()
            except Exception as error:
                if not is_bridge_failure(error):
                    raise
                planned = self.plan(job, source, life, has_filters=False)
                return planned, planned.frame.execute_stream()
        except BaseException as error:
            raise _translated(error, life, execution_error) from error

    def plan(self, job: Job, source: TableLookup, life: QueryLife, *, has_filters: bool = True) -> PlannedQuery:
        """Have DataFusion plan a query."""
        try:
            context = self._context(job, source, life, has_filters=has_filters)
            frame = _plan_text(context, job)
            coerced = frame
            if _COERCED.search(job.text) is not None and not job.is_explained:
                coerced = coerced_frame(context, frame)
            schema = coerced.schema()
        except BaseException as error:
            raise _translated(error, life, planning_error) from error
        return PlannedQuery(frame, life, _with_headers(result_schema(schema)), coerced)

    def plan_view(self, job: Job, source: TableLookup, life: QueryLife) -> DataFrame:
        """Plan the query of a view over the tables of the query that names it."""
        try:
            context = self._context(job, source, life)
            frame = context.sql_with_options(job.text, READ_ONLY)
            return frame if _COERCED.search(job.text) is None else coerced_frame(context, frame)
        except BaseException as error:
            raise _translated(error, None, planning_error) from error

    def _context(self, job: Job, source: TableLookup, life: QueryLife, *, has_filters: bool = True) -> SessionContext:
        words = set(_WORD.findall(job.text.lower()))
        functions = functions_named(job.session, words)
        series = [name for name in SERIES_FUNCTIONS if name in words]
        is_joined = not self._can_be_ended and (not words.isdisjoint(_JOIN_WORDS) or "," in job.text)
        functions += series_functions(series, life, is_joined=is_joined)
        functions += self._server_functions(job.session, words)
        return self._contexts.make(
            job.session,
            source,
            functions,
            is_ordered=job.is_ordered,
            is_single=job.is_single,
            dialect=_parser_dialect(job),
            has_filters=has_filters,
        )

    def _plan_numbers(self, job: Job, source: TableLookup, life: QueryLife) -> PlannedQuery:
        """Plan a query; one that takes more of `numbers` than there usually are gets them."""
        planned = self.plan(job, source, life)
        if job.limit is None or job.limit <= NUMBERS_ROWS:
            return planned
        try:
            match = _NUMBERS_LIMIT.search(planned.frame.optimized_logical_plan().display_indent())
        except BaseException as error:
            raise _translated(error, life, execution_error) from error
        if match is None:
            return planned
        source.numbers_rows = min(int(match[1]), NUMBERS_ROWS_MAX)
        return self.plan(job, source, life)


def _parser_dialect(job: Job) -> Dialect:
    """Return the dialect that DataFusion parses a text in.

    In that of PostgreSQL it reads each argument of a call in two ways, so that the time doubles with each nested call:
    16 of them took a second, 20 took 24. Texts that are so deep are read in the generic dialect.
    """
    is_deep = job.session.dialect is Dialect.POSTGRESQL and calls_depth(job.text) > CALLS_DEPTH_MAX
    return Dialect.GENERIC if is_deep else job.session.dialect


def _plan_text(context: SessionContext, job: Job) -> DataFrame:
    """Have a text planned; result columns of the same name get distinct ones, which `_with_headers` undoes."""
    texts: Iterator[str] = iter((job.text,))
    refused: Sequence[str] | None = None
    for _ in range(SAME_NAMES_MAX):
        text = next(texts, None)
        if text is None:
            break
        try:
            return context.sql_with_options(text, READ_ONLY)
        except Exception as error:
            match = SAME_NAMES.search(str(error)) or COLUMN_AND_ALIAS.search(str(error))
            if match is None:
                raise located(error, text, job.written, lambda each: _parse(context, each)) from error
            if match.groups() != refused:
                # That others are refused now shows that the items of those before were found.
                refused, texts = match.groups(), _renamed(text, job.session.dialect, match)
    return context.sql_with_options(job.text, READ_ONLY)


def _renamed(text: str, dialect: Dialect, match: re.Match[str]) -> Iterator[str]:
    """Return texts with other names for the columns that are refused, one of which may be accepted."""
    if match.re is SAME_NAMES:
        return rename_item(text, dialect, int(match[1]), int(match[3]), match[2])
    return rename_alias(text, dialect, match[1])


def _parse(context: SessionContext, text: str) -> object:
    return context.sql_with_options(text, READ_ONLY)


def _with_headers(schema: pa.Schema) -> pa.Schema:
    names: list[str] = []
    for field in schema:
        found = name_of_same(field.name, names)
        names.append(header_of(field.name) if found is None else found)
    return pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])


def _translated(
    error: BaseException, life: QueryLife | None, translate: Callable[[BaseException], TsdbError]
) -> BaseException:
    """Return the error to raise: our own as it was, DataFusion's by its text, an interrupt as it is."""
    if life is not None and isinstance(life.failure, TsdbError):
        return life.failure
    if isinstance(error, Exception) or is_panic(error):
        return translate(error)
    return error

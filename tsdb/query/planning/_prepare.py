"""From the text of a query to text that DataFusion can plan.

A query is checked against the limits, the tables it names are found, and its text is edited: functions of the dialect,
comparisons with times, names of result columns. Some edits need the types of columns that come out of subqueries and
views; planning the text as it is so far (`describe`) gives these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from tsdb.engine import Regions
from tsdb.errors import Busy, Cancelled, DeadlineExceeded, TsdbError
from tsdb.model import (
    CATALOG,
    NS_PER_UNIT,
    ColumnId,
    ColumnInfo,
    DataType,
    Kind,
    Semantic,
    TableInfo,
    ViewInfo,
    type_of_field,
)
from tsdb.query._datafusion_texts import PLANNED_COLUMN
from tsdb.query.errors import OutOfMemory, QueryPanic
from tsdb.query.lifetime import in_thread
from tsdb.query.mysql_variables import mysql_variable
from tsdb.query.planning._dialects import translate_query
from tsdb.query.planning._job import Job, QueryDescription, ViewChain
from tsdb.query.planning._view_sizes import ViewSizes, check_size
from tsdb.query.session import Channel, Session
from tsdb.query.tables import NUMBERS, TableCatalog
from tsdb.sql.aggregate_names import AGGREGATE_NAMES
from tsdb.sql.lexer import Token, tokenize
from tsdb.sql.parser import check_query_limits
from tsdb.sql.rewrite import (
    USER,
    ColumnTypes,
    RewriteRules,
    TableRef,
    TokenLayout,
    find_tables,
    keeps_order,
    limit_of,
    quote_user,
    reads_in_order,
    redefined_names,
    refuse_clauses,
    rewrite,
)
from tsdb.sql.statements import Dialect

_INT64_MAX = 2**63 - 1
_YEAR_NS = 366 * 86_400 * 10**9
_BINNING = frozenset({"DATE_TRUNC", "DATE_BIN"})

# What can make much of one table: series of numbers that are joined with it, recursion.
_ENDLESS_WORDS = frozenset({"JOIN", "RECURSIVE", "UNNEST", "GENERATE_SERIES", "RANGE", "LATERAL", "WITH"})
# What can give a column that is none of a table's.
_DERIVING_WORDS = frozenset({"AS", "WITH", "VALUES", "UNNEST", "GENERATE_SERIES", "RANGE", "UNION", "JOIN"})
_INTEGER_KINDS = frozenset(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64))

_FINAL = (Cancelled, DeadlineExceeded, Busy, OutOfMemory, QueryPanic)
"""Errors of planning that say nothing about the query: what failed once is not tried again."""

Expand = Callable[[str, Session], tuple[str, Mapping[str, pa.Table]]]


class Preparer:
    """Prepares queries over the tables of a catalog."""

    def __init__(self, catalog: TableCatalog, regions: Regions, describe: Callable[[Job], QueryDescription]) -> None:
        self._catalog = catalog
        self._regions = regions
        self._describe = describe
        self.expand: Expand = lambda text, session: (text, {})
        """Takes out of a query what is not SQL; returns the rest and the tables it names instead."""

    def prepare(
        self,
        text: str,
        tokens: list[Token],
        session: Session,
        tables: Mapping[str, pa.Table],
        *,
        prefix: str = "",
        views: ViewChain | None = None,
    ) -> Job:
        """Look at the text of a query and edit it; `prefix` goes before the edited text.

        `views` are those whose own text this is, one in the other.
        """
        check_query_limits(text, tokens)
        chain = views or ViewChain()
        written = prefix + text
        if (
            session.dialect is not Dialect.GENERIC
            and (edited := translate_query(text, tokens, session.dialect)) != text
        ):
            text, tokens = edited, tokenize(edited, session.dialect)
        layout = TokenLayout(text, tokens)
        refuse_clauses(layout)
        named = find_tables(layout, session.dialect)
        if USER in layout.words and self._has_user_column(named, session):
            text = quote_user(layout, session.dialect)
            layout = TokenLayout(text, tokenize(text, session.dialect))
            named = find_tables(layout, session.dialect)
        is_small = self._check_size(layout, named, session, tables)
        rules = RewriteRules(
            dialect=session.dialect,
            columns=self._columns(layout, named, session, tables, chain),
            zone=session.time_zone,
            variable=lambda name: session_variable(session, name),
            is_wide=not _BINNING.isdisjoint(layout.words) and self._is_wide(layout, named, session, tables),
        )
        names_numbers = any(each.name == NUMBERS for each in named)
        job = Job(
            text="",
            session=session,
            tables=tables,
            is_ordered=keeps_order(layout, AGGREGATE_NAMES) or reads_in_order(layout),
            is_single=self._is_single(layout, named, session, tables),
            is_plain=self._is_plain(layout, named, session),
            is_explained=bool(prefix),
            views=chain,
            limit=limit_of(layout) if names_numbers else None,
            is_small=is_small,
            written=written,
            names=tuple((each.parts[-2] if len(each.parts) > 1 else session.database, each.name) for each in named),
        )
        derived = replace(rules, derived=lambda: self._derived_columns(layout, rules, job, named))
        return replace(job, text=prefix + rewrite(layout, derived))

    def _derived_columns(
        self, layout: TokenLayout, rules: RewriteRules, job: Job, named: Sequence[TableRef]
    ) -> ColumnTypes:
        """Return the types of columns that no table of ours has; names that stand for several types are left out."""
        kinds: dict[str, set[DataType | None]] = {}
        for rows in job.tables.values():
            for field in rows.schema:
                kinds.setdefault(field.name, set()).add(type_of_field(field))
        is_of_tables = _DERIVING_WORDS.isdisjoint(layout.words) and len(named) == len(rules.columns.tables)
        if is_of_tables:
            return _certain(kinds)
        try:
            described = self._describe(replace(job, text=rewrite(layout, rules), is_explained=False))
        except _FINAL:
            raise
        except TsdbError:
            return _certain(kinds)
        for name, kind in PLANNED_COLUMN.findall(described.plan):
            found = DataType(Kind(kind)) if kind in _INTEGER_KINDS else None
            kinds.setdefault(name, set()).add(found)
        return _certain(kinds)

    def _is_wide(
        self, layout: TokenLayout, named: Sequence[TableRef], session: Session, tables: Mapping[str, pa.Table]
    ) -> bool:
        """Return whether a table that a query names may have times that nanoseconds do not hold.

        The planner's functions of time compute in nanoseconds. Of the time index it is known which times there are; any
        other column of a coarser unit that is in the text may have some.
        """
        words = {word.lower() for word in layout.words}
        for reference in named:
            is_ours = len(reference.parts) > 1 or reference.name not in tables
            table = self.find_table(reference.parts, session) if is_ours else None
            if table is not None and self._may_be_wide(table, words):
                return True
        return False

    def _may_be_wide(self, table: TableInfo, words: set[str]) -> bool:
        coarse = [each for each in table.columns if each.type.is_timestamp and each.type.arrow.unit != "ns"]
        if any(each is not table.time_index and each.name.lower() in words for each in coarse):
            return True
        if table.engine == "file":
            return False
        unit = NS_PER_UNIT[table.time_index.type.arrow.unit]
        # Of times next to the least one, even of nanoseconds, the start of their year is out of range.
        first, last = (_YEAR_NS - _INT64_MAX) // unit, _INT64_MAX // unit
        spans = [self._regions.time_range(each) for each in table.region_ids]
        return any(span is not None and (span.start < first or span.last > last) for span in spans)

    def _check_size(
        self, layout: TokenLayout, named: Sequence[TableRef], session: Session, tables: Mapping[str, pa.Table]
    ) -> bool:
        """Refuse a query that is too large after expansion; return whether it is a small one."""
        known = {each.parts for each in named if len(each.parts) == 1 and each.name in tables}
        sizes = ViewSizes(lambda parts: None if parts in known else self._view_named(parts, session))
        return check_size(layout, named, session.dialect, sizes)

    def _is_single(
        self, layout: TokenLayout, named: Sequence[TableRef], session: Session, tables: Mapping[str, pa.Table]
    ) -> bool:
        if not named and "FROM" not in layout.words:
            return _ENDLESS_WORDS.isdisjoint(layout.words)
        if len(named) != 1 or (len(named[0].parts) == 1 and named[0].name in tables):
            return False
        if not _ENDLESS_WORDS.isdisjoint(layout.words) or self.find_table(named[0].parts, session) is None:
            return False
        return layout.words.count("FROM") == 1

    def _is_plain(self, layout: TokenLayout, named: Sequence[TableRef], session: Session) -> bool:
        if not _ENDLESS_WORDS.isdisjoint(layout.words) or layout.words.count("FROM") > 1:
            return False
        return not named or (len(named) == 1 and self._find_view(named[0], session) is None)

    def _columns(
        self,
        layout: TokenLayout,
        named: Sequence[TableRef],
        session: Session,
        tables: Mapping[str, pa.Table],
        views: ViewChain,
    ) -> ColumnTypes:
        """Return the types of the columns whose comparisons may need an edit."""
        known: dict[str, dict[str, DataType]] = {}
        for reference in named:
            if len(reference.parts) == 1 and reference.name in tables:
                continue
            table = self.find_table(reference.parts, session)
            if table is not None:
                kinds = {column.name: column.type for column in table.columns}
            elif "WHERE" in layout.words and (view := self._find_view(reference, session)) is not None:
                kinds = self._view_columns(view, session, views)
            else:
                continue
            known[reference.alias or reference.name] = reference.renamed(kinds)
        return ColumnTypes(known, redefined_names(layout, session.dialect) if known else frozenset())

    def _find_view(self, reference: TableRef, session: Session) -> ViewInfo | None:
        return self._view_named(reference.parts, session)

    def _view_named(self, parts: Sequence[str], session: Session) -> ViewInfo | None:
        if len(parts) > 3 or (len(parts) == 3 and parts[0] != CATALOG):
            return None
        database = session.database if len(parts) == 1 else parts[-2]
        if (own := session.views.get((database, parts[-1]))) is not None:
            return own
        return self._catalog.find_view(database, parts[-1]) if may_read(session, database) else None

    def _view_columns(self, view: ViewInfo, session: Session, views: ViewChain) -> dict[str, DataType]:
        """Return the types of a view's columns; none of a view that cannot be planned: the query reports that."""
        if view in views.path:
            return {}
        kinds = views.kinds.get(view)
        if kinds is None:
            kinds = views.kinds[view] = self._plan_view_columns(view, session, views)
        return kinds

    def _plan_view_columns(self, view: ViewInfo, session: Session, views: ViewChain) -> dict[str, DataType]:
        try:
            schema = self._describe(self.prepare_view(view, session, views)).schema
        except _FINAL:
            raise
        except TsdbError:
            return {}
        return {field.name: kind for field in schema if (kind := type_of_field(field)) is not None}

    def prepare_view(self, view: ViewInfo, session: Session, views: ViewChain) -> Job:
        """Look at the query of a view. Its text is in the generic dialect, whatever the dialect of the session."""
        job = views.prepared.get(view)
        if job is None:
            job = views.prepared[view] = self._prepare_view_text(view, session, views)
        return job

    def _prepare_view_text(self, view: ViewInfo, session: Session, views: ViewChain) -> Job:
        own = replace(session, database=view.database, channel=Channel.HTTP)
        text, tables = self.expand(view.query, own)
        if view.columns:
            names = ", ".join(_quoted(name) for name in view.columns)
            text = f"SELECT * FROM ({text}\n) AS {_quoted(view.name)} ({names})"
        return self.prepare(text, tokenize(text, own.dialect), own, tables, views=views.within(view))

    def _has_user_column(self, named: Sequence[TableRef], session: Session) -> bool:
        tables = (self.find_table(reference.parts, session) for reference in named)
        return any(table is not None and any(column.name == "user" for column in table.columns) for table in tables)

    def find_table(self, parts: Sequence[str], session: Session) -> TableInfo | None:
        """Return the table that a name of one to three parts stands for; None for anything else."""
        if len(parts) > 3 or (len(parts) == 3 and parts[0] != CATALOG):
            return None
        database = session.database if len(parts) == 1 else parts[-2]
        if (database, parts[-1]) in session.views:
            return None
        return self._catalog.find_table(database, parts[-1]) if may_read(session, database) else None

    def columns_of_view(self, view: ViewInfo, session: Session) -> tuple[ColumnInfo, ...]:
        """Return the columns of a view; none if it cannot be planned, or that reads descriptions of columns."""
        if session.is_describing:
            return ()
        own = replace(session, is_describing=True)
        kinds = in_thread(lambda: self._view_columns(view, own, ViewChain()))
        return tuple(
            ColumnInfo(ColumnId(number), name, kind, Semantic.FIELD)
            for number, (name, kind) in enumerate(kinds.items())
        )


def session_variable(session: Session, name: str) -> str | int | None:
    """Return the value of a system variable, None if there is none of that name."""
    if name in ("time_zone", "system_time_zone", "timezone"):
        return "UTC" if name == "system_time_zone" else session.time_zone
    if session.channel is not Channel.MYSQL:
        return session.variables.get(name)
    if name == "max_execution_time":
        return 0 if session.timeout is None else int(session.timeout) // 1_000_000
    return mysql_variable(session, name)


def may_read(session: Session, database: str) -> bool:
    """Whether to look into a database for hints. A table that may not be read is refused when it is opened."""
    return session.identity is None or session.identity.may_read(database)


def _certain(kinds: Mapping[str, set[DataType | None]]) -> ColumnTypes:
    known = {name: next(iter(found)) for name, found in kinds.items() if len(found) == 1}
    return ColumnTypes({"": {name: kind for name, kind in known.items() if kind is not None}})


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

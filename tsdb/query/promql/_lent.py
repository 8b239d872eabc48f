"""PromQL queries that another process of this machine evaluates: what is sent there, and what is done there.

The process that has the catalog finds the tables that the selectors name, and takes snapshots of their regions. The
query travels as its text, with the numbers of what was lent; the other process evaluates it over the same series. A
query with a selector that names no table, such as `{job="x"}`, stays where the catalog is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tsdb.engine.lending import Borrower, Lender, LentRegion
from tsdb.engine.reading import RegionReader, no_check
from tsdb.model import DatabaseInfo, MetricView, RegionId, TableInfo
from tsdb.promql import VectorSelector, walk
from tsdb.promql.evaluation import Answer, Limits, SampleBudget
from tsdb.query.lifetime import QueryLife
from tsdb.query.promql._engine import QueryTimes, evaluate_all, parse_again
from tsdb.query.promql._series_index import SeriesIndexes
from tsdb.query.promql._source import TableSeries
from tsdb.query.promql._tables import find_tables, split_matchers
from tsdb.units import Duration

INDEX_BYTES_MAX = 16 << 20
"""What the labels may take that a borrower keeps between queries."""
TABLES_MAX = 1024
"""How many tables are kept to be lent again."""
SAMPLES_MAX = 1_000_000
"""What a query of a borrower may hold; larger ones take longer than it may compute."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class SharedTable:
    """A table as it is sent, once to each borrower."""

    database: str
    """As selectors name it."""
    table: TableInfo


class SharedTables:
    """The tables of queries that were lent: the same objects again, as long as the catalog has the same tables."""

    def __init__(self) -> None:
        self._kept: dict[int, SharedTable] = {}

    def share(self, database: str, table: TableInfo) -> SharedTable:
        found = self._kept.get(table.id)
        if found is None or found.table is not table or found.database != database:
            found = SharedTable(database, table)
            if len(self._kept) >= TABLES_MAX:
                self._kept.clear()
            self._kept[table.id] = found
        return found


class LentPromql(NamedTuple):
    """A query, in the numbers of what its borrower has."""

    text: str
    database: str
    span: QueryTimes
    tables: Sequence[int]
    regions: Sequence[LentRegion]


class LendablePromql:
    """A query whose regions are held here until the other process has evaluated it. To be closed."""

    def __init__(
        self, text: str, database: str, span: QueryTimes, tables: Sequence[SharedTable], readers: Sequence[RegionReader]
    ) -> None:
        self._text = text
        self._database = database
        self._span = span
        self._tables = tables
        self._readers = readers

    def lend(self, lender: Lender) -> LentPromql | None:
        """Return what another process needs; None if it cannot read these regions."""
        regions = []
        for reader in self._readers:
            lent = lender.lend(reader)
            if lent is None:
                return None
            regions.append(lent)
        tables = [lender.number_of(each) for each in self._tables]
        return LentPromql(self._text, self._database, self._span, tables, regions)

    def close(self) -> None:
        for reader in self._readers:
            reader.release()


def make_lendable(text: str, source: TableSeries, span: QueryTimes, shared: SharedTables) -> LendablePromql | None:
    """Find what a query reads, and take snapshots of it; None if only this process can evaluate it."""
    tables: dict[int, SharedTable] = {}
    regions: dict[RegionId, None] = {}
    for node in walk(parse_again(text)):
        if not isinstance(node, VectorSelector):
            continue
        chosen = split_matchers(node.matchers, source.database)
        if not any(matcher.op == "=" for matcher in chosen.names):
            return None
        for table in find_tables(source.catalog, chosen):
            tables[table.id] = shared.share(chosen.database, table)
            regions.update(dict.fromkeys(source.regions_of(table, chosen.labels)))
            physical = None if table.physical_table_id is None else source.catalog.table_by_id(table.physical_table_id)
            if physical is not None:
                tables[physical.id] = shared.share(chosen.database, physical)
    readers: list[RegionReader] = []
    try:
        readers.extend(source.regions.open_reader(region, timeout=source.timeout) for region in regions)
    except BaseException:
        for reader in readers:
            reader.release()
        raise
    return LendablePromql(text, source.database, span, list(tables.values()), readers)


class PromqlBorrower:
    """Evaluates queries over what was lent; keeps the labels of series between them."""

    def __init__(self, borrower: Borrower) -> None:
        self._borrower = borrower
        self._indexes = SeriesIndexes(INDEX_BYTES_MAX)
        self._budget = SampleBudget(SAMPLES_MAX)
        self._limits = Limits(samples_max=SAMPLES_MAX)

    def evaluate(self, lent: LentPromql, life: QueryLife) -> Answer:
        tables: list[SharedTable] = [self._borrower.held(number) for number in lent.tables]
        source = TableSeries(
            _Tables(tables), _Regions(self._borrower, lent.regions), lent.database, life.check, indexes=self._indexes
        )
        return evaluate_all(lent.text, source, lent.span, self._limits, self._budget)


class _Tables:
    """The catalog, as far as a query needs it."""

    def __init__(self, tables: Sequence[SharedTable]) -> None:
        self._by_name = {(each.database, each.table.name): each.table for each in tables}
        self._by_id = {each.table.id: each.table for each in tables}

    def databases(self) -> list[DatabaseInfo]:
        return []

    def find_database(self, name: str) -> DatabaseInfo | None:
        return None

    def tables(self, database: str) -> list[TableInfo]:
        return []

    def find_table(self, database: str, name: str) -> TableInfo | None:
        return self._by_name.get((database, name))

    def table_by_id(self, table_id: int) -> TableInfo | None:
        return self._by_id.get(table_id)


class _Regions:
    """The regions of one query."""

    def __init__(self, borrower: Borrower, lent: Sequence[LentRegion]) -> None:
        self._borrower = borrower
        self._lent = {each.region_id: each for each in lent}

    def open_reader(
        self,
        region_id: RegionId,
        *,
        timeout: Duration | None = None,
        view: MetricView | None = None,
        check: Callable[[], None] = no_check,
    ) -> RegionReader:
        return self._borrower.open(self._lent[region_id], view=view)

"""The reader of a region as a dataset of Arrow, which DataFusion can query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tsdb.engine.reading import RegionReader, ScanRequest
from tsdb.engine.region.reader import LocalReader
from tsdb.engine.scan import SeriesRegisters, Snapshot
from tsdb.model import RegionId


def reader_of(snapshot: Snapshot, *, parallelism: int = 1) -> LocalReader:
    """Read a snapshot as a query does."""
    return LocalReader(RegionId(1), snapshot, SeriesRegisters(), parallelism=parallelism)


class RegionDataset(ds.Dataset):
    """The visible rows that a reader shows."""

    def __init__(self, reader: RegionReader) -> None:
        self.reader = reader
        self.failure: Exception | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.reader.schema.arrow

    @property
    def statistics(self) -> dict[str, int]:
        return dict(self.reader.statistics())

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> Scanner:
        return Scanner(self, columns, lambda: self._plan(filter))

    def get_fragments(self, filter: Any = None) -> Iterator[Fragment]:
        return iter([Fragment(self, filter, share) for share in self._plan(filter)])

    def _plan(self, filter: Any) -> list[tuple[int, int]]:
        planned = self.reader.plan_scan(filter)
        return [(planned.number, share) for share in range(planned.shares)]


class Fragment:
    """One share of a scan."""

    def __init__(self, dataset: RegionDataset, filter: Any, share: tuple[int, int]) -> None:
        self._dataset = dataset
        self._filter = filter
        self._share = share

    @property
    def physical_schema(self) -> pa.Schema:
        return self._dataset.schema

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> Scanner:
        return Scanner(self._dataset, columns, lambda: [self._share])


class Scanner:
    """What DataFusion needs of a scanner."""

    def __init__(self, dataset: RegionDataset, columns: Sequence[str] | None, shares: Any) -> None:
        self._dataset = dataset
        self._columns = dataset.schema.names if columns is None else list(columns)
        self._shares = shares
        self.projected_schema = pa.schema([dataset.schema.field(name) for name in self._columns])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for plan, share in self._shares():
                yield from self._dataset.reader.scan(ScanRequest(plan, share, self._columns))
        except Exception as error:
            self._dataset.failure = self._dataset.failure or error
            raise

"""A region as DataFusion sees it: a dataset of Arrow with one fragment per thread.

DataFusion asks the dataset for its fragments while it plans, with a filter that it will not check again, and each
fragment for a scanner when it runs. Of a scanner it uses the schema and the iterator of batches and nothing else, so
ours is that and no scanner of Arrow's, which would filter the rows a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tsdb.engine.scan._plan import Share, plan_scan
from tsdb.engine.scan._projection import Projection, arrow_schema
from tsdb.engine.scan._snapshot import Snapshot
from tsdb.engine.scan._statistics import ScanStatistics

# What tags are towards DataFusion. Over 3.4 M rows of 4,000 series, the mean of ten fields by host and hour took 405 ms
# of CPU with string, 385 ms with string_view and 580 ms with dictionary<int32, string>. Strings all the same: of a
# condition `host in (…)` with more than three values DataFusion's bridge hands over those on strings only. With the two
# other types it reads every row and checks them itself: the maximum of eight hosts took 48 ms instead of 5.5 ms.
TAG_TYPE = pa.string()


class RegionDataset(ds.Dataset):  # type: ignore[misc]
    """The visible rows of a snapshot, for `SessionContext.register_dataset`. For one query."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        parallelism: int = 1,
        statistics: ScanStatistics | None = None,
        tag_type: pa.DataType = TAG_TYPE,
    ) -> None:
        self.snapshot = snapshot
        self.statistics = statistics or ScanStatistics()
        self.failure: Exception | None = None
        """The first error of a fragment: DataFusion passes on its text only. It refers back to the scan, so whoever
        keeps it should release the snapshot."""
        self._fragment_count = max(1, parallelism)
        self._tag_type = tag_type

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        return arrow_schema(self.snapshot.schema, self._tag_type)

    @property
    def parallelism(self) -> int:
        """How many fragments there are at most."""
        return self._fragment_count

    def project(self, columns: Sequence[str] | None) -> Projection:
        names = self._schema.names if columns is None else columns
        return Projection(self.snapshot.schema, names, self._tag_type)

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> RegionScanner:
        """Return a scanner over everything; DataFusion wants to see its schema."""
        return RegionScanner(self, self.project(columns), lambda: self.share(filter))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[RegionFragment]:
        shares = self.share(filter)
        self.statistics.add(fragments=len(shares))
        return iter([RegionFragment(self, filter, share) for share in shares])

    def share(self, filter: pc.Expression | None) -> list[Share]:
        return plan_scan(self.snapshot, filter, self.statistics).split(self._fragment_count)

    def read(self, share: Share, projection: Projection) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one share and keep the first error."""
        memory_bytes_max = self.snapshot.memory_bytes_max // self._fragment_count
        try:
            yield from share.batches(projection, memory_bytes_max=memory_bytes_max)
        except Exception as error:
            self.failure = self.failure or error
            raise


class RegionFragment:
    """One share of a scan."""

    def __init__(self, dataset: RegionDataset, filter: pc.Expression | None, share: Share) -> None:
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
    ) -> RegionScanner:
        """Return a scanner over this share. The filter must be the one the fragments were made for."""
        if not _is_same(filter, self._filter):
            raise ValueError(f"the fragments were made for the filter {self._filter}, not for {filter}")
        return RegionScanner(self._dataset, self._dataset.project(columns), lambda: [self._share])


class RegionScanner:
    """What DataFusion needs of a scanner."""

    def __init__(self, dataset: RegionDataset, projection: Projection, shares: Callable[[], list[Share]]) -> None:
        self._dataset = dataset
        self._projection = projection
        self._shares = shares

    @property
    def projected_schema(self) -> pa.Schema:
        return self._projection.arrow

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        for share in self._shares():
            yield from self._dataset.read(share, self._projection)


def _is_same(left: pc.Expression | None, right: pc.Expression | None) -> bool:
    if left is None or right is None:
        return left is right
    return left is right or bool(left.equals(right))

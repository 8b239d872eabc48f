"""Series of logical tables, as the region of their physical table has them."""

from __future__ import annotations

import pyarrow as pa

from tsdb.model import RegionSchema, SeriesTable


def make_series(schema: RegionSchema, table_ids: pa.Array, labels: pa.Array) -> SeriesTable:
    """Return series of any number of logical tables, which must be distinct, by their tables and encoded labels."""
    return SeriesTable.of_tags(schema, [table_ids, labels], len(table_ids))

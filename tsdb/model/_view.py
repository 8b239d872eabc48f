"""How a region of the metric engine is shown as a table: a value that a request can carry."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class MetricView:
    """The rows of a logical table in the region of its physical table, or all of them with a tag for each label."""

    table_id: int | None
    """Of the logical table; None for the physical table."""
    tags: tuple[tuple[str, pa.DataType], ...]
    """The tags of the table, in the order of its primary key."""
    fields: tuple[str, ...]
    visible: tuple[int, ...] | None = None
    """Of a physical table, the tables whose rows are shown: dropped tables leave theirs behind. None shows all."""

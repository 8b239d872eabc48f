"""The tags of series as labels."""

from __future__ import annotations

import pyarrow as pa

from tsdb.model import TableInfo
from tsdb.promql.evaluation import LabelColumn, LabelTable
from tsdb.query.promql._tables import NAME_LABEL


def plain(column: pa.Array) -> pa.Array:
    """Return a column without its dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def label_table(tags: pa.RecordBatch, table: TableInfo) -> LabelTable:
    """Return the labels of series of a table, its name among them."""
    columns = {NAME_LABEL: LabelColumn.constant(table.name, tags.num_rows)}
    for tag in table.tags:
        column = tags.column(tag.name)
        if not pa.types.is_string(tag.type.arrow):
            column = plain(column).cast(pa.string())
        columns[tag.name] = LabelColumn.of_arrow(column)
    return LabelTable(tags.num_rows, columns)

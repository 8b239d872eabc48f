"""The tables a query reads: what a user sees, which regions are opened, and how DataFusion gets the rows."""

from tsdb.query.tables._dataset import Handed, TableDataset
from tsdb.query.tables._numbers import (
    NUMBERS,
    NUMBERS_ROWS,
    NUMBERS_ROWS_MAX,
    SERIES_FUNCTIONS,
    numbers_table,
    series_functions,
)
from tsdb.query.tables._partitions import TableRegions, matching_regions
from tsdb.query.tables._providers import (
    INFORMATION_SCHEMA,
    PG_CATALOG,
    LazyCatalog,
    NumbersFound,
    TableCatalog,
    TableLookup,
    TableSource,
    memory_table,
    system_key,
)
from tsdb.query.tables._visible import visible

__all__ = [
    "INFORMATION_SCHEMA",
    "NUMBERS",
    "NUMBERS_ROWS",
    "NUMBERS_ROWS_MAX",
    "PG_CATALOG",
    "SERIES_FUNCTIONS",
    "Handed",
    "LazyCatalog",
    "NumbersFound",
    "TableCatalog",
    "TableDataset",
    "TableLookup",
    "TableRegions",
    "TableSource",
    "matching_regions",
    "memory_table",
    "numbers_table",
    "series_functions",
    "system_key",
    "visible",
]

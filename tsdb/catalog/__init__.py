"""The catalog: which databases, tables and views exist, on a key-value store of metadata.

    reads    ─▶ an immutable snapshot in memory
    changes  ─▶ intent in the store ─▶ regions ─▶ one transaction that publishes ─▶ the next snapshot

`Catalog` is the entry point; `known_regions` lists the regions that the engine opens before there is a catalog.
"""

from tsdb.catalog._catalog import Catalog
from tsdb.catalog._errors import (
    CatalogCorrupted,
    CatalogOutdated,
    DatabaseExists,
    DatabaseNotFound,
    PhysicalTableInUse,
    TableAlreadyExists,
    TableNotFound,
)
from tsdb.catalog._options import effective_options, region_options
from tsdb.catalog._recover import check_metadata, known_regions, region_names

__all__ = [
    "Catalog",
    "CatalogCorrupted",
    "CatalogOutdated",
    "DatabaseExists",
    "DatabaseNotFound",
    "PhysicalTableInUse",
    "TableAlreadyExists",
    "TableNotFound",
    "check_metadata",
    "effective_options",
    "known_regions",
    "region_names",
    "region_options",
]

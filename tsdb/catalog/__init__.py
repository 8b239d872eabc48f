"""The catalog: which databases, tables and views exist, on a key-value store of metadata.

    reads    ─▶ an immutable snapshot in memory
    changes  ─▶ intent in the store ─▶ regions ─▶ one transaction that publishes ─▶ the next snapshot

`Catalog` is the entry point; `known_regions` lists the regions that the engine opens before there is a catalog. In a
cluster the leading metadata server has the `Catalog`, and frontends have a `RemoteCatalog`, which reads a copy of
the metadata and sends its changes (`CatalogChange`) to the leader.
"""

from __future__ import annotations

from typing import TypeAlias

from tsdb.catalog._capture import capture_cluster, find_tables, is_of_a_server, place_tables, schema_versions
from tsdb.catalog._catalog import Catalog
from tsdb.catalog._changes import CHANGE_KINDS, CatalogChange, apply_change
from tsdb.catalog._errors import (
    CatalogCorrupted,
    CatalogOutdated,
    DatabaseExists,
    DatabaseNotFound,
    PhysicalTableInUse,
    TableAlreadyExists,
    TableNotFound,
)
from tsdb.catalog._keys import PLACES, place_key
from tsdb.catalog._options import effective_options, region_options
from tsdb.catalog._places import (
    all_places,
    delete_places,
    directories_of_all,
    openings_of,
    places_of,
    put_places,
    read_places,
)
from tsdb.catalog._reader import CatalogReader
from tsdb.catalog._recover import check_metadata, known_regions, region_names
from tsdb.catalog._remote import ChangeMade, RemoteCatalog
from tsdb.catalog._subset import keep_tables
from tsdb.catalog._writer import CapturedCatalog
from tsdb.catalog.progress import (
    ChangeRecord,
    ProcedureState,
    RunningChange,
    UnfinishedChange,
    forget_old_changes,
    load_changes,
    making,
    read_change,
)

AnyCatalog: TypeAlias = Catalog | RemoteCatalog
"""What a database works with: its own catalog, or that of a cluster."""

__all__ = [
    "CHANGE_KINDS",
    "PLACES",
    "AnyCatalog",
    "CapturedCatalog",
    "Catalog",
    "CatalogChange",
    "CatalogCorrupted",
    "CatalogOutdated",
    "CatalogReader",
    "ChangeMade",
    "ChangeRecord",
    "DatabaseExists",
    "DatabaseNotFound",
    "PhysicalTableInUse",
    "ProcedureState",
    "RemoteCatalog",
    "RunningChange",
    "TableAlreadyExists",
    "TableNotFound",
    "UnfinishedChange",
    "all_places",
    "apply_change",
    "capture_cluster",
    "check_metadata",
    "delete_places",
    "directories_of_all",
    "effective_options",
    "find_tables",
    "forget_old_changes",
    "is_of_a_server",
    "keep_tables",
    "known_regions",
    "load_changes",
    "making",
    "openings_of",
    "place_key",
    "place_tables",
    "places_of",
    "put_places",
    "read_change",
    "read_places",
    "region_names",
    "region_options",
    "schema_versions",
]

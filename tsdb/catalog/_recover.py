"""Reading the catalog back from the store, and what must be opened before it can be finished.

`Catalog` finishes at its start what a crash interrupted, and for that it needs the engine. The engine in turn must know
which regions there are. `known_regions` tells it, from the store of metadata alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from tsdb.catalog._codec import decode
from tsdb.catalog._drop import dropped_tables
from tsdb.catalog._intents import load_intents
from tsdb.catalog._keys import DATABASES, TABLES, VIEWS
from tsdb.catalog._regions import directories_of
from tsdb.catalog._snapshot import CatalogSnapshot, Relation
from tsdb.engine import Regions
from tsdb.engine.errors import RegionNotFound
from tsdb.engine.listing import DATA, DROPPING, Listing
from tsdb.errors import StartError
from tsdb.kv import KvStore
from tsdb.model import DatabaseInfo, RegionId, TableInfo, ViewInfo
from tsdb.store import ObjectStore, StoreMisconfigured

LOST_SHOWN_MAX = 10
"""How many directories without a table an error names."""


def load_snapshot(kv: KvStore) -> CatalogSnapshot:
    """Read everything that is published."""
    databases = [decode(key, value, DatabaseInfo.from_json) for key, value in kv.scan(DATABASES)]
    relations: list[Relation] = [decode(key, value, TableInfo.from_json) for key, value in kv.scan(TABLES)]
    relations += [decode(key, value, ViewInfo.from_json) for key, value in kv.scan(VIEWS)]
    return CatalogSnapshot.of(databases, relations)


def known_regions(kv: KvStore, store: ObjectStore) -> dict[RegionId, str]:
    """Return the regions to open, each with its directory.

    These are the regions of all tables, and of those that a crash left half created or half dropped as many as there
    are: the catalog drops them, and one that is not there must not look like one that is lost.
    """
    found: dict[RegionId, str] = {}
    for table in load_snapshot(kv).tables_by_id.values():
        found.update(directories_of(table))
    unfinished = [*(intent.table for intent in load_intents(kv).creates), *dropped_tables(kv)]
    for table in unfinished:
        found.update({region: path for region, path in directories_of(table).items() if _is_there(store, path)})
    return found


def check_metadata(known: Mapping[RegionId, str], store: ObjectStore) -> None:
    """Refuse to start when there are regions that the metadata does not name; StartError.

    Every region is named before it is created and until its last file is deleted: by its table, by the intent to create
    it, by the tombstone of its drop, or by the mark of a drop in its directory. So one that is not named has lost its
    table, as when a file of the metadata was removed or cut short. To go on would hide its rows, and a new table could
    get its number.
    """
    named = set(known.values())
    _refuse_lost([directory for directory in Listing(store, DATA).directories() if directory not in named])


def check_undone(table: TableInfo, regions: Regions) -> None:
    """Refuse to undo the creation of a table that has rows: only a table that was published once can; StartError."""
    _refuse_lost([directory for region, directory in directories_of(table).items() if _has_rows(regions, region)])


def _has_rows(regions: Regions, region: RegionId) -> bool:
    try:
        found = regions.stat(region)
    except RegionNotFound:
        return False
    return found.memtable_rows + found.file_rows > 0


def _refuse_lost(directories: list[str]) -> None:
    if not directories:
        return
    shown = ", ".join(directories[:LOST_SHOWN_MAX]) + (", …" if len(directories) > LOST_SHOWN_MAX else "")
    raise StartError(
        f"the metadata has no tables for {len(directories)} directories with data: {shown}",
        hint="metadata.sqlite or metadata.sqlite-wal was removed, truncated or replaced: restore both from a backup, or"
        " move these directories out of the data directory to start without their rows",
    )


def region_names(kv: KvStore) -> dict[RegionId, str]:
    """Return the tables of all regions as `database.table`, for the log of a start."""
    tables = load_snapshot(kv).tables_by_id.values()
    return {region_id: f"{table.database}.{table.name}" for table in tables for region_id in table.region_ids}


def _is_there(store: ObjectStore, directory: str) -> bool:
    """Whether there is a region that is not marked as dropped; the engine itself removes one that is.

    One in a storage that is not configured any more may be there.
    """
    try:
        paths = [item.path for item in store.list(directory)]
    except StoreMisconfigured:
        return True
    return f"{directory}/{DROPPING}" not in paths and any(path.startswith(f"{directory}/manifest/") for path in paths)

"""The metadata of a cluster as that of a server, and the other way round: what a backup holds, where it is restored.

What is about the cluster itself (nodes, places of regions, moves, the election) is not in a backup: who restores it
has other nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from tsdb.catalog._intents import load_intents
from tsdb.catalog._keys import (
    CATALOG_KEY,
    DATABASES,
    METRICS,
    NAMES,
    PROCEDURES,
    ROUTES,
    TABLE_SEQUENCE,
    TABLES,
    TOMBSTONES,
    VIEWS,
)
from tsdb.catalog._places import put_places, unfinished_and_published
from tsdb.catalog._recover import load_snapshot
from tsdb.catalog._writer import CapturedCatalog, captured_from
from tsdb.kv import KvStore, PutKey
from tsdb.model import RegionId, RegionPlace

RESTORED_EPOCH = 1
"""Of the first owners of restored regions: manifests of backups have none."""
_OF_A_SERVER = (
    CATALOG_KEY,
    DATABASES,
    NAMES,
    TABLES,
    VIEWS,
    ROUTES,
    METRICS,
    TOMBSTONES,
    PROCEDURES,
    TABLE_SEQUENCE,
    "__user/",
    "__auth/",
)
"""What a standalone server has, too."""
_HELD_BY_TABLES = (NAMES, TABLES, VIEWS, ROUTES, METRICS, TOMBSTONES, PROCEDURES, "__table_place/", "__user/")


def capture_cluster(kv: KvStore) -> CapturedCatalog:
    """Return the metadata of a cluster as a standalone server would have it."""
    pairs = [(key, value) for key, value in kv.scan("") if is_of_a_server(key)]
    return captured_from(pairs, load_snapshot(kv))


def is_of_a_server(key: str) -> bool:
    """Whether a key of a cluster is one that a standalone server has, too, and that belongs into a backup."""
    return key.startswith(_OF_A_SERVER)


def schema_versions(kv: KvStore) -> dict[RegionId, frozenset[int]]:
    """Return the schemas that the regions of each table may have: those of a change that is under way, too."""
    found: dict[RegionId, frozenset[int]] = {}
    changing = {intent.old.id: intent.new.schema_version for intent in load_intents(kv).alters}
    for table in load_snapshot(kv).tables_by_id.values():
        versions = frozenset({table.schema_version, changing.get(table.id, table.schema_version)})
        found.update(dict.fromkeys(table.region_ids, versions))
    return found


def find_tables(kv: KvStore) -> str | None:
    """Return a key of a cluster that has tables, views, metrics or users; None if it has none."""
    return next((key for prefix in _HELD_BY_TABLES for key, _ in kv.scan(prefix)), None)


def place_tables(kv: KvStore, nodes: Sequence[int]) -> list[PutKey]:
    """Return what records the places of the regions of all tables, one node after the other."""
    following = cycle(nodes)
    found = []
    for table in sorted(unfinished_and_published(kv).values(), key=lambda each: each.id):
        if table.is_logical:
            continue  # Its rows are in the regions of the physical table.
        places = {number: RegionPlace(next(following), RESTORED_EPOCH) for number in table.region_numbers}
        found.append(put_places(table.id, places))
    return found

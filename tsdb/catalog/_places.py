"""Where the regions of a table are in a cluster: one key for each table.

    __table_place/{table id} = {"regions": {"0": {"node_id": 1, "epoch": 0, "is_moving": false}, …}}

It is written together with the intent to create the table, before any region is made, and removed with the last
tombstone of its drop. So every region that may exist somewhere has a place, and one without a place can be closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tsdb.catalog._codec import decode, encode
from tsdb.catalog._drop import dropped_tables
from tsdb.catalog._intents import load_intents
from tsdb.catalog._keys import PLACES, place_key
from tsdb.catalog._recover import load_snapshot
from tsdb.catalog._regions import directories_of
from tsdb.kv import DeleteKey, KvStore, PutKey
from tsdb.model import RegionId, RegionOpening, RegionPlace, TableInfo, region_id, table_id_of


def put_places(table_id: int, places: Mapping[int, RegionPlace]) -> PutKey:
    """Return what records the places of a table, by the numbers of its regions."""
    regions = {str(number): place.to_json() for number, place in sorted(places.items())}
    return PutKey(place_key(table_id), encode({"regions": regions}))


def delete_places(table_id: int) -> DeleteKey:
    return DeleteKey(place_key(table_id))


def read_places(key: str, value: bytes) -> dict[int, RegionPlace]:
    """Return the places of a table, by the numbers of its regions."""
    return decode(key, value, _places)


def places_of(kv: KvStore, table_id: int) -> dict[int, RegionPlace]:
    """Return the places of a table; none if it has none."""
    key = place_key(table_id)
    found = kv.get(key)
    return {} if found is None else read_places(key, found)


def all_places(kv: KvStore) -> dict[RegionId, RegionPlace]:
    """Return the places of all regions."""
    found: dict[RegionId, RegionPlace] = {}
    for key, value in kv.scan(PLACES):
        table_id = int(key.removeprefix(PLACES))
        found.update({region_id(table_id, number): place for number, place in read_places(key, value).items()})
    return found


def openings_of(kv: KvStore, node_id: int) -> list[RegionOpening]:
    """Return the regions that a node has to open.

    Those of tables that are being created or dropped are among them: the catalog finishes both by what the node says
    of the regions, and one that is not there is no loss. Those that are moving are not: where they are opened is up to
    the procedure that moves them.
    """
    mine = {
        region: place
        for region, place in sorted(all_places(kv).items())
        if place.node_id == node_id and not place.is_moving
    }
    directories = directories_of_all(kv, list(mine))
    return [
        RegionOpening(region, directories[region], place.epoch)
        for region, place in mine.items()
        if region in directories
    ]


def directories_of_all(kv: KvStore, regions: Sequence[RegionId]) -> dict[RegionId, str]:
    """Return where regions live; one whose table is gone is left out."""
    tables = unfinished_and_published(kv)
    found: dict[RegionId, str] = {}
    for table_id in {table_id_of(region) for region in regions} & tables.keys():
        found.update(directories_of(tables[table_id]))
    return {region: found[region] for region in regions if region in found}


def unfinished_and_published(kv: KvStore) -> dict[int, TableInfo]:
    """Return all tables by id, those included that are being created or dropped."""
    unfinished = [*(intent.table for intent in load_intents(kv).creates), *dropped_tables(kv)]
    return {table.id: table for table in unfinished} | dict(load_snapshot(kv).tables_by_id)


def _places(value: Any) -> dict[int, RegionPlace]:
    return {int(number): RegionPlace.from_json(place) for number, place in value["regions"].items()}

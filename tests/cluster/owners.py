"""Who owns the regions of a cluster: what the metadata, the datanodes and the manifests in the bucket say of it."""

from __future__ import annotations

from contextlib import suppress

from tests.cluster.running import Cluster, wait_for
from tests.cluster.writers import Writers, check_rows
from tests.kv.etcd_process import EtcdProcess, connect
from tests.remote.world import FakeRoutes
from tsdb.catalog import all_places, directories_of_all
from tsdb.engine.manifest._recover import read_manifest
from tsdb.errors import TsdbError
from tsdb.meta.client import load_records
from tsdb.model import Peer
from tsdb.remote import RemoteRegions
from tsdb.store import ObjectStore, StoreError

METADATA_PREFIX = "tsdb/"
"""Where metadata servers have their keys."""


def check_all(cluster: Cluster, writers: Writers, etcd: EtcdProcess, bucket: ObjectStore) -> None:
    """Every row that was acknowledged is there once, and every region has one owner."""
    check_rows(cluster, writers)
    check_owners(cluster, etcd, bucket)
    check_rows(cluster, writers)


def check_owners(cluster: Cluster, etcd: EtcdProcess, bucket: ObjectStore) -> None:
    """Each region is open on the node where it is placed, and on no other, and nobody has claimed it beyond that.

    Reading a manifest checks that the epochs of its versions never go back: an older owner has committed nothing since.
    """
    kv = connect(etcd.url, prefix=METADATA_PREFIX)
    try:
        # A move that a leader has left is ended by the next one, which may not have begun it yet.
        wait_for(lambda: not load_records(kv).running)
        wait_for(lambda: regions_on_nodes(cluster) == placed_regions(cluster))
        places = all_places(kv)
        directories = directories_of_all(kv, list(places))
    finally:
        kv.close()
    assert places, "there are regions"
    for region, place in places.items():
        assert not place.is_moving, (region, place)
        assert manifest_epoch(bucket, directories[region]) <= place.epoch, (region, place)


def manifest_epoch(bucket: ObjectStore, directory: str) -> int:
    """The epoch of the newest version of a manifest; moto may fail to list what is being deleted."""
    epochs: list[int] = []

    def read() -> bool:
        with suppress(StoreError):
            epochs.append(read_manifest(bucket, directory).state.epoch)
        return bool(epochs)

    wait_for(read)
    return epochs[0]


def regions_on_nodes(cluster: Cluster) -> dict[int, list[int]]:
    """The regions that each datanode has open; [-1] for one that does not answer."""
    found = {}
    for number, node in cluster.datanodes.items():
        address = node.environment["TSDB_DATANODE__RPC_ADDR"]
        regions = RemoteRegions(FakeRoutes(address))
        try:
            found[number] = sorted(int(each) for each in regions.region_ids(Peer(number, address)))
        except TsdbError:
            found[number] = [-1] if node.is_running else []
        finally:
            regions.close()
    return found


def placed_regions(cluster: Cluster) -> dict[int, list[int]]:
    """The regions that are placed on each datanode."""
    rows = cluster.sql("SELECT peer_id, region_id FROM information_schema.region_peers")
    return {number: sorted(int(region) for node, region in rows if node == number) for number in cluster.datanodes}

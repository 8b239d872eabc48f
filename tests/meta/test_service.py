"""Clients of metadata servers over gRPC: registering, changing, following."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from tests.catalog.worlds import draft, view, with_column
from tests.meta.clusters import PATIENT, datanode, running_cluster, wait_until
from tsdb.catalog import (
    CatalogChange,
    CatalogOutdated,
    RemoteCatalog,
    TableAlreadyExists,
    TableNotFound,
    places_of,
    put_places,
)
from tsdb.catalog._regions import directories_of
from tsdb.error_json import error_from_json, error_to_json
from tsdb.errors import InvalidArguments, Status, TsdbError, Unsupported
from tsdb.kv import Absent, Equals, LeadershipLost, MirrorKv, PutKey
from tsdb.meta.client import MetaClient, MetaClientSettings, MirrorRoutes, NodeReport
from tsdb.meta.client._nodelay import connections_to
from tsdb.meta.errors import ChangePending, MetasrvUnreachable, NodeIdInUse, NodeSuperseded, NoLiveDatanode
from tsdb.model import DatabaseInfo, NodeRole, Peer, RegionId, RegionPlace
from tsdb.units import Duration


def frontend(client: MetaClient) -> tuple[MirrorKv, RemoteCatalog]:
    mirror = MirrorKv(client.watch(), client.transact)
    mirror.start(30)
    return mirror, RemoteCatalog(mirror, client.change)


def test_a_frontend_makes_changes_and_reads_them_at_once(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        client = cluster.client()
        assert client.register(datanode(1)).regions == ()
        mirror, catalog = frontend(client)
        catalog.create_database(DatabaseInfo("d"))
        assert catalog.database("d").created_ms > 0
        table = catalog.create_table(draft("t", "d", rules=("host < 'm'", "host >= 'm'")))
        assert catalog.table("d", "t") is table
        assert sorted(cluster.engine.region_ids()) == sorted(table.region_ids)
        altered = catalog.alter_table(*with_column(table, "extra"))
        assert catalog.table("d", "t") is altered
        with pytest.raises(CatalogOutdated):
            catalog.alter_table(*with_column(table, "again"))
        with pytest.raises(TableAlreadyExists, match=r"tsdb\.d\.t"):
            catalog.create_table(draft("t", "d"))
        with pytest.raises(Unsupported):
            catalog.drop_database("public")
        shown = catalog.create_view(view("v"), replace=False)
        assert catalog.find_view("public", "v") == shown
        catalog.drop_view("public", "v")
        assert catalog.views("public") == []
        catalog.drop_tables([altered])
        with pytest.raises(TableNotFound):
            catalog.table("d", "t")
        assert not cluster.engine.region_ids()
        assert mirror.scan("__table_place/") == []
        mirror.close()


def test_two_frontends_see_the_changes_of_each_other(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        cluster.client().register(datanode(1))
        (one_mirror, one), (two_mirror, two) = frontend(cluster.client()), frontend(cluster.client())
        table = one.create_table(draft("t"))
        wait_until(lambda: two.find_table("public", "t") is not None)
        assert two.create_table(draft("u")).id == table.id + 1
        wait_until(lambda: one.find_table("public", "u") is not None)
        for mirror in (one_mirror, two_mirror):
            mirror.close()


def test_regions_are_placed_on_live_datanodes_and_found_by_their_routes(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        client = cluster.client()
        mirror, catalog = frontend(client)
        for node_id in (1, 2):
            client.register(datanode(node_id))
        table = catalog.create_table(draft("t", rules=("host < 'm'", "host >= 'm'")))
        places = places_of(mirror, table.id)
        assert {place.node_id for place in places.values()} == {1, 2}
        assert set(places.values()) <= {RegionPlace(1), RegionPlace(2)}
        routes = MirrorRoutes(mirror, client)
        assert routes.peers() == [Peer(1, "127.0.0.1:7001"), Peer(2, "127.0.0.1:7002")]
        peers = [routes.peer_of(region) for region in table.region_ids]
        assert peers == [
            Peer(place.node_id, f"127.0.0.1:{7000 + place.node_id}") for _, place in sorted(places.items())
        ]
        openings = client.register(datanode(peers[0].node_id, start_id="first")).regions
        assert [each.region_id for each in openings] == [table.region_ids[0]]
        assert openings[0].directory == directories_of(table)[table.region_ids[0]]
        mirror.close()


def test_a_table_without_a_live_datanode_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with running_cluster(tmp_path, wait_seconds=0.1) as cluster:
        mirror, catalog = frontend(cluster.client())
        with pytest.raises(NoLiveDatanode):
            catalog.create_table(draft("t"))
        assert mirror.scan("__procedure/") == []
        assert mirror.scan("__table_place/") == []
        mirror.close()


def test_a_second_process_with_a_live_node_id_is_refused(tmp_path: Path) -> None:
    with running_cluster(tmp_path, lease=Duration.of_seconds(3600)) as cluster:
        client = cluster.client()
        client.register(datanode(1))
        with pytest.raises(NodeIdInUse, match=r"127\.0\.0\.1:7001"):
            client.register(datanode(1, start_id="second", address="10.0.0.9:3001"))
        client.register(datanode(1))
        client.register(datanode(1, start_id="third"))
        with pytest.raises(NodeSuperseded):
            client.heartbeat(datanode(1), NodeReport(), sent_ns=0)


def test_a_heartbeat_names_regions_that_are_not_placed_on_the_node(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        client = cluster.client()
        assert not client.heartbeat(datanode(1), NodeReport(), sent_ns=0).is_registered
        client.register(datanode(1))
        mirror, catalog = frontend(client)
        table = catalog.create_table(draft("t"))
        report = NodeReport({"load": 1}, [*table.region_ids, RegionId(7 << 32)])
        reply = client.heartbeat(datanode(1), report, sent_ns=5)
        assert (reply.is_registered, reply.close) == (True, (RegionId(7 << 32),))
        assert reply.lease == Duration.of_seconds(10)
        with pytest.raises(InvalidArguments, match="65536 bytes"):
            client.heartbeat(datanode(1), NodeReport({"much": "x" * 70_000}), sent_ns=6)
        (node,) = [each for each in client.nodes()["nodes"] if each["role"] == NodeRole.DATANODE.value]
        assert (node["node_id"], node["is_alive"], node["report"]) == (1, True, {"load": 1})
        mirror.close()


def test_a_heartbeat_that_asks_is_told_which_regions_the_node_lacks(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        client = cluster.client()
        client.register(datanode(1))
        mirror, catalog = frontend(client)
        table = catalog.create_table(draft("t", rules=("host < 'm'", "host >= 'm'")))
        first, *others = table.region_ids
        wait_until(lambda: client.heartbeat(datanode(1), NodeReport(asks_for_missing=True), sent_ns=0).missing)

        def missing(report: NodeReport) -> list[RegionId]:
            return [each.region_id for each in client.heartbeat(datanode(1), report, sent_ns=0).missing]

        assert missing(NodeReport(regions=[first], asks_for_missing=True)) == others
        assert missing(NodeReport(regions=table.region_ids, asks_for_missing=True)) == []
        assert missing(NodeReport()) == []
        for moving in (RegionPlace(1, 2, is_moving=True), RegionPlace(2, 3)):
            places = places_of(cluster.store, table.id)
            cluster.store.transact([], [put_places(table.id, {**places, 0: moving})])
            assert missing(NodeReport(asks_for_missing=True)) == others
        mirror.close()


def test_frontends_change_only_keys_that_are_theirs(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        client = cluster.client()
        mirror, _ = frontend(client)
        assert mirror.transact([Absent("__user/ann")], [PutKey("__user/ann", b"\xff\x00")])
        assert mirror.get("__user/ann") == b"\xff\x00"
        assert not mirror.transact([Equals("__user/ann", b"x")], [PutKey("__user/ann", b"y")])
        with pytest.raises(InvalidArguments, match="only the leader"):
            mirror.transact([], [PutKey("__table_info/1", b"{}")])
        mirror.close()


def test_procedures_are_remembered_with_what_became_of_them(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        client = cluster.client()
        mirror, catalog = frontend(client)
        catalog.create_database(DatabaseInfo("d"))
        with pytest.raises(InvalidArguments):
            catalog.create_database(DatabaseInfo("d"))
        failed, done = client.procedures()
        assert [(each["kind"], each["state"]) for each in (failed, done)] == [
            ("create_database", "Failed"),
            ("create_database", "Done"),
        ]
        assert failed["error"] == "Schema d already exists"
        assert client.procedure(done["id"]) == done
        with pytest.raises(InvalidArguments, match="no procedure"):
            client.procedure("other")
        with pytest.raises(InvalidArguments, match="no command"):
            client.command("other")
        mirror.close()


def test_a_client_finds_the_leader_and_the_next_one(tmp_path: Path) -> None:
    with running_cluster(tmp_path, servers=3) as cluster:
        cluster.leader()
        client = cluster.client()
        client.register(datanode(1))
        mirror, catalog = frontend(client)
        first = catalog.create_table(draft("first"))
        leader = cluster.leader()
        cluster.remove(leader)
        assert cluster.leader() is not leader
        client.register(datanode(1))
        second = catalog.create_table(draft("second"))
        assert second.id > first.id
        assert [table.name for table in catalog.tables("public")] == ["first", "second"]
        mirror.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="connections are found in /proc")
@pytest.mark.parametrize("is_on", [True, False])
def test_tcp_nodelay_is_set_as_configured(is_on: bool, tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        client = cluster.client(replace(PATIENT, tcp_nodelay=is_on))
        client.version()
        port = int(client.leader.rpartition(":")[2])

        def options() -> set[bool]:
            return {bool(each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) for each in connections_to(port)}

        wait_until(lambda: options() == {is_on})


def test_servers_that_cannot_be_reached_are_named() -> None:
    client = MetaClient(["127.0.0.1:1"], MetaClientSettings(timeout=Duration.of_seconds(0.3)))
    with pytest.raises(MetasrvUnreachable, match=r"127\.0\.0\.1:1"):
        client.nodes()
    client.close()


class SilentServer:
    """Accepts connections and says nothing: to a client of gRPC, they are never made."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.accepted = 0
        self.given_up = 0
        """How many connections the client has closed."""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with ExitStack() as stack, suppress(OSError):
            opened: list[socket.socket] = []
            while True:
                ready, _, _ = select.select([self._listener, *opened], [], [])
                for each in ready:
                    if each is self._listener:
                        opened.append(stack.enter_context(each.accept()[0]))
                        self.accepted += 1
                    elif not each.recv(65536):
                        opened.remove(each)
                        self.given_up += 1

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listener.close()


def test_a_connection_may_take_as_long_as_configured() -> None:
    servers, clients = [], []
    for seconds in (0.05, 3600.0):
        servers.append(SilentServer())
        times = replace(PATIENT, connect_timeout=Duration.of_seconds(seconds), timeout=Duration.of_seconds(60))
        clients.append(MetaClient([servers[-1].address], times))
    threads = [threading.Thread(target=_nodes, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    impatient, patient = servers
    wait_until(lambda: patient.accepted > 0)
    wait_until(lambda: impatient.given_up >= 3)
    assert (patient.accepted, patient.given_up) == (1, 0)
    for client in clients:
        client.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    for server in servers:
        server.close()


def _nodes(client: MetaClient) -> None:
    with suppress(TsdbError):
        client.nodes()


def test_maintenance_is_switched_for_the_whole_cluster(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        client = cluster.client()
        assert client.command("maintenance", is_on=True)["is_on"]
        assert cluster.leader().maintenance()["is_on"]
        assert not client.command("maintenance", is_on=False)["is_on"]


def test_a_deposed_leader_changes_nothing_more(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        leading = cluster.leader().leading()
        cluster.remove(cluster.leader())
        assert cluster.regions[0].is_closed
        with pytest.raises(LeadershipLost):
            leading.kv.transact([], [PutKey("__user/ann", b"{}")])
        assert cluster.store.get("__user/ann") is None


def test_a_change_that_takes_longer_than_the_client_waits_goes_on(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        client = cluster.client(replace(PATIENT, ddl_timeout=Duration.of_seconds(0.05)))
        go_on = threading.Event()
        leader = cluster.leader().leading()
        leader.procedures.submit("slow", "wait", "", lambda: go_on.wait(30))
        with pytest.raises(ChangePending) as caught:
            client.change(CatalogChange.from_json({"kind": "create_database", "info": DatabaseInfo("d").to_json()}))
        pending = str(caught.value.fields["procedure"])
        assert client.procedure(pending)["state"] == "Waiting"
        go_on.set()
        wait_until(lambda: client.procedure(pending)["state"] == "Done")
        assert cluster.store.get("__schema_name/tsdb/d") is not None


def test_an_error_arrives_as_the_same_class_or_as_one_of_the_same_status() -> None:
    for error in (
        TableNotFound("public", "cpu", near="cpus"),
        NodeIdInUse("taken", address="a:1", count=3),
        CatalogOutdated("t"),
    ):
        found = error_from_json(orjson.loads(orjson.dumps(error_to_json(error))))
        assert (type(found), str(found), found.status, found.hint) == (
            type(error),
            str(error),
            error.status,
            error.hint,
        )
    unknown = error_from_json({"class": "FromTheFuture", "status": 4009, "message": "m", "fields": {"a": 1}})
    assert (str(unknown), unknown.status) == ("m (a: 1)", Status.REGION_BUSY)

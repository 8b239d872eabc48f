"""Metadata servers as processes: started, asked, killed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

import httpx
import pytest

from tests.catalog.worlds import draft
from tests.kv.etcd_process import EtcdProcess, free_port, running_etcd
from tests.meta.clusters import PATIENT, Reached, datanode, running_engine, wait_until
from tests.server_process import ServerProcess, running, spawn
from tsdb.catalog import RemoteCatalog, places_of
from tsdb.components.metasrv import MetasrvParts
from tsdb.config import Component, MetasrvConfig, load_config
from tsdb.errors import StartError
from tsdb.kv import MirrorKv
from tsdb.meta import NodeSelector
from tsdb.meta._selectors import select_nodes
from tsdb.meta.client import MetaClient, NodeReport
from tsdb.model import DatabaseInfo


@contextmanager
def metasrv(directory: Path, *arguments: str) -> Iterator[tuple[ServerProcess, str]]:
    """Run a server on a free port; return the process and the address of its gRPC."""
    directory.mkdir(exist_ok=True)
    address = f"127.0.0.1:{free_port()}"
    with running("metasrv", directory, "--bind-addr", address, "--server-addr", address, *arguments) as server:
        yield server, address


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as member:
        yield member


def test_a_server_with_its_metadata_in_memory_serves_and_warns(tmp_path: Path) -> None:
    with metasrv(tmp_path, "--use-memory-store") as (server, address):
        wait_until(lambda: server.get("/admin/leader").text == f"{address}\n")
        assert server.get("/admin/health").text == "OK\n"
        assert server.get("/ready").status_code == 200
        assert "warning: the metadata is kept in memory and lost when the process ends" in server.output
        client = MetaClient([address], PATIENT)
        client.register(datanode(1))
        (lease,) = server.get("/admin/node-lease").json()
        assert (lease["node_id"], lease["address"], lease["is_alive"]) == (1, "127.0.0.1:7001", True)
        client.heartbeat(datanode(1), NodeReport({"load": 3}), sent_ns=0)
        assert server.get("/admin/heartbeat?addr=127.0.0.1:7001").json()[0]["report"] == {"load": 3}
        assert server.get("/admin/heartbeat?addr=elsewhere:1").json() == []
        assert server.get("/admin/maintenance/status").json() == {"is_on": False}
        assert httpx.post(f"{server.url}/admin/maintenance/enable", timeout=30).json()["is_on"]
        assert server.get("/admin/maintenance").json()["is_on"]
        assert httpx.post(f"{server.url}/admin/maintenance/disable", timeout=30).json() == {"is_on": False}
        assert server.get("/admin/maintenance/enable").status_code == 405
        assert server.get("/admin/procedures").json() == []
        assert server.get("/admin/procedures?id=x").status_code == 400
        client.close()
        (tmp_path / "second").mkdir()
        home = {"TSDB_METASRV__DATA_HOME": str(tmp_path / "data")}
        second = spawn("metasrv", tmp_path / "second", "--use-memory-store", environment=home)
        assert second.process.wait(timeout=60) == 1
        assert "data_home" in second.output, "a directory belongs to one process"
        assert server.stop() == 0
    assert "Traceback" not in server.output


def test_a_server_without_etcd_says_where_it_looked() -> None:
    config = load_config(Component.METASRV, environment={"TSDB_METASRV__STORE_ADDR": "127.0.0.1:1"}).config
    assert isinstance(config, MetasrvConfig)
    parts = MetasrvParts(config)
    with pytest.raises(StartError, match=r"the metadata cannot be read from etcd at 127\.0\.0\.1:1"):
        parts.open()
    parts.close()


@pytest.mark.parametrize("selector", NodeSelector)
def test_the_selector_that_is_configured_places_tables(
    selector: NodeSelector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed, address = 7, f"127.0.0.1:{free_port()}"
    monkeypatch.setattr("tsdb.meta._leader.Random", lambda _: Random(seed))
    options = {"selector": str(selector), "bind_addr": address, "server_addr": address, "use_memory_store": "true"}
    config = load_config(Component.METASRV, options=options, environment={}).config
    assert isinstance(config, MetasrvConfig)
    with running_engine(tmp_path) as engine, ExitStack() as stack:
        monkeypatch.setattr("tsdb.components.metasrv.RemoteRegions", lambda routes: Reached(engine, routes))
        parts = MetasrvParts(config)
        (service,) = parts.services()
        service.probe()
        parts.open()
        stack.callback(parts.close)
        asyncio.run(service.start())
        stack.callback(lambda: asyncio.run(service.stop(0)))
        client = MetaClient([address], PATIENT)
        stack.callback(client.close)
        for node_id in (1, 2, 3):
            client.register(datanode(node_id))
        mirror = MirrorKv(client.watch(), client.transact)
        mirror.start(60)
        stack.callback(mirror.close)
        catalog = RemoteCatalog(mirror, client.change)
        found = [
            place.node_id
            for number in range(12)
            for place in places_of(mirror, catalog.create_table(draft(f"t{number}")).id).values()
        ]
    loads, random = {1: 0, 2: 0, 3: 0}, Random(seed)
    expected = []
    for _ in range(12):
        expected += select_nodes(selector, loads, 1, random)
        loads[expected[-1]] += 1
    assert found == expected


def test_when_the_leader_is_killed_another_server_goes_on(tmp_path: Path, etcd: EtcdProcess) -> None:
    store = f"127.0.0.1:{etcd.client_port}"
    with ExitStack() as stack:
        servers = {}
        for name in ("one", "two"):
            server, address = stack.enter_context(metasrv(tmp_path / name, "--store-addrs", store))
            servers[address] = server
        client = MetaClient(list(servers), PATIENT)
        stack.callback(client.close)
        mirror = MirrorKv(client.watch(), client.transact)
        mirror.start(60)
        stack.callback(mirror.close)
        catalog = RemoteCatalog(mirror, client.change)
        catalog.create_database(DatabaseInfo("first"))
        leader = client.nodes()["leader"]
        (other,) = set(servers) - {leader}
        assert servers[other].get("/admin/leader").text == f"{leader}\n"
        assert servers[other].get("/admin/node-lease").status_code == 503
        servers[leader].process.send_signal(signal.SIGKILL)
        wait_until(lambda: servers[other].get("/admin/leader").text == f"{other}\n", 60)
        catalog.create_database(DatabaseInfo("second"))
        assert [info.name for info in catalog.databases()] == ["first", "public", "second", "tsdb_private"]

"""What nodes, tables and frontends cost a metadata server and etcd: the figures that docs/cluster.md computes with.

A metadata server and etcd are processes of their own. CPU is that of the metadata server; the nodes are this process,
which sends what they would send. Bytes and requests are printed, because they are no measurements of time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx

from benchmarks import Measurement
from benchmarks.cluster.overhead import cpu_seconds
from tests.catalog.worlds import draft
from tests.kv.etcd_process import EtcdProcess, free_port
from tests.meta.clusters import PATIENT
from tests.server_process import ServerProcess, running
from tsdb.catalog import RemoteCatalog
from tsdb.kv import MirrorKv
from tsdb.kv.etcd import EtcdKv, EtcdSettings
from tsdb.meta import NodeDescription
from tsdb.meta.client import MetaClient
from tsdb.model import NodeRole, RegionId

NODES, TABLES, FOLLOWERS = 500, 100, 50
BEATS = 2000
REST_SECONDS = 20
REPORT = {
    "total_cpu_millicores": 2000,
    "total_memory_bytes": 8 << 30,
    "cpu_usage_millicores": 700,
    "memory_usage_bytes": 2 << 30,
    "is_storage_reachable": True,
    "log_lag_seconds": 0.1,
    "log_unshipped_bytes": 123_456,
}


def main() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        etcd = EtcdProcess(directory)
        stack.callback(etcd.kill)
        etcd.start()
        etcd.wait_ready()
        address = f"127.0.0.1:{free_port()}"
        variables = {"STORE_ADDR": etcd.url, "BIND_ADDR": address, "SERVER_ADDR": address}
        environment = {f"TSDB_METASRV__{name}": value for name, value in variables.items()}
        server = stack.enter_context(running("metasrv", _made(directory / "metasrv"), environment=environment))
        store = EtcdKv(EtcdSettings.of(etcd.url))
        stack.callback(store.close)
        client = MetaClient([address], PATIENT)
        stack.callback(client.close)
        regions = create_tables(directory, address, client, server, store)
        yield from rest(server)
        yield from heartbeats(client, server, regions)
        yield from followers(address, server)


def create_tables(
    directory: Path, address: str, client: MetaClient, server: ServerProcess, store: EtcdKv
) -> list[RegionId]:
    """Create tables on one datanode, which then leaves; return their regions."""
    variables = {"META_CLIENT__METASRV_ADDRS": address, "RPC_ADDR": f"127.0.0.1:{free_port()}"}
    environment = {f"TSDB_DATANODE__{name}": value for name, value in variables.items()}
    mirror = MirrorKv(client.watch(), client.transact)
    with running("datanode", _made(directory / "datanode"), environment=environment):
        mirror.start(60)
        catalog = RemoteCatalog(mirror, client.change)
        catalog.create_table(draft("first"))
        before, requests = stored(store), etcd_requests(server)
        tables = [catalog.create_table(draft(f"table_{number:05}")) for number in range(TABLES)]
        after = stored(store)
        keys, size = (new - old for new, old in zip(after, before, strict=True))
        print(f"  etcd: {keys / TABLES:.1f} keys and {size / TABLES:.0f} bytes per table of 3 columns and 1 region")
        print(f"  etcd: {(etcd_requests(server) - requests) / TABLES:.1f} requests per CREATE TABLE")
    mirror.close()
    return [region for table in tables for region in table.region_ids]


def heartbeats(client: MetaClient, server: ServerProcess, regions: list[RegionId]) -> Iterator[Measurement]:
    pid, before = server.process.pid, resident(server)
    nodes = [described(number) for number in range(1, NODES + 1)]
    for node in nodes:
        client.register(node)
        client.heartbeat(node, REPORT, [], sent_ns=0)
    print(f"  metasrv: {(resident(server) - before) / NODES:.0f} bytes of memory per node")
    for what, known, sent in (
        (f"heartbeats of {NODES} nodes without regions", nodes, []),
        (f"heartbeats of a node with {len(regions)} regions", nodes[:1], regions),
    ):
        cpu, requests = cpu_seconds([pid]), etcd_requests(server)
        for number in range(BEATS):
            assert client.heartbeat(known[number % len(known)], REPORT, sent, sent_ns=number).is_registered
        yield Measurement(f"metasrv's CPU of {what}", cpu_seconds([pid]) - cpu, BEATS, "heartbeats")
        print(f"  etcd: {etcd_requests(server) - requests:.0f} requests meanwhile")


def followers(address: str, server: ServerProcess) -> Iterator[Measurement]:
    """Frontends follow the metadata: a watch each, also from the metadata server to etcd."""
    pid, before = server.process.pid, resident(server)
    with ExitStack() as stack:
        for _ in range(FOLLOWERS):
            client = MetaClient([address], PATIENT)
            stack.callback(client.close)
            mirror = MirrorKv(client.watch(), client.transact)
            mirror.start(60)
            stack.callback(mirror.close)
        print(f"  metasrv: {(resident(server) - before) / FOLLOWERS:.0f} bytes of memory per frontend that follows")
        cpu = cpu_seconds([pid])
        time.sleep(REST_SECONDS)
        yield Measurement(
            f"metasrv's CPU of {FOLLOWERS} frontends that follow it",
            cpu_seconds([pid]) - cpu,
            FOLLOWERS * REST_SECONDS,
            "frontends x seconds",
        )


def described(number: int) -> NodeDescription:
    return NodeDescription(
        NodeRole.DATANODE,
        number,
        f"10.0.{number // 250}.{number % 250}:3001",
        f"{number:016x}",
        http=f"10.0.{number // 250}.{number % 250}:4000",
        hostname=f"datanode-{number}.example.com",
        version="0.1.0",
        commit="0123456789abcdef",
        started_ms=1_700_000_000_000,
        log="store",
    )


def rest(server: ServerProcess) -> Iterator[Measurement]:
    """What it costs that nothing happens."""
    cpu, requests = cpu_seconds([server.process.pid]), etcd_requests(server)
    time.sleep(REST_SECONDS)
    print(f"  etcd: {(etcd_requests(server) - requests) / REST_SECONDS:.1f} requests per second at rest")
    spent = cpu_seconds([server.process.pid]) - cpu
    yield Measurement("metasrv's CPU at rest", spent, REST_SECONDS, "seconds")


def etcd_requests(server: ServerProcess) -> float:
    text = httpx.get(f"{server.url}/metrics", timeout=60).text
    lines = [line for line in text.splitlines() if line.startswith("tsdb_etcd_requests_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def stored(store: EtcdKv) -> tuple[int, int]:
    """How many keys of the database are in etcd, and their bytes with those of their values."""
    found = [*store.scan("__")]
    return len(found), sum(len(key) + len(value) for key, value in found)


def resident(server: ServerProcess) -> int:
    fields = Path(f"/proc/{server.process.pid}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory

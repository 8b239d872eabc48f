"""Starting a cluster as an operator would, on loopback: every process can be killed, stopped and started again."""

from __future__ import annotations

import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.kv.etcd_process import EtcdProcess, free_port
from tests.proxy import Proxy, running_proxy
from tests.server_process import ServerProcess, spawn, stop_process
from tests.store.services import BUCKET, S3Server

WAIT_SECONDS_MAX = 180.0
_OTHER_LOOPBACK = "127.0.0.2"


def wait_for(holds: Callable[[], bool]) -> None:
    """Ask until it holds."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, "it does not hold in time"
        time.sleep(0.1)


@dataclass
class Node:
    """One process of the cluster, which may be started again."""

    component: str
    name: str
    directory: Path
    environment: dict[str, str]
    server: ServerProcess | None = None

    def start(self, *, wait: bool = True) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.server = spawn(self.component, self.directory, environment=self.environment)
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        self.running.wait_ready(WAIT_SECONDS_MAX)

    @property
    def running(self) -> ServerProcess:
        assert self.server is not None, f"{self.name} was not started"
        return self.server

    @property
    def is_running(self) -> bool:
        return self.server is not None and self.server.process.poll() is None

    @property
    def url(self) -> str:
        return self.running.url

    def kill(self) -> None:
        """As a power failure would."""
        self.running.process.kill()
        self.running.process.wait()

    def pause(self) -> None:
        stop_process(self.running.process.pid)

    def resume(self) -> None:
        self.running.process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """In good order."""
        self.running.process.send_signal(signal.SIGTERM)
        return self.running.process.wait(timeout=WAIT_SECONDS_MAX)

    def lose_disk(self) -> None:
        """Delete everything that the process had on its disk, once it has ended."""
        assert not self.is_running, f"{self.name} is running"
        shutil.rmtree(self.directory)

    def end(self) -> None:
        if self.is_running:
            self.resume()
            self.kill()


def metric(node: Node, name: str) -> float:
    """The value of a metric without labels; 0 if the process has none."""
    page = httpx.get(f"{node.url}/metrics", timeout=30).text
    found = re.search(rf"^{name} (\S+)$", page, flags=re.MULTILINE)
    return 0.0 if found is None else float(found[1])


@dataclass
class Cluster:
    """The processes, and what is asked of them."""

    metasrvs: list[Node] = field(default_factory=list)
    datanodes: dict[int, Node] = field(default_factory=dict)
    frontends: list[Node] = field(default_factory=list)
    to_metasrv: dict[int, list[Proxy]] = field(default_factory=dict)
    """By datanode, its ways to the metadata servers, if they can be cut."""
    to_datanode: dict[int, Proxy] = field(default_factory=dict)
    """By datanode, the way of everybody else to it."""
    to_store: dict[int, Proxy] = field(default_factory=dict)
    """By datanode, its way to the object store."""

    @property
    def nodes(self) -> list[Node]:
        return [*self.metasrvs, *self.datanodes.values(), *self.frontends]

    @property
    def url(self) -> str:
        return self.frontends[0].url

    def sql(self, statement: str, *, frontend: int = 0, database: str = "public", timeout: float = 60.0) -> Any:
        """Run statements, and return the rows of the last one, or how many it affected."""
        response = httpx.post(
            f"{self.frontends[frontend].url}/v1/sql",
            params={"db": database},
            data={"sql": statement},
            timeout=timeout,
        )
        answer = response.json()
        assert response.status_code == 200, (statement, answer)
        output = answer["output"][-1]
        return output["records"]["rows"] if "records" in output else output["affectedrows"]

    def wait_until(self, statement: str, expected: Any, *, frontend: int = 0) -> None:
        """Ask until the answer is the expected one."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        found: object = None
        while time.monotonic() < deadline:
            try:
                found = self.sql(statement, frontend=frontend)
            except (AssertionError, httpx.HTTPError) as error:
                found = error
            if found == expected:
                return
            time.sleep(0.2)
        raise AssertionError(f"{statement}: {found}, not {expected}")

    def place_of(self, table: str) -> dict[int, int]:
        """The node of each region of a table."""
        rows = self.sql(
            "SELECT region_id, peer_id FROM information_schema.region_peers "
            f"WHERE table_name = '{table}' ORDER BY region_id"
        )
        return {int(region): int(node) for region, node in rows}


@dataclass(frozen=True)
class Shape:
    """How many processes there are, and with which settings."""

    metasrvs: int = 1
    datanodes: int = 3
    frontends: int = 1
    metasrv_environment: Mapping[str, str] = field(default_factory=dict)
    datanode_environment: Mapping[str, str] = field(default_factory=dict)
    frontend_environment: Mapping[str, str] = field(default_factory=dict)
    frontend_ports: Sequence[int] = ()
    """The HTTP ports of the frontends, followed by those of the other protocols; without them, free ones."""
    has_proxies: bool = False
    """Each datanode reaches the metadata servers and the object store by proxies of its own, which can lose things."""
    has_node_proxies: bool = False
    """Others reach each datanode by a proxy, which listens at its port of another loopback address."""


@contextmanager
def running_cluster(
    directory: Path,
    shape: Shape,
    *,
    etcd: EtcdProcess | None = None,
    s3: S3Server | None = None,
    root: str | None = None,
) -> Iterator[Cluster]:
    """Run a cluster; without etcd its metadata is in memory, without S3 each datanode has files of its own.

    `root` is where the files are in the bucket; without it, nowhere that anybody has used.
    """
    ports = [free_port() for _ in range(shape.metasrvs)]
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
    if root is None:
        root = s3.new_root() if s3 is not None else ""
    cluster = Cluster(
        [_metasrv(directory, number, port, shape, etcd) for number, port in enumerate(ports)],
        {number: _datanode(directory, number, addresses, shape, s3, root) for number in range(1, shape.datanodes + 1)},
        [_frontend(directory, number, addresses, shape) for number in range(shape.frontends)],
    )
    with ExitStack() as stack:
        if shape.has_proxies:
            _put_proxies_between(cluster, ports, s3, stack)
        if shape.has_node_proxies:
            for number, node in cluster.datanodes.items():
                port = int(node.environment["TSDB_DATANODE__RPC_ADDR"].rpartition(":")[2])
                cluster.to_datanode[number] = stack.enter_context(running_proxy(port, (_OTHER_LOOPBACK, port)))
                node.environment["TSDB_DATANODE__RPC_HOSTNAME"] = _OTHER_LOOPBACK
        for node in cluster.nodes:
            stack.callback(node.end)
        for nodes in (cluster.metasrvs, list(cluster.datanodes.values()), cluster.frontends):
            for node in nodes:
                node.start(wait=False)
            for node in nodes:
                node.wait_ready()
        yield cluster


def _put_proxies_between(cluster: Cluster, ports: Sequence[int], s3: S3Server | None, stack: ExitStack) -> None:
    """Let each datanode have ways of its own to the metadata servers and the object store.

    A metadata server tells clients where the leader is: that is a proxy, too, so that no way leads around the proxies.
    Clients that do not reach the leader there go back to the addresses of their own.
    """
    shared = [stack.enter_context(running_proxy(port)) for port in ports]
    for node, proxy in zip(cluster.metasrvs, shared, strict=True):
        node.environment["TSDB_METASRV__SERVER_ADDR"] = proxy.address
    for number, node in cluster.datanodes.items():
        links = [stack.enter_context(running_proxy(port)) for port in ports]
        cluster.to_metasrv[number] = [*links, *shared]
        node.environment["TSDB_DATANODE__META_CLIENT__METASRV_ADDRS"] = ",".join(each.address for each in links)
        if s3 is not None:
            store = stack.enter_context(running_proxy(int(s3.endpoint.rpartition(":")[2].rstrip("/"))))
            cluster.to_store[number] = store
            node.environment["TSDB_DATANODE__STORAGE__ENDPOINT"] = store.url


def _metasrv(directory: Path, number: int, port: int, shape: Shape, etcd: EtcdProcess | None) -> Node:
    store = {"USE_MEMORY_STORE": "true"} if etcd is None else {"STORE_ADDR": f"127.0.0.1:{etcd.client_port}"}
    variables = {"BIND_ADDR": f"127.0.0.1:{port}", "SERVER_ADDR": f"127.0.0.1:{port}", **store}
    name = f"metasrv-{number}"
    environment = {**_prefixed("METASRV", variables), **shape.metasrv_environment}
    return Node("metasrv", name, directory / name, environment)


def _datanode(directory: Path, number: int, addresses: str, shape: Shape, s3: S3Server | None, root: str) -> Node:
    name = f"datanode-{number}"
    home = directory / name
    variables = {
        "NODE_ID": str(number),
        "RPC_ADDR": f"127.0.0.1:{free_port()}",
        "META_CLIENT__METASRV_ADDRS": addresses,
    }
    if s3 is not None:
        variables |= {
            "STORAGE__TYPE": "S3",
            "STORAGE__BUCKET": BUCKET,
            "STORAGE__ROOT": root,
            "STORAGE__ENDPOINT": s3.endpoint,
            "STORAGE__REGION": "us-east-1",
            "STORAGE__ACCESS_KEY_ID": "key",
            "STORAGE__SECRET_ACCESS_KEY": "top-secret-key",
            "WAL__DIR": str(home / "wal"),
        }
    environment = {**_prefixed("DATANODE", variables), **shape.datanode_environment}
    return Node("datanode", name, home, environment)


def _frontend(directory: Path, number: int, addresses: str, shape: Shape) -> Node:
    name = f"frontend-{number}"
    variables = {"META_CLIENT__METASRV_ADDRS": addresses}
    if shape.frontend_ports:
        first = shape.frontend_ports[number]
        sections = ("HTTP", "GRPC", "MYSQL", "POSTGRES")
        variables |= {f"{section}__ADDR": f"127.0.0.1:{first + at}" for at, section in enumerate(sections)}
    environment = {**_prefixed("FRONTEND", variables), **shape.frontend_environment}
    return Node("frontend", name, directory / name, environment)


def _prefixed(component: str, variables: Mapping[str, str]) -> dict[str, str]:
    return {f"TSDB_{component}__{name}": value for name, value in variables.items()}

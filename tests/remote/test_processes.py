"""A datanode in a process of its own: killed, stopped by its component, and without a client that answers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.engine.harness import SCHEMA, batch_of
from tests.proxy import running_proxy
from tests.remote.world import DIRECTORY, REGION, FakeRoutes, rows_of
from tsdb.remote import NodeUnavailable, OutcomeUnknown, RemoteRegions, RemoteSettings
from tsdb.units import Duration

SERVE = """
import sys
from pathlib import Path
from tests.engine.harness import open_engine
from tsdb.remote import RegionServer
from tsdb.units import Duration

engine = open_engine(Path(sys.argv[1]))
server = RegionServer(engine, port=int(sys.argv[2]))
server.start()
print(server.address, flush=True)
sys.stdin.read()
is_clean = server.stop(Duration.of_seconds(float(sys.argv[3])))
engine.close(flush=False)
print("clean" if is_clean else "left", flush=True)
"""


@contextmanager
def python(code: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a program; yields it and the first line that it says."""
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        text=True,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def datanode(
    root: Path, *, port: int = 0, grace: float = 10
) -> AbstractContextManager[tuple[subprocess.Popen[str], str]]:
    """Start a datanode; its first line is its address."""
    return python(SERVE, str(root), str(port), str(grace))


def test_a_datanode_is_killed_and_comes_back(tmp_path: Path) -> None:
    batch = batch_of(SCHEMA, [{"host": "a", "ts": at, "a": 1.0} for at in range(100)])
    with datanode(tmp_path) as (process, address):
        regions = RemoteRegions(FakeRoutes(address))
        regions.create_region(REGION, DIRECTORY, SCHEMA)
        assert regions.write(REGION, batch).result(60) == 100
        reader = regions.open_reader(REGION)
        assert reader.plan_scan(None).shares == 1
        process.kill()
        process.wait()
        with pytest.raises(NodeUnavailable):
            reader.bounds(None)
        reader.release()
        with pytest.raises((NodeUnavailable, OutcomeUnknown)):
            regions.write(REGION, batch).result(60)
    with datanode(tmp_path, port=port_of(address)) as (_, address):
        assert len(rows_of(regions, ["a"])) == 100
        assert regions.write(REGION, batch).result(60) == 100
        regions.close()


def test_a_datanode_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    with datanode(tmp_path) as (_, address), running_proxy(port_of(address)) as proxy:
        patient = RemoteSettings(connect_timeout=Duration.of_seconds(20))
        regions = RemoteRegions(FakeRoutes(proxy.address), settings=patient)
        regions.create_region(REGION, DIRECTORY, SCHEMA)
        proxy.freeze()
        reader = regions.open_reader(REGION, timeout=Duration.of_seconds(0.2))
        with pytest.raises(Exception, match="did not answer before the deadline"):
            reader.bounds(None)
        hasty = RemoteSettings(connect_timeout=Duration.of_seconds(0.5))
        other = RemoteRegions(FakeRoutes(proxy.address), settings=hasty)
        with pytest.raises(NodeUnavailable):
            other.stat(REGION)
        proxy.thaw()
        assert regions.stat(REGION).files == 0
        for each in (regions, other):
            each.close()


def test_a_datanode_ends_although_a_client_stands_still(tmp_path: Path) -> None:
    with datanode(tmp_path, grace=0.5) as (process, address), running_proxy(port_of(address)) as proxy:
        regions = RemoteRegions(FakeRoutes(proxy.address))
        regions.create_region(REGION, DIRECTORY, SCHEMA)
        proxy.freeze()
        answer, _ = process.communicate("", timeout=60)
        assert (answer.strip(), process.returncode) == ("left", 0)
        proxy.thaw()
        regions.close()


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])

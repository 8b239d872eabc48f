"""etcd, S3 and clusters for a whole run of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.running import Cluster, Shape, running_cluster
from tests.kv.etcd_process import EtcdProcess
from tests.storage import shared_s3
from tests.store.services import S3Server


@pytest.fixture(scope="session")
def s3() -> S3Server:
    return shared_s3()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose processes are not killed: three datanodes with files of their own, metadata in memory."""
    with running_cluster(tmp_path_factory.mktemp("cluster"), Shape(frontends=2)) as cluster:
        yield cluster


@pytest.fixture
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    process = EtcdProcess(tmp_path_factory.mktemp("etcd"))
    process.start()
    try:
        process.wait_ready()
        yield process
    finally:
        process.kill()

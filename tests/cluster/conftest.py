"""etcd, S3 and clusters. A cluster ends with the tests of this folder: its processes cost something while they wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.running import Cluster, Shape, running_cluster
from tests.kv.etcd_process import EtcdProcess, running_etcd
from tests.storage import shared_s3
from tests.store.services import S3Server
from tests.telemetry.collector import Collector


@pytest.fixture(scope="session")
def s3() -> S3Server:
    return shared_s3()


@pytest.fixture(scope="package")
def collector() -> Iterator[Collector]:
    """A collector of traces."""
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Cluster]:
    """A cluster whose processes are not killed: three datanodes with files of their own, metadata in memory.

    What clients trace is sent to the collector. Statements of more than a millisecond are slow ones.
    Tables are placed by load; in the other clusters, on any live datanode.
    """
    shape = Shape(
        frontends=2,
        metasrv_environment={**_tracing("METASRV", collector), "TSDB_METASRV__SELECTOR": "load_based"},
        datanode_environment=_tracing("DATANODE", collector),
        frontend_environment={**_tracing("FRONTEND", collector), "TSDB_FRONTEND__SLOW_QUERY__THRESHOLD": "1ms"},
    )
    with running_cluster(tmp_path_factory.mktemp("cluster"), shape) as cluster:
        yield cluster


def _tracing(component: str, collector: Collector) -> dict[str, str]:
    prefix = f"TSDB_{component}__LOGGING__"
    return {
        f"{prefix}ENABLE_OTLP_TRACING": "true",
        f"{prefix}OTLP_ENDPOINT": f"127.0.0.1:{collector.port}",
        f"{prefix}TRACING_SAMPLE_RATIO__DEFAULT_RATIO": "0",
    }


@pytest.fixture
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as process:
        yield process

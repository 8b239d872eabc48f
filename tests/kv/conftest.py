"""Stores for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kv.etcd_process import EtcdProcess, running_etcd
from tests.proxy import Proxy, running_proxy


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    """An etcd that all tests share, each with a prefix of its own; nobody kills it."""
    with running_etcd(tmp_path_factory.mktemp("etcd"), options=["--unsafe-no-fsync"]) as member:
        yield member


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EtcdProcess]:
    """An etcd that may be killed."""
    with running_etcd(tmp_path) as member:
        yield member


@pytest.fixture
def proxy(etcd: EtcdProcess) -> Iterator[Proxy]:
    with running_proxy(etcd.client_port) as running:
        yield running

"""Stores for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kv.etcd_process import EtcdProcess, running_etcd


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    """An etcd that all tests share, each with a prefix of its own; nobody kills it."""
    with running_etcd(tmp_path_factory.mktemp("etcd")) as member:
        yield member

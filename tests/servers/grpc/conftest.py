"""One server for the tests of a file that do not change how it is set up, and one that asks for passwords."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.grpc.running import USERS, RunningServer, running_server


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("grpc")) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("guarded"), users=USERS) as running:
        yield running

"""One server for all tests of the clients: they use tables and databases of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server_process import ServerProcess, running


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("server")) as started:
        yield started

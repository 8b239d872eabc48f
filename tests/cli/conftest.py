"""One server for the tests of each module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server_process import ServerProcess, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("server")) as started:
        yield started

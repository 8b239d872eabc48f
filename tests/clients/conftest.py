"""One server for all clients, started as a user starts it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.server_process import ServerProcess, running


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("server")) as started:
        answer = httpx.post(f"{started.url}/v1/sql", data={"sql": "CREATE DATABASE agents"}, timeout=10)
        assert answer.status_code == 200, answer.text
        yield started
        assert started.stop() == 0
    assert "Traceback" not in started.output

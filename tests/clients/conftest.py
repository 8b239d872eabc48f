"""Two servers for all clients, started as a user starts them: one for everybody, one with a user and with TLS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import trustme

from tests.server_process import ServerProcess, running


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("server")) as started:
        answer = httpx.post(f"{started.url}/v1/sql", data={"sql": "CREATE DATABASE agents"}, timeout=10)
        assert answer.status_code == 200, answer.text
        yield started
        assert started.stop() == 0
    assert "Traceback" not in started.output


class Guarded(NamedTuple):
    """A server where `USER` logs in with `PASSWORD`; MySQL and PostgreSQL offer TLS, gRPC demands it."""

    server: ServerProcess
    authority: Path
    """The certificate of who has signed the server's."""


USER, PASSWORD = "me", "it's a secret"


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    issued = authority.issue_cert("127.0.0.1", "localhost")
    issued.private_key_pem.write_to_path(directory / "server.key")
    issued.cert_chain_pems[0].write_to_path(directory / "server.pem")
    environment = {
        f"TSDB_STANDALONE__{protocol}__TLS__{key}": value
        for protocol, mode in (("MYSQL", "prefer"), ("POSTGRES", "prefer"), ("GRPC", "require"))
        for key, value in {
            "MODE": mode,
            "CERT_PATH": str(directory / "server.pem"),
            "KEY_PATH": str(directory / "server.key"),
        }.items()
    }
    users = f"static_user_provider:cmd:{USER}={PASSWORD}"
    with running("standalone", directory, "--user-provider", users, environment=environment) as started:
        yield Guarded(started, directory / "ca.pem")
        assert started.stop() == 0
    assert "Traceback" not in started.output

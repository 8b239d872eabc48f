"""A process that is started by a service manager such as systemd says when it is ready and when it stops."""

from __future__ import annotations

import socket
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.server_process import running
from tsdb.components._service_manager import READY, STOPPING, notify

WAIT_SECONDS_MAX = 60.0


@contextmanager
def listening(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.settimeout(WAIT_SECONDS_MAX)
        receiver.bind(address)
        yield receiver


def test_a_server_notifies_when_it_is_ready_and_when_it_stops(tmp_path: Path) -> None:
    # The path of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(dir="/tmp") as short, listening(f"{short}/notify") as receiver:
        environment = {"NOTIFY_SOCKET": f"{short}/notify"}
        with running(
            "metasrv", tmp_path, "--use-memory-store", "--bind-addr", "127.0.0.1:0", environment=environment
        ) as server:
            assert receiver.recv(100).decode() == READY
            assert server.get("/ready").status_code == 200
            assert server.stop() == 0
            assert receiver.recv(100).decode() == STOPPING


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has an abstract namespace")
def test_a_socket_of_the_abstract_namespace_is_found() -> None:
    name = f"tsdb-{uuid.uuid4()}"
    with listening(f"\0{name}") as receiver:
        notify(READY, {"NOTIFY_SOCKET": f"@{name}"})
        assert receiver.recv(100).decode() == READY


@pytest.mark.parametrize("address", [None, "", "/nowhere/notify", "@nobody-listens", "relative"])
def test_nobody_to_notify_is_no_error(address: str | None) -> None:
    notify(READY, {} if address is None else {"NOTIFY_SOCKET": address})

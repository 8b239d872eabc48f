"""Starting `tsdb` as a user would: a process of its own, told its options, asked over HTTP."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.storage import IN_CLUSTER, server_environment

_READY_SECONDS_MAX = 60.0

TSDB = (sys.executable, "-m", "tsdb.cli")


class ServerProcess:
    """One running component."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self.output_file = output
        self.url = ""

    @property
    def output(self) -> str:
        # The C core of gRPC repeats the bytes of clients in its messages.
        return self.output_file.read_text(encoding="utf-8", errors="backslashreplace")

    def wait_ready(self, seconds_max: float = _READY_SECONDS_MAX) -> None:
        """Wait for the start-up summary and learn the address from it."""
        deadline = time.monotonic() + seconds_max
        while time.monotonic() < deadline:
            if found := re.search(r"^  HTTP +(https?://\S+)$", self.output, flags=re.MULTILINE):
                self.url = found[1]
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"the server is not ready:\n{self.output}")

    def port_of(self, protocol: str) -> int:
        """The port of a protocol, by its name in the start-up summary."""
        found = re.search(rf"^  {protocol} +\S*:(\d+)$", self.output, flags=re.MULTILINE | re.IGNORECASE)
        assert found is not None, self.output
        return int(found[1])

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=10)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=20)


def spawn(
    component: str, directory: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> ServerProcess:
    """Start a component with its data and logs in a directory, on free ports, and do not wait for it."""
    environment = dict(environment or {})
    started: list[subprocess.Popen[bytes]] = []
    if component == "standalone" and IN_CLUSTER:
        from tests.through_frontend import frontend_environment

        component = "frontend"
        environment = frontend_environment(directory, environment, lambda: not started or started[0].poll() is None)
    prefix = f"TSDB_{component.upper()}"
    home = f"{prefix}__DATA_HOME" if component == "metasrv" else f"{prefix}__STORAGE__DATA_HOME"
    variables = {
        **os.environ,
        f"{prefix}__HTTP__ADDR": "127.0.0.1:0",
        f"{prefix}__LOGGING__DIR": str(directory / "logs"),
        **({f"{prefix}__OPENTSDB__ADDR": "127.0.0.1:0"} if component in ("standalone", "frontend") else {}),
        **({f"{prefix}__GRPC__ADDR": "127.0.0.1:0"} if component in ("standalone", "frontend") else {}),
        **({f"{prefix}__MYSQL__ADDR": "127.0.0.1:0"} if component in ("standalone", "frontend") else {}),
        **({f"{prefix}__POSTGRES__ADDR": "127.0.0.1:0"} if component in ("standalone", "frontend") else {}),
        **({} if component == "frontend" else {home: str(directory / "data")}),
        **({f"{prefix}__NODE_ID": "1"} if component == "datanode" else {}),
        **server_environment(component, directory),
        **environment,
    }
    output = directory / f"{component}.out"
    with output.open("wb") as sink:
        process = subprocess.Popen(
            [*TSDB, component, "start", *arguments], env=variables, stdout=sink, stderr=subprocess.STDOUT
        )
    started.append(process)
    return ServerProcess(process, output)


@contextmanager
def running(
    component: str, directory: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """Run a component with its data and logs in a directory, on free ports."""
    server = spawn(component, directory, *arguments, environment=environment)
    try:
        server.wait_ready()
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def stop_process(pid: int) -> None:
    """Stop every thread of a process where it is (SIGSTOP), and wait until it stands: a signal may come late."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + _READY_SECONDS_MAX
    while any(_state_of(task) not in "Tt" for task in Path(f"/proc/{pid}/task").iterdir()):
        assert time.monotonic() < deadline, f"process {pid} goes on after SIGSTOP"
        time.sleep(0.002)


def _state_of(task: Path) -> str:
    return (task / "stat").read_text().rpartition(") ")[2][0]

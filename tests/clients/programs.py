"""Running other people's programs against a server, with the configuration that `docs/integrations.md` shows."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest

from tests.server_process import ServerProcess

WAIT_SECONDS_MAX = 60.0
"""How long a program may take until something of it arrives."""

RUN_SECONDS_MAX = 110.0
"""How long a program may take that runs to its end."""

HERE = Path(__file__).parent
_DRIVERS = Path(__file__).parents[2] / ".venv" / "clients"
_DOCS = Path(__file__).parents[2] / "docs" / "integrations.md"
_DEFAULT_PORTS = {"4001": "gRPC", "4002": "MySQL", "4003": "Postgres", "4242": "OpenTSDB"}
"""The default ports other than that of HTTP, and the names that the start-up summary gives their protocols."""
_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


def find_program(name: str) -> str:
    """Return where a program is; a test without it is skipped, or fails where every program must be here."""
    found = shutil.which(name, path=_PATH)
    return miss(name) if found is None else found


def find_driver(pattern: str) -> Path:
    """Return a driver of Java or JavaScript that `tests/clients/install` has fetched."""
    found = next(iter(sorted(_DRIVERS.glob(pattern))), None)
    return miss(pattern) if found is None else found


def miss(name: str) -> NoReturn:
    """Skip a test because a client is not installed, or fail it where every client must be."""
    reason = f"{name} is not installed; make clients installs it"
    if os.environ.get("TSDB_CLIENTS_REQUIRED"):
        pytest.fail(reason)
    pytest.skip(reason)


def try_program(*command: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, however it ends."""
    return subprocess.run(
        [find_program(command[0]), *command[1:]],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
        env={**os.environ, **(environment or {})},
    )


def run_program(*command: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a program to its end and return what it has printed; it must succeed."""
    done = try_program(*command, environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def port_of(server: ServerProcess, protocol: str) -> str:
    """Return the port of a protocol, by the name that the start-up summary gives it."""
    found = re.search(rf"^  {protocol} +\S+:(\d+)$", server.output, flags=re.MULTILINE)
    assert found is not None, server.output
    return found[1]


def snippet(heading: str, server: ServerProcess, language: str = r"\w*") -> str:
    """Return the first code block under a heading of the documentation, with the ports of a server put in."""
    section = _DOCS.read_text().partition(f"## {heading}\n")[2]
    found = re.search(rf"^```{language}\n(.*?)^```$", section, flags=re.DOTALL | re.MULTILINE)
    assert found is not None, heading
    ports = {default: port_of(server, protocol) for default, protocol in _DEFAULT_PORTS.items()}
    ports["4000"] = server.url.rpartition(":")[2]
    return re.sub(rf"\b(?:{'|'.join(ports)})\b", lambda each: ports[each[0]], found[1])


def telnet_address(server: ServerProcess) -> tuple[str, int]:
    found = re.search(r"^  OpenTSDB +(\S+):(\d+)$", server.output, flags=re.MULTILINE)
    assert found is not None, server.output
    return found[1], int(found[2])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_port(port: int, output: Path) -> None:
    """Wait until somebody listens on a port of this machine."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, f"nobody listens on {port}\n{output.read_text()}"
        time.sleep(0.05)


@contextmanager
def program(directory: Path, name: str, *arguments: str) -> Iterator[Path]:
    """Run a program in a directory until the block is left; yields the file of what it says."""
    output = directory / f"{Path(name).name}.out"
    with output.open("wb") as sink:
        process = subprocess.Popen(
            [find_program(name), *arguments], cwd=directory, stdout=sink, stderr=subprocess.STDOUT
        )
    try:
        yield output
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ask(server: ServerProcess, text: str, database: str = "public") -> list[list[Any]] | None:
    """Return rows; None if the statement failed, for instance because its table is not there yet."""
    answer = httpx.post(f"{server.url}/v1/sql", params={"db": database}, data={"sql": text}, timeout=10)
    if answer.status_code != 200:
        return None
    rows: list[list[Any]] = answer.json()["output"][0]["records"]["rows"]
    return rows


def wait_rows(server: ServerProcess, text: str, *, output: Path | None = None, database: str = "public") -> list[Any]:
    """Ask until there are rows."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not (rows := ask(server, text, database)):
        said = "" if output is None else output.read_text()
        assert time.monotonic() < deadline, f"no rows for {text}\n{said}\n{server.output}"
        time.sleep(0.1)
    return rows


def wait_gone(server: ServerProcess, mark: str) -> None:
    """Wait until no statement whose text has a mark is running."""
    text = f"SELECT id, query FROM information_schema.process_list WHERE query LIKE '%{mark}%'"
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while found := [row for row in ask(server, text) or () if "process_list" not in row[1]]:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def wait_json(url: str, parameters: Mapping[str, str], path: tuple[str, ...]) -> Any:
    """Ask until what a path leads to is there and not empty."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    found: Any = None
    while True:
        try:
            answer = httpx.get(url, params=parameters, timeout=10)
            found = answer.json() if answer.status_code == 200 else None
        except (httpx.TransportError, ValueError):
            found = None
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        if found:
            return found
        assert time.monotonic() < deadline, f"{url} {parameters}: {path} is not there"
        time.sleep(0.1)

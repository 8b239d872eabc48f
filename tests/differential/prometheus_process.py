"""A Prometheus server of its own for a test: empty, without targets, taking samples by remote write."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

PROGRAM = shutil.which("prometheus")
_READY_SECONDS_MAX = 30.0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running_prometheus(directory: Path) -> Iterator[str]:
    """Run the program and yield its address."""
    assert PROGRAM is not None, "the program prometheus is not installed: tests/clients/install installs it"
    config = directory / "prometheus.yml"
    config.write_text("scrape_configs: []\n")
    url = f"http://127.0.0.1:{_free_port()}"
    arguments = [
        PROGRAM,
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--web.enable-remote-write-receiver",
        "--storage.tsdb.retention.time=100y",
        "--log.level=error",
    ]
    with (directory / "prometheus.out").open("wb") as sink:
        process = subprocess.Popen(arguments, stdout=sink, stderr=subprocess.STDOUT)
    try:
        _wait_ready(url, process)
        yield url
    finally:
        process.kill()
        process.wait()


def _wait_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _READY_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/-/ready", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError("Prometheus is not ready")

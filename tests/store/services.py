"""Object storage services for tests: S3 by moto, as a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tsdb.store.remote import BucketSettings, RemoteStore, RemoteTuning

BUCKET = "tests"
_START_SECONDS_MAX = 60.0

PATIENT = RemoteTuning(delay_min_seconds=0.001, delay_max_seconds=0.01)
"""Pauses as short as tests want them."""


@dataclass
class S3Server:
    """A running server that speaks S3."""

    endpoint: str
    process: subprocess.Popen[bytes]
    roots: Iterator[int] = field(default_factory=count)

    def new_root(self) -> str:
        """Return a root in the bucket that nobody has used."""
        return f"root-{next(self.roots)}"

    def arguments(self, root: str | None = None, **changes: str) -> dict[str, str]:
        """Return what opendal wants to know."""
        return {
            "bucket": BUCKET,
            "root": f"/{root or self.new_root()}",
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "access_key_id": "key",
            "secret_access_key": "secret",
            "disable_config_load": "true",
            "disable_ec2_metadata": "true",
            **changes,
        }

    def settings(self, root: str | None = None, **changes: str) -> BucketSettings:
        arguments = self.arguments(root, **changes)
        return BucketSettings("s3", f"s3://{arguments['bucket']}{arguments['root']}", "s3", arguments)

    def store(self, root: str | None = None, tuning: RemoteTuning = PATIENT, **changes: str) -> RemoteStore:
        """Return a store of its own root."""
        return RemoteStore(self.settings(root, **changes), tuning=tuning)

    def environment(self, root: str, wal: Path) -> dict[str, str]:
        """Return the variables of a standalone server with this storage."""
        prefix = "TSDB_STANDALONE__STORAGE__"
        return {
            f"{prefix}TYPE": "S3",
            f"{prefix}BUCKET": BUCKET,
            f"{prefix}ROOT": root,
            f"{prefix}ENDPOINT": self.endpoint,
            f"{prefix}REGION": "us-east-1",
            f"{prefix}ACCESS_KEY_ID": "key",
            f"{prefix}SECRET_ACCESS_KEY": "top-secret-key",
            "TSDB_STANDALONE__WAL__DIR": str(wal),
        }


@contextmanager
def running_s3() -> Iterator[S3Server]:
    """Run a server with one bucket."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "moto.out"
        with output.open("wb") as sink:
            command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
            process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)
        try:
            endpoint = wait_address(process, output, r"Running on (http://127\.0\.0\.1:\d+)")
            request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")
            urllib.request.urlopen(request, timeout=30).close()
            yield S3Server(endpoint, process)
        finally:
            process.kill()
            process.wait()


def wait_address(process: subprocess.Popen[bytes], output: Path, pattern: str) -> str:
    """Wait until an emulator says where it listens."""
    deadline = time.monotonic() + _START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(pattern, output.read_text()):
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"the emulator is not ready:\n{output.read_text()}")

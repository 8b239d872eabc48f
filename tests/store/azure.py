"""Azure Blob Storage for tests: Azurite, as a process of its own, with one account and one container."""

from __future__ import annotations

import base64
import hmac
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import NoReturn

import pytest

from tests.store.services import BUCKET, wait_address

ACCOUNT = "tests"
ACCOUNT_KEY = base64.b64encode(b"the key of an account of tests").decode()
_PROGRAM = Path(__file__).parents[2] / ".venv/emulators/node_modules/azurite/dist/src/blob/main.js"
_VERSION = "2021-08-06"


@contextmanager
def running_azurite() -> Iterator[str]:
    """Run Azurite and give the address of its account; a test without it is skipped, or fails in `make objects`."""
    node = shutil.which("node")
    if node is None or not _PROGRAM.is_file():
        _miss()
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "azurite.out"
        address = ["--blobHost", "127.0.0.1", "--blobPort", "0", "--disableProductStyleUrl"]
        options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
        with output.open("wb") as sink:
            process = subprocess.Popen(
                [str(node), str(_PROGRAM), *address, *options],
                cwd=directory,
                env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"},
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
        try:
            found = wait_address(process, output, r"successfully listens on (http://127\.0\.0\.1:\d+)")
            _create_container(found)
            yield f"{found}/{ACCOUNT}"
        finally:
            process.kill()
            process.wait()


def _miss() -> NoReturn:
    reason = "Azurite is not installed; make objects installs it"
    if os.environ.get("TSDB_OBJECTS"):
        pytest.fail(reason)
    pytest.skip(reason)


def _create_container(address: str) -> None:
    """Send the one request that a store never makes, signed with the key of the account."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION}
    shown = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    # The verb, eleven headers that are not sent, those of Azure, and what is asked for.
    text = "PUT\n" + "\n" * 11 + f"{shown}/{ACCOUNT}/{ACCOUNT}/{BUCKET}\nrestype:container"
    digest = hmac.digest(base64.b64decode(ACCOUNT_KEY), text.encode(), "sha256")
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    url = f"{address}/{ACCOUNT}/{BUCKET}?restype=container"
    urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers), timeout=30).close()

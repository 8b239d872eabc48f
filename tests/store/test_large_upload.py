"""An upload in parts by opendal itself: what its process holds meanwhile, and what is left of one that fails.

The large one is sent with `TSDB_OBJECTS=all`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import orjson
import pytest

from tests.store.services import BUCKET, S3Server, running_s3

MIB = 1 << 20
TOTAL_MIB, PART_MIB = 200, 8
SECONDS_MAX = 900
GROWTH_PARTS_MAX = 3
"""The part that is filled, its copy that is sent, and what the client keeps for the request."""

_UPLOAD = """
import sys, orjson
from tsdb.processes.resident import resident_bytes
from tsdb.store.remote import BucketSettings, RemoteStore
arguments, total, part = orjson.loads(sys.argv[1])
store = RemoteStore(BucketSettings("s3", "s3://here", "s3", arguments))
piece = bytes(range(256)) * 4096
held = []
def write(path, pieces):
    with store.writer(path, part) as sink:
        for _ in range(pieces):
            sink.write(piece)
            held.append(resident_bytes())
write("first", 3 * part // len(piece))  # what a first upload needs is not counted
settled = max(held)
held.clear()
write("large", total // len(piece))
print(orjson.dumps([settled, max(held), store.head("large").size_bytes]).decode())
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_s3() as server:
        yield server


@pytest.mark.skipif(os.environ.get("TSDB_OBJECTS") != "all", reason="sends 200 MiB; TSDB_OBJECTS is not `all`")
@pytest.mark.timeout(SECONDS_MAX + 60)
def test_a_process_holds_a_few_parts_of_a_large_upload(s3: S3Server) -> None:
    what = orjson.dumps([s3.arguments(), TOTAL_MIB * MIB, PART_MIB * MIB]).decode()
    done = subprocess.run([sys.executable, "-c", _UPLOAD, what], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    settled, most, size = orjson.loads(done.stdout)
    assert size == TOTAL_MIB * MIB
    print(f"{settled >> 20} MiB after a small upload, at most {most >> 20} MiB during one of {TOTAL_MIB} MiB")
    assert most - settled <= GROWTH_PARTS_MAX * PART_MIB * MIB


def test_an_abandoned_upload_shows_nothing_and_leaves_its_parts(s3: S3Server) -> None:
    root = s3.new_root()
    store = s3.store(root)
    with suppress(ZeroDivisionError), store.writer("broken", 5 * MIB) as sink:
        sink.write(bytes(20 * MIB))
        raise ZeroDivisionError
    assert list(store.list("")) == []
    assert _unfinished(s3) == [f"{root}/broken"], "opendal offers no way to abort it: a rule of the bucket deletes it"
    with store.writer("broken", 5 * MIB) as sink:
        sink.write(bytes(12 * MIB))
    assert store.head("broken").size_bytes == 12 * MIB, "a later upload of the same object has nothing to do with it"
    assert _unfinished(s3) == [f"{root}/broken"]


def _unfinished(s3: S3Server) -> list[str]:
    with urllib.request.urlopen(f"{s3.endpoint}/{BUCKET}?uploads", timeout=30) as answer:
        return re.findall(r"<Key>([^<]+)</Key>", answer.read().decode())

"""What counts as memory that a process holds."""

from __future__ import annotations

import mmap
import os
import signal
from pathlib import Path

import pytest

from tsdb.processes.resident import resident_bytes, tree_bytes

BYTES = 64 << 20
SLACK_BYTES = 16 << 20

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")


def test_memory_of_its_own_and_shared_memory_count() -> None:
    before = resident_bytes()
    own = bytearray(os.urandom(1 << 20) * (BYTES >> 20))
    assert resident_bytes() - before > BYTES - SLACK_BYTES
    descriptor = os.memfd_create("shared")
    os.ftruncate(descriptor, BYTES)
    with mmap.mmap(descriptor, BYTES) as shared:
        shared.write(bytes(BYTES))
        assert resident_bytes() - before > 2 * BYTES - SLACK_BYTES
    os.close(descriptor)
    del own


def test_pages_of_files_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(os.urandom(BYTES))
    before = resident_bytes()
    with file.open("rb") as source, mmap.mmap(source.fileno(), BYTES, prot=mmap.PROT_READ) as mapped:
        assert sum(mapped[at] for at in range(0, BYTES, mmap.PAGESIZE)) >= 0
        assert resident_bytes() - before < SLACK_BYTES


def test_a_process_that_is_not_there_holds_nothing() -> None:
    assert resident_bytes(2**31 - 1) == 0


def test_what_processes_share_counts_once() -> None:
    own = bytearray(os.urandom(1 << 20) * (BYTES >> 20))
    before = tree_bytes()
    assert before > len(own)
    child = os.fork()
    if not child:
        signal.pause()
        os._exit(0)
    try:
        assert resident_bytes(child) > len(own)
        assert tree_bytes() - before < SLACK_BYTES
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

"""One process per directory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tsdb.errors import StartError
from tsdb.store import DirectoryLock

_HOLD = """
import sys, time
from tsdb.store import DirectoryLock
DirectoryLock(sys.argv[1], key="storage.data_home").acquire()
print("locked", flush=True)
time.sleep(60)
"""


def test_a_second_process_is_told_who_holds_the_directory(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    holder = subprocess.Popen([sys.executable, "-c", _HOLD, str(home)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(StartError) as caught:
            DirectoryLock(home, key="storage.data_home").acquire()
        expected = (
            rf"storage\.data_home: {re.escape(str(home))} is in use by process {holder.pid} "
            r"\(since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00\); stop it or choose another directory"
        )
        assert re.fullmatch(expected, str(caught.value))
        os.kill(holder.pid, signal.SIGKILL)
    finally:
        holder.kill()
        holder.communicate()
    with DirectoryLock(home, key="storage.data_home") as lock:
        assert lock.is_held


def test_a_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    first, second = (DirectoryLock(tmp_path, key="wal.dir") for _ in range(2))
    first.acquire()
    with pytest.raises(StartError, match=f"process {os.getpid()} "):
        second.acquire()
    assert not second.is_held
    first.release()
    second.acquire()
    second.release()
    second.release()


def test_a_directory_that_cannot_be_made_is_blamed_on_its_key(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    expected = r"storage\.data_home: .*file/home cannot be used: Not a directory; create it"
    with pytest.raises(StartError, match=expected):
        DirectoryLock(tmp_path / "file" / "home", key="storage.data_home").acquire()

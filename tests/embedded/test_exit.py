"""Programs that end without closing their connections: they exit cleanly, and the next one finds all rows."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import tsdb
from tests.storage import local_files_only

pytestmark = local_files_only
ROWS = 2_000
RUNS = 2

_PROGRAM = f"""
import sys
import threading
import pyarrow as pa
import tsdb

db = tsdb.connect(sys.argv[1])
hosts = pa.array([f"h{{number % 50}}" for number in range({ROWS})])
values = pa.array(range({ROWS}), pa.float64())

def write(table, batch):
    times = pa.array(range(batch * {ROWS}, (batch + 1) * {ROWS}), pa.timestamp("ms"))
    db.write(table, pa.table({{"ts": times, "host": hosts, "usage": values}}), tags="host")

write("cpu", 0)
write("mem", 0)
db.sql("SELECT c.host, count(*) FROM cpu c JOIN mem m ON c.host = m.host AND c.ts = m.ts GROUP BY c.host")
db.promql("sum by (host) (cpu)", 0, 2, 1)
for batch in range(1, 5):
    write("cpu", batch)
"""

_END_IN_A_THREAD = """
def late():
    threading.main_thread().join()
    write("cpu", 5)

threading.Thread(target=late).start()
"""

_DAEMON = """
from tsdb.errors import TsdbError

def repeat():
    try:
        while True:
            db.promql("sum by (host) (rate(cpu[1s]))", 0, 2, 0.01)
    except TsdbError:
        pass

threading.Thread(target=repeat, daemon=True).start()
"""

_FORK = """
import os

child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
    write("cpu", 5)
"""


def run_to_its_end(program: str, path: str) -> None:
    command = [sys.executable, "-X", "faulthandler", "-W", "ignore::DeprecationWarning", "-c", program, path]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def count_rows(path: Path) -> int:
    with tsdb.connect(path) as db:
        return int(db.sql("SELECT count(*) FROM cpu").scalar())


def test_closing_ends_the_thread_that_waits_for_queries() -> None:
    with tsdb.connect() as db:
        before = set(threading.enumerate())
        tables = "information_schema.tables"
        assert db.sql(f"SELECT count(*) FROM {tables} a JOIN {tables} b ON true").scalar()
        waiting = [thread for thread in threading.enumerate() if thread not in before and "waiter" in thread.name]
        assert waiting
    assert not any(thread.is_alive() for thread in waiting)


@pytest.mark.timeout(300)
def test_programs_end_cleanly_and_their_rows_are_there(tmp_path: Path) -> None:
    for _ in range(RUNS):
        run_to_its_end(_PROGRAM, str(tmp_path / "data"))
    assert count_rows(tmp_path / "data") == 5 * ROWS


def test_a_database_in_memory_needs_no_closing() -> None:
    run_to_its_end(_PROGRAM, ":memory:")


def test_calls_of_daemon_threads_end_before_the_interpreter(tmp_path: Path) -> None:
    run_to_its_end(_PROGRAM + _DAEMON, str(tmp_path / "data"))


@pytest.mark.parametrize("ending", [_END_IN_A_THREAD, _FORK], ids=["thread", "fork"])
def test_rows_of_the_last_thread_and_of_the_parent_process_are_kept(tmp_path: Path, ending: str) -> None:
    run_to_its_end(_PROGRAM + ending, str(tmp_path / "data"))
    assert count_rows(tmp_path / "data") == 6 * ROWS

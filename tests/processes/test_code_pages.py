"""Code that is not needed any more is taken out of a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tsdb.processes import code_pages
from tsdb.processes.code_pages import GROWN_BYTES, CodePages

PROGRAM = """
from datafusion import SessionContext
from tsdb.processes.code_pages import CodePages, file_bytes

def ask():
    return SessionContext().sql("SELECT sum(value) FROM range(10)").collect()[0].column(0).to_pylist()

answer, pages = ask(), CodePages()
full = file_bytes()
assert pages.release_if_grown()
left = file_bytes()
assert ask() == answer
assert not pages.release_if_grown()
print(full, left)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the pages of a process are known on Linux only")
def test_code_is_taken_out_and_runs_again() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120)
    full, left = map(int, done.stdout.split())
    assert full - left > 30 << 20


def test_code_is_taken_out_when_much_has_come_since_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    much, needed = GROWN_BYTES, 40 << 20
    held: Iterator[int] = iter(
        [much + 5, needed, needed + 5, needed + much - 1, needed + much, 30 << 20, (30 << 20) + much]
    )
    monkeypatch.setattr(code_pages, "file_bytes", lambda: next(held))
    monkeypatch.setattr(code_pages, "release_code", lambda: None)
    pages = CodePages()
    assert [pages.release_if_grown() for _ in range(7)] == [True, False, False, False, True, False, True]

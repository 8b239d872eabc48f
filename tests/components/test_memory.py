"""Free memory goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np
from pathlib import Path
from tsdb.components._memory import give_back, keep_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

keep_memory()
blocks = [np.ones(1 << 17) for _ in range(200)]
last = np.ones(1 << 17)
full = resident()
blocks.clear()
kept = resident()
give_back()
print(full, kept, resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_free_memory_is_kept_until_it_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120)
    full, kept, left = map(int, done.stdout.split())
    assert full - kept < 50 << 20
    assert full - left > 150 << 20

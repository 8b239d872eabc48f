"""Free memory goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tsdb.processes.allocator import UNUSED_BYTES, Waste

PROGRAM = """
import numpy as np
from pathlib import Path
from tsdb.processes.allocator import give_back, keep_memory

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


def test_what_was_free_for_a_while_is_waste() -> None:
    waste, much = Waste(), UNUSED_BYTES
    assert not waste.is_large(free=2 * much, resident=9 * much), "it may be needed in a moment"
    assert not waste.is_large(free=much // 2, resident=9 * much), "it was"
    assert not waste.is_large(free=2 * much, resident=9 * much)
    assert waste.is_large(free=2 * much, resident=9 * much)
    waste.note_given_back(resident=7 * much)
    assert not waste.is_large(free=2 * much, resident=7 * much), "given back, and still counted as free"
    assert waste.is_large(free=2 * much, resident=8 * much)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_free_memory_is_counted() -> None:
    program = PROGRAM.replace("give_back()\n", "print(free_bytes())\n").replace("import give_back", "import free_bytes")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout.split()[0]) > 150 << 20

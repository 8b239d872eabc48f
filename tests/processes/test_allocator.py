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
    assert not waste.is_large(free=2 * much), "it may be needed in a moment"
    assert not waste.is_large(free=much // 2), "it was"
    assert not waste.is_large(free=2 * much)
    assert waste.is_large(free=2 * much)
    waste.note_given_back(free=2 * much)
    assert not waste.is_large(free=2 * much), "given back, and still counted as free"
    assert not waste.is_large(free=5 * much), "more is free, perhaps for a moment"
    assert waste.is_large(free=3 * much)


def test_what_was_given_back_and_is_needed_again_may_be_waste_again() -> None:
    waste, much = Waste(), UNUSED_BYTES
    waste.note_given_back(free=4 * much)
    assert not waste.is_large(free=2 * much), "half of it is needed"
    assert not waste.is_large(free=4 * much)
    assert waste.is_large(free=4 * much), "it is in memory, though no more than when it was given back"
    waste.note_given_back(free=4 * much)
    assert not waste.is_large(free=4 * much)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_free_memory_is_counted() -> None:
    program = PROGRAM.replace("give_back()\n", "print(free_bytes())\n").replace("import give_back", "import free_bytes")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout.split()[0]) > 150 << 20

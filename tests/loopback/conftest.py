"""Every test of this directory reads through `tests/loopback_regions.py`.

Modules that repeat whole test modules take long; `TSDB_LOOPBACK=all` has them run as well.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.loopback_regions import LoopbackReader, read_through_loopback

collect_ignore = [] if os.environ.get("TSDB_LOOPBACK") == "all" else ["test_differential.py", "test_selection.py"]


@pytest.fixture(autouse=True, scope="module")
def verbs() -> Iterator[Counter[str]]:
    """Which verbs of readers the tests of a module have used so far."""
    LoopbackReader.calls.clear()
    with pytest.MonkeyPatch.context() as patch:
        read_through_loopback(patch)
        yield LoopbackReader.calls

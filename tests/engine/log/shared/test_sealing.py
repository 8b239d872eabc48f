"""Sealing a term whose writer lives and is faster than the one who seals."""

from __future__ import annotations

from typing import Any

import pytest

from tsdb.clock import ManualClock
from tsdb.engine.log.shared.container import ObjectKind, parse_trailer
from tsdb.engine.log.shared.layout import object_path
from tsdb.engine.log.shared.sealing import place_fence
from tsdb.store import MemoryStore, ObjectExists

NODE, TERM = 7, 1
REQUESTS_MAX = 500


class BusyStore(MemoryStore):
    """Before each request another process creates some objects, one number after the other, until it finds a fence."""

    def __init__(self, pace: int) -> None:
        super().__init__()
        self.pace = pace
        self.written = 0
        self.is_stopped = False
        self.requests = 0

    def advance(self, count: int) -> None:
        for _ in range(count):
            try:
                if not self.is_stopped:
                    super().put_if_absent(object_path(NODE, TERM, self.written), b"entries")
                    self.written += 1
            except ObjectExists:
                self.is_stopped = True

    def put_if_absent(self, path: str, data: Any) -> Any:
        self.requests += 1
        assert self.requests < REQUESTS_MAX, "the writer is always first"
        self.advance(self.pace)
        return super().put_if_absent(path, data)

    def head(self, path: str) -> Any:
        self.advance(self.pace)
        return super().head(path)


@pytest.mark.parametrize("pace", [0, 1, 3, 40])
def test_a_busy_writer_is_stopped(pace: int) -> None:
    store = BusyStore(pace)
    store.advance(5)
    listing = place_fence(store, NODE, TERM, nonce=bytes(16), by="test", reason="test", clock=ManualClock())
    store.advance(100_000)
    assert store.is_stopped
    numbers = sorted(listing.sizes)
    fences = [number for number in numbers if is_fence(store, number)]
    assert store.written == fences[0], "everything that was created in order is below the first fence"
    assert numbers[: fences[0]] == list(range(fences[0]))


def is_fence(store: MemoryStore, number: int) -> bool:
    content = store.get(object_path(NODE, TERM, number))
    return content != b"entries" and parse_trailer(bytes(content), len(content)).kind is ObjectKind.FENCE

"""The owners of memory get less of it as the processes come near the limit, and all of it again when there is room."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tsdb.components import _governor
from tsdb.components._governor import GROW_LOOKS, MemoryGovernor
from tsdb.memory import LEAST_SHARE, MemoryUse

LIMIT = 1000


class Owner:
    """Remembers what it was told."""

    def __init__(self, *uses: MemoryUse) -> None:
        self.uses = uses
        self.shares: list[float] = []

    def memory_use(self) -> Iterator[MemoryUse]:
        yield from self.uses

    def limit_memory(self, share: float) -> None:
        self.shares.append(share)


class Server:
    """A governor over memory that the test sets."""

    def __init__(self, *uses: MemoryUse) -> None:
        self.resident = 0
        self.owner = Owner(*uses)
        self.governor = MemoryGovernor(LIMIT, lambda: [self.owner], resident=lambda: self.resident, now_ms=lambda: 7)

    def look(self, resident: int, times: int = 1) -> list[bool]:
        self.resident = resident
        return [self.governor.look() for _ in range(times)]


def test_nothing_happens_while_there_is_room() -> None:
    server = Server()
    assert server.look(870, 3 * GROW_LOOKS) == [False] * (3 * GROW_LOOKS)
    assert server.owner.shares == []


def test_owners_get_less_step_by_step_while_memory_is_tight() -> None:
    server = Server()
    assert server.look(880, 4) == [True, True, False, False]
    assert server.owner.shares == [0.75, 0.5]


def test_over_the_limit_owners_get_the_least_at_once() -> None:
    server = Server()
    assert server.look(1001, 2) == [True, True]
    assert server.owner.shares == [LEAST_SHARE]
    assert server.look(900) == [False]
    assert server.owner.shares == [LEAST_SHARE]


def test_owners_get_more_again_after_a_while_with_room() -> None:
    server = Server()
    server.look(1001)
    server.look(700, GROW_LOOKS - 1)
    server.look(880)
    server.look(700, GROW_LOOKS - 1)
    assert server.owner.shares == [LEAST_SHARE]
    server.look(700, 3 * GROW_LOOKS + 1)
    assert server.owner.shares == [LEAST_SHARE, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("name", ["query_workers", "fast_workers"])
def test_what_workers_hold_counts(name: str) -> None:
    server = Server(MemoryUse(name, 600), MemoryUse("vector_cache", 300, 400))
    server.look(401)
    assert server.owner.shares == [LEAST_SHARE]
    report = server.governor.report()
    assert (report.held_bytes, report.limit_bytes, report.share, report.since_ms) == (1001, LIMIT, LEAST_SHARE, 7)


def test_an_owner_that_comes_later_is_told_what_there_is() -> None:
    early, late = Owner(), Owner()
    owners = [early]
    governor = MemoryGovernor(LIMIT, lambda: owners, resident=lambda: 1001, now_ms=lambda: 7)
    governor.look()
    owners.append(late)
    assert late.shares == []
    governor.look()
    governor.look()
    assert late.shares == [LEAST_SHARE] == early.shares


def test_pages_that_no_process_has_of_its_own_are_counted() -> None:
    workers = Owner(MemoryUse("fast_workers", 200))
    governor = MemoryGovernor(LIMIT, lambda: [workers], resident=lambda: 500, whole=lambda: 790, now_ms=lambda: 7)
    assert governor.report().held_bytes == 700
    governor.compare()
    report = governor.report()
    assert report.held_bytes == 790
    assert {each.owner: each.bytes for each in report.uses} == {"fast_workers": 200, "worker_pages": 90}


def test_large_queries_begin_again_before_there_is_room_for_all() -> None:
    server = Server()
    server.look(1001)
    server.look(860, 3 * GROW_LOOKS)
    assert server.owner.shares == [LEAST_SHARE, 0.5], "and no more before there is room"


class Keeper(Owner):
    """Returns free memory, and fails once at that."""

    def __init__(self) -> None:
        super().__init__()
        self.returned = 0

    def return_free_memory(self) -> None:
        self.returned += 1
        if self.returned == 1:
            raise OSError("not now")


def test_owners_return_free_memory_while_it_is_tight_and_a_failure_does_not_end_the_watch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_governor, "LOOK_SECONDS", 0.001)
    keeper = Keeper()
    governor = MemoryGovernor(LIMIT, lambda: [Owner(), keeper], resident=lambda: 1001, whole=lambda: 1001)

    async def watch() -> None:
        await governor.start()
        for _ in range(60_000):
            if keeper.returned >= 3:
                break
            await asyncio.sleep(0.001)
        await governor.stop(1.0)

    asyncio.run(watch())
    assert keeper.returned >= 3
    assert "memory could not be checked" in caplog.text

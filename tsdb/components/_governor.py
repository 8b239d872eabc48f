"""Keeps all processes of the server within one memory limit.

    held, of the limit   what its owners may use of their shares
    below 3/4            all of it, again, step by step
    over 7/8             less: caches shrink, regions are flushed, merges and range queries get less
    over the limit       a quarter, and no large query begins; until it is below 7/8 for a while

What is held is what the system says: memory of the server, and what its workers have of their own. Owners know what
they hold, not what the C library, Arrow and Python keep for them. Pages of files do not count: the system takes them
back.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from tsdb.memory import LEAST_SHARE, SHARES, MemoryKeeper, MemoryOwner, MemoryReport, MemoryUse
from tsdb.processes.allocator import IDLE_PART, Waste, free_bytes, give_back
from tsdb.processes.code_pages import CodePages
from tsdb.processes.resident import resident_bytes, tree_bytes
from tsdb.telemetry import counter, gauge, get_logger
from tsdb.units import Size

LOOK_SECONDS = 0.5
"""How often memory is checked."""
IDLE_LOOKS = 20
"""So many looks make the interval after which free memory is given back to the system."""
GROW_LOOKS = 10
"""So many looks lie between two steps towards the full shares."""
ROOM, TIGHT = 0.75, 0.875
"""Below and above these parts of the limit there is room, or memory is tight."""

WORKER_OWNERS = frozenset({"query_workers", "fast_workers"})
"""The owners that are processes of their own."""
SHARED_PAGES = "worker_pages"
"""The owner of what workers share among themselves, and with the server no more."""

_log = get_logger("tsdb.memory")

_HELD = gauge(
    "tsdb_memory_held_bytes", "Memory of the server and its worker processes together, without pages of files."
)
_LIMIT = gauge("tsdb_memory_limit_bytes", "memory.limit.")
_STEPS = counter(
    "tsdb_memory_limited_total",
    "How often the parts of the server had to reduce their memory because the limit was near.",
)


class _FreeMemory:
    """When free memory is to be returned: in every interval in which the process is idle, or has much of it."""

    def __init__(self) -> None:
        self._waste = Waste()
        self._looks = 0
        self._used = time.process_time()

    def is_next(self) -> bool:
        """Count a look; whether it ends an interval."""
        self._looks = (self._looks + 1) % IDLE_LOOKS
        return self._looks == 0

    def is_worth_returning(self) -> bool:
        before, self._used = self._used, time.process_time()
        is_idle = self._used - before < IDLE_PART * LOOK_SECONDS * IDLE_LOOKS
        return self._waste.is_large(free_bytes()) or is_idle

    def note_returned(self) -> None:
        self._waste.note_given_back(free_bytes())


class MemoryGovernor:
    """Watches memory, also while the log is replayed.

    Everything happens on its event loop, but for giving memory back and for finding out what the processes share.
    """

    def __init__(
        self,
        limit_bytes: int,
        owners: Callable[[], Iterable[MemoryOwner]],
        *,
        resident: Callable[[], int] = resident_bytes,
        whole: Callable[[], int] = tree_bytes,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`owners` returns the parts of the server that are there at the moment; `whole` what all processes hold."""
        self._limit_bytes = limit_bytes
        self._owners = owners
        self._resident = resident
        self._whole = whole
        self._uncounted = 0
        """What the processes hold beside what is counted at every look, as it was a moment ago: they began with the
        same pages, and have changed some of them since."""
        self._now_ms = now_ms
        self._step = 0
        """Which of `SHARES` the owners have."""
        self._calm_looks = 0
        self._known: list[MemoryOwner] = []
        """The owners at the last look: one that has come since does not know how much it may use."""
        self._task: asyncio.Task[None] | None = None
        self._since_ms = now_ms()
        _LIMIT.set(limit_bytes)

    def report(self) -> MemoryReport:
        """Describe what is held; from any thread."""
        uses = self._uses()
        uses.append(MemoryUse(SHARED_PAGES, self._uncounted))
        return MemoryReport(
            uses, self._counted(uses) + self._uncounted, self._limit_bytes, SHARES[self._step], self._since_ms
        )

    def _uses(self) -> list[MemoryUse]:
        return [each for owner in self._owners() for each in owner.memory_use()]

    def _counted(self, uses: Iterable[MemoryUse]) -> int:
        return self._resident() + sum(each.bytes for each in uses if each.owner in WORKER_OWNERS)

    def compare(self) -> None:
        """Find out what all processes hold, which takes longer than to count what each of them has of its own."""
        before = self._counted(self._uses())
        whole = self._whole()
        self._uncounted = max(whole - max(before, self._counted(self._uses())), 0)

    @property
    def facts(self) -> Mapping[str, str]:
        return {"memory": f"at most {Size(self._limit_bytes)}"}

    def probe(self) -> None:
        """It needs nothing."""

    async def start(self) -> None:
        self._task = asyncio.create_task(self._watch())

    async def stop(self, grace_seconds: float) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _watch(self) -> None:
        free, code = _FreeMemory(), CodePages()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._look_and_return(free, code)
            except Exception:  # noqa: BLE001 - without this watch the server has no limit
                _log.exception("memory could not be checked")

    async def _look_and_return(self, free: _FreeMemory, code: CodePages) -> None:
        """Compare what is held with the limit; now and then, and when it is tight, return what is free."""
        is_shrunk = self.look()
        is_due = free.is_next()
        if is_due:
            await asyncio.to_thread(self.compare)
            await asyncio.to_thread(code.release_if_grown)
            is_due = free.is_worth_returning()
        if is_shrunk:
            gc.collect()  # an error may hold what its query has read
        if is_shrunk or is_due:
            await asyncio.to_thread(self._return_free_memory)
            free.note_returned()

    def _return_free_memory(self) -> None:
        """Have owners, and the allocators of the process, return what is free to the system."""
        for owner in self._owners():
            if isinstance(owner, MemoryKeeper):
                owner.return_free_memory()
        give_back()

    def look(self) -> bool:
        """Compare what is held with the limit, and tell the owners; returns whether they have to use less."""
        held, wanted, last = self.report().held_bytes, self._step, len(SHARES) - 1
        _HELD.set(held)
        if held > self._limit_bytes:
            wanted = last
        elif held > self._limit_bytes * TIGHT:
            wanted = max(self._step, min(self._step + 1, last - 1))
        # Large queries are refused no longer than they have to be.
        calm = TIGHT if self._step == last else ROOM
        self._calm_looks = self._calm_looks + 1 if held < self._limit_bytes * calm else 0
        if self._calm_looks >= GROW_LOOKS:
            self._calm_looks = 0
            wanted = max(self._step - 1, 0)
        is_tighter = wanted > self._step
        self._tell_new()
        if wanted != self._step:
            self._change(wanted, held)
        return is_tighter or held > self._limit_bytes

    def _tell_new(self) -> None:
        owners = list(self._owners())
        if self._step:
            for owner in owners:
                if not any(owner is each for each in self._known):
                    owner.limit_memory(SHARES[self._step])
        self._known = owners

    def _change(self, step: int, held: int) -> None:
        if step > self._step:
            _STEPS.inc()
        self._step, self._since_ms = step, self._now_ms()
        for owner in self._owners():
            owner.limit_memory(SHARES[step])
        level = _log.warning if SHARES[step] == LEAST_SHARE else _log.info
        level(
            "the memory of caches, write buffer and queries has changed",
            share=SHARES[step],
            held_mib=held >> 20,
            limit_mib=self._limit_bytes >> 20,
        )

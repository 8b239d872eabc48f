"""An engine over a faulty store in memory, perhaps with a file cache, that can be closed and opened again."""

from __future__ import annotations

from pathlib import Path

from tests.engine import lives
from tests.engine.lives import OPTIONS
from tests.store.faulty_store import FaultyStore
from tsdb.clock import Clock
from tsdb.engine.engine import Engine
from tsdb.engine.region.context import EngineOptions
from tsdb.store import CachedStore, FileCache, MemoryStore, ObjectStore

CACHE_BYTES = 1 << 20


class StoreWorld:
    """The engine, and what it stands on."""

    def __init__(
        self,
        root: Path,
        *,
        has_cache: bool = False,
        has_conditional_put: bool = True,
        options: EngineOptions = OPTIONS,
        clock: Clock | None = None,
    ) -> None:
        self.root = root
        self.remote = FaultyStore(MemoryStore(clock=clock), has_conditional_put=has_conditional_put)
        self.cache: FileCache | None = None
        self._has_cache = has_cache
        self._options = options
        self._clock = clock
        self.engine = self.open()

    def open(self) -> Engine:
        self.engine = lives.open_life(self.root, store=self._store(), options=self._options, clock=self._clock)
        return self.engine

    def restart(self) -> None:
        self.engine.close(flush=False)
        self.open()

    def end(self) -> None:
        self.engine.close(flush=False)
        if self.cache is not None:
            self.cache.close()

    def see(self) -> lives.Sight:
        with self.remote.paused():
            return lives.see(self.engine)

    def check(self, expected: lives.Sight) -> None:
        """With the store back, a restart shows what is expected, and no object that no manifest knows is left."""
        self.remote.up()
        self.restart()
        assert not self.engine.quarantined
        assert self.see() == expected
        lives.settle(self.engine)
        unknown = lives.unknown_files(self.engine)
        assert not unknown, unknown

    def _store(self) -> ObjectStore:
        if not self._has_cache:
            return self.remote
        if self.cache is not None:
            self.cache.close()
        self.cache = FileCache(self.root / "cache", CACHE_BYTES, free_bytes_min=0)
        return CachedStore(self.remote, self.cache)

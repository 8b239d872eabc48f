"""The model checker over a remote store that fails now and then, with a small file cache between.

Everything that `test_model` does happens here too. Besides, flushes, compactions, changes and starts run into calls of
the store that fail, lose their reply or return too little; files of the cache are damaged or gone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.engine.harness import REGION, open_engine
from tests.engine.test_model import EXAMPLES, STEPS, RegionModel
from tests.store.faulty_store import FaultyStore
from tsdb.engine import Engine
from tsdb.engine.errors import StorageUnavailable
from tsdb.errors import TsdbError
from tsdb.model import AddColumn, ColumnExists
from tsdb.store import CachedStore, FileCache, MemoryStore, StoreError

CACHE_BYTES = 20_000
FAULTS = st.sampled_from(["fail", "lose_reply", "shorten"])
OPERATIONS = st.sampled_from(["any", "put", "put_if_absent", "get", "get_range", "head", "list", "delete", "writer"])


class StoreModel(RegionModel):
    """Random lives of one region in a store that is not to be relied on."""

    def __init__(self) -> None:
        super().__init__()
        self.remote = FaultyStore(MemoryStore(clock=self.clock))
        self.cache: FileCache | None = None

    def open(self) -> Engine:
        if self.cache is not None:
            self.cache.close()
        self.cache = FileCache(self.root / "cache", CACHE_BYTES, free_bytes_min=0)
        store = CachedStore(self.remote, self.cache)
        return open_engine(self.root, options=self.options, ids=self.ids, clock=self.clock, store=store)

    def teardown(self) -> None:
        super().teardown()
        if self.cache is not None:
            self.cache.close()

    def _with_fault(self, kind: str, operation: str, nth: int, act: Callable[[], object]) -> None:
        """Do something of which a call fails; if that makes it fail, it succeeds when it is repeated."""
        getattr(self.remote, kind)(operation, nth=nth)
        try:
            act()
        except TsdbError:
            self.remote.up()
            act()
        self.remote.up()

    @rule(kind=FAULTS, operation=OPERATIONS, nth=st.integers(1, 8), compacts=st.booleans())
    def write_files_with_a_fault(self, kind: str, operation: str, nth: int, compacts: bool) -> None:
        start = self.engine.compact if compacts else self.engine.flush
        self._with_fault(kind, operation, nth, lambda: start(REGION).result(30))
        if compacts:
            self.model.let_expired_go()
        self.model.flush()

    @rule(kind=FAULTS, operation=st.sampled_from(["any", "put", "get", "get_range"]), nth=st.integers(1, 3))
    def write_an_index_with_a_fault(self, kind: str, operation: str, nth: int) -> None:
        """A file goes on without its index."""
        getattr(self.remote, kind)(operation, ".idx", nth=nth)
        self.engine.flush(REGION).result(30)
        self.remote.up()
        self.model.flush()

    @rule(kind=FAULTS, nth=st.integers(1, 3), times=st.integers(1, 5))
    def read_indexes_with_faults(self, kind: str, nth: int, times: int) -> None:
        """Queries are answered without what cannot be read, or with an error if there is no other way."""
        getattr(self.remote, kind)("any", ".idx", nth=nth, times=times)
        with suppress(StoreError, StorageUnavailable):
            for name in self.model.kinds:
                for value in {row[name] for row in self.model.visible() if row[name] == row[name]} - {None}:
                    self._check_filter(name, value)
        self.remote.up()

    @rule(kind=FAULTS, nth=st.integers(1, 3))
    def expire_with_a_fault(self, kind: str, nth: int) -> None:
        getattr(self.remote, kind)("any", nth=nth)
        self.engine.housekeeping.expire()
        self.engine._region(REGION).worker.call(lambda: None).result(30)
        self.remote.up()
        self.model.let_expired_go()

    @rule(kind=FAULTS, operation=OPERATIONS, nth=st.integers(1, 4))
    def truncate_with_a_fault(self, kind: str, operation: str, nth: int) -> None:
        self._with_fault(kind, operation, nth, lambda: self.engine.truncate(REGION).result(30))
        self.model.clear()

    @rule(kind=FAULTS, operation=OPERATIONS, nth=st.integers(1, 4))
    def add_column_with_a_fault(self, kind: str, operation: str, nth: int) -> None:
        name = f"c{self.added}"
        self.added += 1

        def add() -> None:
            with suppress(ColumnExists):
                self.engine.alter(REGION, [AddColumn(name, pa.int32(), default=7)]).result(30)

        self._with_fault(kind, operation, nth, add)
        self.model.kinds[name] = pa.int32()
        for row in self.model.everything():
            row[name] = pa.int32(), 7

    @rule(kind=FAULTS, operation=OPERATIONS, nth=st.integers(1, 8))
    def restart_with_a_fault(self, kind: str, operation: str, nth: int) -> None:
        self.engine.close(flush=False)

        def start() -> None:
            self.engine = self.open()

        self._with_fault(kind, operation, nth, start)
        assert not self.engine.quarantined

    @rule(number=st.integers(0, 99), percent=st.integers(0, 99), is_gone=st.booleans())
    def harm_the_cache(self, number: int, percent: int, is_gone: bool) -> None:
        # What is in the cache depends on its threads: nothing may be drawn from it.
        files = sorted(file for file in (self.root / "cache" / "files").rglob("*") if file.is_file())
        if not files:
            return
        file = files[number % len(files)]
        if is_gone:
            file.unlink()
            return
        content = bytearray(file.read_bytes())
        content[len(content) * percent // 100] ^= 0xFF
        file.write_bytes(content)
        for file_id in self.engine._region(REGION).manifest.state.files:
            self.engine.context.caches.evict_file(file_id)

    @invariant()
    def the_cache_is_within_its_bound(self) -> None:
        held = 0
        for file in (self.root / "cache").rglob("*.*"):
            with suppress(FileNotFoundError):  # evicted meanwhile
                held += file.stat().st_size if file.is_file() else 0
        assert held <= CACHE_BYTES


StoreModel.TestCase.settings = settings(
    max_examples=max(1, EXAMPLES // 6),
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.timeout(7200 if EXAMPLES > 100 else 900)
class TestStoreModel(StoreModel.TestCase):  # type: ignore[misc]
    """Runs the state machine."""

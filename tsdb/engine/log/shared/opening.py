"""Opening the shared log: take a term, seal those before it, read what they hold."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from tsdb.clock import Clock, SystemClock
from tsdb.engine.log.index import LogIndex
from tsdb.engine.log.shared.chains import Chains
from tsdb.engine.log.shared.collecting import Collector
from tsdb.engine.log.shared.container import NONCE_BYTES
from tsdb.engine.log.shared.history import read_history
from tsdb.engine.log.shared.layout import group_listing, node_prefix, noted_regions
from tsdb.engine.log.shared.log import LocalLog, SharedLog
from tsdb.engine.log.shared.marker import SharedMarker, mark_shared, write_marker
from tsdb.engine.log.shared.metrics import OPEN_SECONDS
from tsdb.engine.log.shared.notes import RegionNotes
from tsdb.engine.log.shared.settings import Acknowledge, SharedSettings
from tsdb.engine.log.shared.skipping import list_skipped
from tsdb.engine.log.shared.terms import Opening, note_tip, persist, read_opening, take_term
from tsdb.errors import StartError
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.store import Files, ObjectStore, Purpose, StoreError, requests_for
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.wal")


def open_shared_log(
    store: ObjectStore,
    directory: Path,
    settings: SharedSettings,
    *,
    open_local: Callable[[], LocalLog],
    place: str = "",
    files: Files | None = None,
    clock: Clock | None = None,
    ids: Ids = SYSTEM_IDS,
    starts: bool = True,
) -> SharedLog:
    """Take over the log of a node. From here on, a process that had it before can acknowledge nothing more.

    `directory` is that of the local log; `open_local` opens it, if it is used or holds something. Without `starts`, no
    thread ships anything. StartError if the store does not answer.
    """
    files, clock = files or Files(), clock or SystemClock()
    marker = mark_shared(files, directory, place=place, ids=ids)
    started_ns = clock.monotonic_ns()
    try:
        with requests_for(Purpose.LOG):
            opened = _Opened(store, settings, marker, clock, ids)
    except StoreError as error:
        raise StartError(f"cannot open the shared log in {place}: {error.message}", hint=error.hint) from error
    OPEN_SECONDS.set((clock.monotonic_ns() - started_ns) / 1e9)
    needs_local = settings.acknowledge is Acknowledge.LOCAL or has_segments(directory)

    def end(collector: Collector, is_drained: bool) -> None:
        opened.end_term(collector, is_drained=is_drained)
        write_marker(files, directory, marker._replace(is_drained=is_drained))

    log = SharedLog(
        store,
        term=opened.term,
        nonce=opened.nonce,
        history=opened.history,
        chains=opened.chains,
        notes=opened.notes,
        local=open_local() if needs_local else None,
        skipped=opened.skipped,
        is_stale=opened.is_stale,
        place=place,
        settings=settings,
        clock=clock,
        make_collector=opened.make_collector,
        on_sealed=end,
    )
    if starts:
        log.shipper.start()
    return log


def has_segments(directory: Path) -> bool:
    """Whether a local log is there."""
    return any(directory.glob("*.wal"))


class _Opened:
    """The store's side of one life of the log."""

    def __init__(
        self, store: ObjectStore, settings: SharedSettings, marker: SharedMarker, clock: Clock, ids: Ids
    ) -> None:
        self._store = store
        self._node = settings.node
        self._parallelism = settings.read_parallelism
        self._clock = clock
        self._retention = settings.retention
        by = f"{socket.gethostname()}, process {os.getpid()}"
        nonce = ids.token(NONCE_BYTES)
        self.nonce = bytes.fromhex(nonce)
        self.chains = Chains(store, settings, self.nonce, by, clock)
        found = persist(lambda: list(store.list(node_prefix(self._node))))
        known = group_listing(found, self._node)
        self.notes = RegionNotes(store, self._node, noted_regions(found, self._node))
        newest = max(known, default=0)
        before = read_opening(store, self._node, newest) if known else None
        self.is_stale = before is not None and before.directory != marker.directory
        opening = Opening(nonce, marker.directory, clock.now_ns() // 1_000_000, by)
        self.term = take_term(store, self._node, after=newest, opening=opening)
        # Listed again: another process may have taken a term meanwhile.
        self._listings = self.chains.seal(self._node, "a server was started", before=self.term)
        self.history = self.chains.read(self._node, self._listings)
        self.skipped = list_skipped(store)
        _log.info(
            "the shared log is open",
            node=self._node,
            term=self.term,
            objects=len(self.history.objects),
            terms=len(self._listings),
            is_stale=self.is_stale,
        )

    def make_collector(self, index: LogIndex) -> Collector:
        return Collector(self._store, self._node, index, self._listings, clock=self._clock, retention=self._retention)

    def end_term(self, collector: Collector, *, is_drained: bool) -> None:
        """Seal the own term, after everything was acknowledged."""
        listing = self.chains.fence(self._node, self.term, "the server was stopped")
        history = read_history(self._store, self._node, [listing], parallelism=self._parallelism, keep_bytes_max=0)
        tip = history.tips.get(self.term)
        if tip is None:
            raise StoreError("the fence of the shared log cannot be read", term=self.term)
        note_tip(self._store, self._node, self.term, tip)
        if is_drained:
            collector.finish(self.term, tip)

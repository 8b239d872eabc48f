"""The chain of a node: all its terms, sealed and read. Its own node does that at each start, another to take over."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tsdb.clock import Clock
from tsdb.engine.log.shared.history import History, read_history
from tsdb.engine.log.shared.layout import TermListing
from tsdb.engine.log.shared.sealing import place_fence
from tsdb.engine.log.shared.settings import SharedSettings
from tsdb.engine.log.shared.terms import list_terms, note_tip, persist
from tsdb.store import ObjectStore


@dataclass(frozen=True, slots=True)
class Chains:
    """Seals and reads the chains of nodes on behalf of one process."""

    store: ObjectStore
    settings: SharedSettings
    nonce: bytes
    by: str
    clock: Clock

    def seal(self, node: int, reason: str, *, before: int | None = None) -> list[TermListing]:
        """Let nothing more be acknowledged in the terms of a node, as listed now; return what they hold.

        With `before`, only in those below this one. A term that is taken later is one of a process that looks at the
        manifests of its regions later, too.
        """
        listings = persist(lambda: list_terms(self.store, node)).values()
        wanted = [each for each in listings if before is None or each.term < before]
        return [each if each.tip is not None else self.fence(node, each.term, reason) for each in wanted]

    def fence(self, node: int, term: int, reason: str) -> TermListing:
        return place_fence(self.store, node, term, nonce=self.nonce, by=self.by, reason=reason, clock=self.clock)

    def read(self, node: int, listings: list[TermListing]) -> History:
        """Read what terms hold that are sealed, and note their ends for others."""
        history = self._read(node, [each for each in listings if not each.is_drained])
        for listing in listings:
            tip = history.tips.get(listing.term)
            if listing.tip is None and tip is not None:
                note_tip(self.store, node, listing.term, tip)
                listing.tip = tip
        return history

    def read_own(self, term: int, acknowledged: int) -> History:
        """Read the own chain with the term that is open, as far as that is acknowledged."""
        node = self.settings.node
        listings = [each for each in persist(lambda: list_terms(self.store, node)).values() if each.term <= term]
        own = [each if each.term < term else _cut(each, acknowledged) for each in listings]
        return self._read(node, [each for each in own if not each.is_drained])

    def _read(self, node: int, listings: list[TermListing]) -> History:
        return read_history(
            self.store,
            node,
            listings,
            parallelism=self.settings.read_parallelism,
            keep_bytes_max=self.settings.read_bytes_max,
        )


def _cut(listing: TermListing, acknowledged: int) -> TermListing:
    """Leave out objects that are on their way."""
    return replace(listing, sizes={number: size for number, size in listing.sizes.items() if number < acknowledged})

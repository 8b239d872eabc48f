"""Takeovers after which rows may come late: what a region knows of nodes that lost it.

With `wal.shared.acknowledge = "local"` a node acknowledges rows before others can read them. The node that takes its
region over notes how far it could read: behind `entry_id` the lost node may have more. When it comes back it hands
those entries in. They keep their sequences, which lie in the gap that the takeover left out, so they lose against
everything that was written since, and a key that nobody has written since gets them.

`late_entry_id` grows in the same commit that adds the rows: an entry is handed in once, however often it is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

SEQUENCE_GAP = 1 << 32
"""How many sequences are left out where a region comes from another node: rows of its log that turn up later lose
against all that is written from then on."""
TAKEOVERS_MAX = 64
"""How many are remembered; the oldest is forgotten first, those that are complete before others."""
LATE_MS_MAX = 7 * 24 * 3600 * 1000
"""So long tombstones are kept for rows that may come late. Rows that come later than that may bring a key back that was
deleted since."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """A region was taken over from a node that may have acknowledged more than others could read."""

    node: int
    """The node that lost the region."""
    epoch: int
    """Of the node that took it over."""
    entry_id: int
    """The last entry that could be read."""
    sequence: int
    """Of the last row that could be read: those that may come late lie in the gap behind it."""
    at_ms: int
    late_entry_id: int = 0
    """The last entry that was handed in."""
    late_rows: int = 0
    is_complete: bool = False
    """Nothing comes any more: everything was handed in, or it is void because of a truncation."""

    def covers(self, base_sequence: int) -> bool:
        """Whether rows with this sequence are among those that may come late."""
        return self.sequence < base_sequence <= self.sequence + SEQUENCE_GAP

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read_takeovers(values: Iterable[dict[str, Any]]) -> tuple[Takeover, ...]:
    return tuple(Takeover(**each) for each in values)


def join_takeovers(known: tuple[Takeover, ...], changed: Iterable[Takeover]) -> tuple[Takeover, ...]:
    """Return all takeovers, in the order of epochs, with those that are new or have changed."""
    by_key = {(each.epoch, each.node): each for each in (*known, *changed)}
    found = [by_key[key] for key in sorted(by_key)]
    while len(found) > TAKEOVERS_MAX:
        found.remove(next((each for each in found if each.is_complete), found[0]))
    return tuple(found)


def end_takeovers(known: tuple[Takeover, ...]) -> tuple[Takeover, ...]:
    """Let nothing come late any more: all rows of the region are gone."""
    return tuple(replace(each, is_complete=True) for each in known)


def awaits_late_rows(takeovers: Iterable[Takeover], now_ms: int) -> bool:
    """Whether older rows may come that a tombstone has to hide."""
    return any(not each.is_complete and now_ms - each.at_ms < LATE_MS_MAX for each in takeovers)

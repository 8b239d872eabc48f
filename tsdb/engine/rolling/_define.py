"""What is placed of a region before entries are replayed into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from tsdb.engine.log.shared import RegionNote
from tsdb.engine.manifest import ManifestState
from tsdb.engine.rolling._runs import EntryRun, needed_runs


class PlacedRegion(NamedTuple):
    """What a copy of a region is before entries are replayed."""

    manifest: dict[str, Any]
    floor: int
    """The last entry that is in it, or void."""
    keeps_files: bool
    """It has the data files of the backup."""
    needed: int
    """Entries up to this one were in the log, or are in the data files."""


def define_region(backup: Mapping[str, Any] | None, note: RegionNote | None, runs: Sequence[EntryRun]) -> PlacedRegion:
    """Say what is placed of a region, given its manifest in the backup, what was last noted of it, and its entries.

    LookupError if nothing is known of the region.
    """
    state = None if backup is None else ManifestState.from_json(dict(backup))
    noted = None if note is None else ManifestState.from_json(dict(note.manifest))
    if noted is None or (state is not None and noted.version <= state.version):
        if state is None:
            raise LookupError
        return PlacedRegion(state.to_json(), state.flushed_entry_id, True, state.flushed_entry_id)
    needed = noted.flushed_entry_id
    if state is not None and noted.truncated_entry_id == state.truncated_entry_id:
        changed = {"schema": noted.schema.to_json(), "options": noted.options.to_json(), "version": noted.version}
        return PlacedRegion({**state.to_json(), **changed}, state.flushed_entry_id, True, needed)
    floor = noted.truncated_entry_id or 0
    rolled = needed_runs(runs, floor)
    # What counts as flushed must be below the first row that is replayed, and above all that were there before.
    sequence = rolled[0].first_sequence - 1 if rolled else noted.flushed_sequence
    empty = replace(
        noted,
        files=MappingProxyType({}),
        flushed_entry_id=floor,
        flushed_sequence=sequence,
        # A copy has had no owner.
        epoch=0,
        takeovers=(),
    )
    return PlacedRegion(empty.to_json(), floor, False, needed)

"""Recording definitions of regions in a log with retention, for point-in-time recovery.

A definition is recorded once the manifest has it, however that came about, and before rows are written under it.
Events that do not follow from definitions and rows are recorded before they happen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tsdb.engine.log.shared import Journal, RegionNote
from tsdb.engine.manifest import ManifestState
from tsdb.engine.region.context import EngineContext
from tsdb.model import RegionOptions

if TYPE_CHECKING:
    from tsdb.engine.region.region import Region

Definition = tuple[int, RegionOptions, int | None]

NOTED = "noted"
CREATED = "created"
CHANGED = "changed"
DISCARDED = "rows in memory were discarded"
"""By `ADMIN discard_unflushed`."""
FILES_REMOVED = "data files were removed by a range of time"
HANDED_IN = "rows of a node that was lost were handed in"
"""Like the others: logs are kept for years, and a restore finds these events by their exact texts."""


def journal_of(context: EngineContext) -> Journal | None:
    node_log = context.wal.node_log
    return None if node_log is None else node_log.journal


def definition_of(state: ManifestState) -> Definition:
    """Return what tells two definitions of a region apart."""
    return state.schema.version, state.options, state.truncated_entry_id


def describe(region: Region, what: str) -> RegionNote:
    """Return what a region is now, and remember that it is noted."""
    state = region.manifest.state
    region.noted = definition_of(state)
    bare = replace(state, files=MappingProxyType({}), removed_files=(), quarantined=MappingProxyType({}))
    return RegionNote(region.id, region.directory, region.table, what, bare.to_json())


def note_if_changed(context: EngineContext, region: Region) -> None:
    """Note a region whose definition is another one than before. On the worker."""
    if region.noted != definition_of(region.manifest.state):
        note(context, region, CHANGED)


def note_arrived(context: EngineContext, regions: Iterable[Region]) -> None:
    """Note regions that have come from other nodes, whose last change may not be noted there."""
    journal, arrived = journal_of(context), [describe(region, NOTED) for region in regions]
    if journal is not None and arrived:
        journal.write_regions(arrived)


def note(context: EngineContext, region: Region, what: str) -> None:
    """Note a region, and what happens to it."""
    journal = journal_of(context)
    if journal is not None:
        journal.write_region(describe(region, what))

"""Changing a region: alter, options, truncate. Each runs on the region's worker.

None of them waits for a flush: an alter freezes the memtable, which keeps the schema its rows were written under; a
truncate makes a flush in progress discard its files.
"""

from __future__ import annotations

from dataclasses import replace

from tsdb.engine.manifest import Change, Edit, Truncate
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.noting import DISCARDED, note
from tsdb.engine.region.region import Region
from tsdb.engine.sst import check_storable
from tsdb.errors import TsdbError, Unsupported
from tsdb.model import RegionOptions, SchemaChange, alter
from tsdb.store import crash_point
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.region")

CRASH_POINTS = (
    "alter.before_manifest",
    "alter.after_manifest",
    "options.before_manifest",
    "options.after_manifest",
    "truncate.before_manifest",
    "truncate.after_manifest",
    "discard.before_manifest",
    "discard.after_manifest",
)


def alter_schema(context: EngineContext, region: Region, changes: list[SchemaChange]) -> None:
    """Apply changes to the schema; an impossible one changes nothing."""
    region.check_writable()
    # The schema to change may be one whose commit has an unknown outcome.
    region.resolve(context)
    schema = alter(region.version.schema, changes)
    check_storable(schema)
    crash_point("alter.before_manifest")
    region.commit(context, Change(schema=schema))
    crash_point("alter.after_manifest")


def set_options(context: EngineContext, region: Region, options: RegionOptions) -> None:
    """Change the region's options.

    A region that switches to append mode records from which sequence on: rows that it has by then may be deleted or
    overwritten ones, which only merging hides, so they go on being merged as they were.
    """
    if region.access.is_paused:
        region.resolve(context)
    region.check_writable()
    region.resolve(context)
    old = region.version.options
    if old.append_mode and not options.append_mode:
        raise Unsupported("a region in append mode may hold duplicates and cannot leave it", region_id=region.id)
    if old.append_mode:
        options = replace(options, append_from=old.append_from, merge_mode=old.merge_mode)
    elif options.append_mode:
        options = replace(options, append_from=_next_sequence(region), merge_mode=old.merge_mode)
    crash_point("options.before_manifest")
    try:
        region.commit(context, Change(options=options))
    except TsdbError:
        if options.append_mode and not old.append_mode and region.manifest.is_uncertain:
            # A row that is written now would count as one of append mode if the change turns out to be in effect.
            region.access.pause("it is unknown whether the region is in append mode")
        raise
    crash_point("options.after_manifest")


def _next_sequence(region: Region) -> int:
    """The sequence of the next row; 0 if there is none before it."""
    version = region.version
    is_empty = not version.files and all(memtable.is_empty for memtable in version.memtables)
    return 0 if is_empty else region.written.sequence + 1


def truncate(context: EngineContext, region: Region, token: str | None = None) -> None:
    """Delete every current row; do nothing if the last truncation had the same token."""
    region.check_writable()
    region.resolve(context)
    if token is not None and region.manifest.state.truncation == token:
        return
    region.freeze(context)
    crash_point("truncate.before_manifest")
    region.commit(context, Truncate(region.written.entry_id, region.written.sequence, token))
    crash_point("truncate.after_manifest")


def discard_unflushed(context: EngineContext, region: Region) -> None:
    """Discard every row that is not in a file. The log up to now counts as flushed, so no replay has these rows."""
    region.check_writable()
    region.resolve(context)
    region.freeze(context)
    if not region.version.frozen:
        return
    note(context, region, DISCARDED)
    crash_point("discard.before_manifest")
    region.commit(context, Edit(flushed_entry_id=region.written.entry_id, flushed_sequence=region.written.sequence))
    crash_point("discard.after_manifest")
    _log.warning("rows that were not flushed are discarded", region=region.id, table=region.table)

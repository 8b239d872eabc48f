"""What an action makes of a state: pure, and strict.

An action that does not fit the state is a bug of its author. Recording it anyway would turn a wrong plan into
lost or doubled rows, so it is refused before it is written, and a manifest that holds one is corrupted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import assert_never

from tsdb.engine.errors import InvalidManifestAction
from tsdb.engine.manifest._actions import Action, Change, Delta, Edit, Forget, Remove, Truncate
from tsdb.engine.manifest._state import ManifestState, QuarantinedFile, RemovedFile
from tsdb.engine.manifest._takeovers import end_takeovers, join_takeovers


def apply_delta(state: ManifestState | None, delta: Delta) -> ManifestState:
    """Return the state after a delta, None being the state before the first, or raise InvalidManifestAction."""
    if state is None:
        state, actions = _begin(delta), delta.actions[1:]
    else:
        actions = delta.actions
    if delta.region_id != state.region_id:
        raise _refusal(state, f"a delta belongs to region {delta.region_id}")
    if delta.version != state.version + 1:
        raise _refusal(state, f"version {delta.version} does not follow version {state.version}")
    if delta.epoch < state.epoch:
        raise _refusal(state, f"the epoch went backwards, from {state.epoch} to {delta.epoch}")
    for action in actions:
        state = apply(state, action, now_ms=delta.at_ms)
    return replace(state, version=delta.version, epoch=delta.epoch)


def _begin(delta: Delta) -> ManifestState:
    match delta.actions[:1]:
        case (Change(schema=schema, options=options),) if schema is not None and options is not None:
            return ManifestState(delta.region_id, schema, options)
    raise InvalidManifestAction(
        "the first delta does not begin with a schema and options", region_id=delta.region_id, version=delta.version
    )


def apply(state: ManifestState, action: Action, *, now_ms: int) -> ManifestState:
    """Return the state after an action, or raise InvalidManifestAction. The version is left to the delta."""
    if state.is_removed:
        raise _refusal(state, f"the region is removed, nothing can follow, yet {type(action).__name__} does")
    match action:
        case Change():
            return _apply_change(state, action)
        case Edit():
            return _apply_edit(state, action, now_ms)
        case Truncate():
            return _apply_truncate(state, action, now_ms)
        case Remove():
            return replace(_without(state, state.files, now_ms), is_removed=True)
        case Forget():
            return _apply_forget(state, action)
        case _:
            assert_never(action)


def _apply_change(state: ManifestState, action: Change) -> ManifestState:
    if action.schema is None and action.options is None:
        raise _refusal(state, "a change names neither a schema nor options")
    if action.schema is not None and action.schema.version <= state.schema.version:
        versions = f"version {action.schema.version} does not follow version {state.schema.version}"
        raise _refusal(state, f"the schema went backwards: {versions}")
    return replace(state, schema=action.schema or state.schema, options=action.options or state.options)


def _apply_edit(state: ManifestState, action: Edit, now_ms: int) -> ManifestState:
    window = action.compaction_window_seconds
    if window is not None and window <= 0:
        raise _refusal(state, f"a compaction window of {window} seconds is not positive")
    _check_removable(state, action.removed)
    _check_addable(state, [file.file_id for file in action.added])
    rest = _without(state, action.removed, now_ms)
    files = {**rest.files, **{file.file_id: file for file in action.added}}
    return replace(
        rest,
        files=MappingProxyType(files),
        flushed_entry_id=_advance(state, "flushed_entry_id", action.flushed_entry_id),
        flushed_sequence=_advance(state, "flushed_sequence", action.flushed_sequence),
        compaction_window_seconds=window or state.compaction_window_seconds,
        quarantined=_quarantine(rest, action),
        takeovers=join_takeovers(state.takeovers, action.takeovers) if action.takeovers else state.takeovers,
    )


def _quarantine(state: ManifestState, action: Edit) -> Mapping[str, QuarantinedFile]:
    """Return the quarantined files after an edit, given the state without the files that it removes."""
    named = [file.file_id for file in action.quarantined]
    strange = _distinct(state, named) - state.files.keys()
    if strange:
        raise _refusal(state, f"files are quarantined that are not there: {_listed(strange)}")
    free = _distinct(state, action.released) - state.quarantined.keys()
    if free:
        raise _refusal(state, f"files are released that are not quarantined: {_listed(free)}")
    kept = {file_id: file for file_id, file in state.quarantined.items() if file_id not in action.released}
    return MappingProxyType({**kept, **{file.file_id: file for file in action.quarantined}})


def _apply_truncate(state: ManifestState, action: Truncate, now_ms: int) -> ManifestState:
    return replace(
        _without(state, state.files, now_ms),
        flushed_entry_id=_advance(state, "flushed_entry_id", action.entry_id),
        flushed_sequence=_advance(state, "flushed_sequence", action.sequence),
        truncated_entry_id=action.entry_id,
        truncation=action.token,
        takeovers=end_takeovers(state.takeovers),
    )


def _apply_forget(state: ManifestState, action: Forget) -> ManifestState:
    gone = _distinct(state, action.file_ids)
    unknown = gone - {removed.file_id for removed in state.removed_files}
    if unknown:
        raise _refusal(state, f"files are forgotten that were not removed: {_listed(unknown)}")
    kept = tuple(removed for removed in state.removed_files if removed.file_id not in gone)
    return replace(state, removed_files=kept)


def _check_removable(state: ManifestState, file_ids: Collection[str]) -> None:
    missing = _distinct(state, file_ids) - state.files.keys()
    if missing:
        raise _refusal(state, f"files are removed that are not there: {_listed(missing)}")


def _check_addable(state: ManifestState, file_ids: Collection[str]) -> None:
    added = _distinct(state, file_ids)
    # A file that was removed is deleted sooner or later: one of the same name would be deleted with it.
    taken = added & (state.files.keys() | {removed.file_id for removed in state.removed_files})
    if taken:
        raise _refusal(state, f"files are added that are or were there: {_listed(taken)}")


def _without(state: ManifestState, file_ids: Collection[str], now_ms: int) -> ManifestState:
    """Move files from those that are part of the region to those that once were."""
    gone = set(file_ids)
    if not gone:
        return state
    files = {file_id: file for file_id, file in state.files.items() if file_id not in gone}
    removed = tuple(RemovedFile(file_id, now_ms) for file_id in state.files if file_id in gone)
    quarantined = {file_id: file for file_id, file in state.quarantined.items() if file_id not in gone}
    return replace(
        state,
        files=MappingProxyType(files),
        removed_files=state.removed_files + removed,
        quarantined=MappingProxyType(quarantined),
    )


def _advance(state: ManifestState, name: str, value: int | None) -> int:
    current: int = getattr(state, name)
    if value is None:
        return current
    if value < current:
        raise _refusal(state, f"{name} went backwards, from {current} to {value}")
    return value


def _distinct(state: ManifestState, file_ids: Collection[str]) -> set[str]:
    distinct = set(file_ids)
    if len(distinct) != len(file_ids):
        raise _refusal(state, f"an action names a file twice: {_listed(file_ids)}")
    return distinct


def _listed(file_ids: Iterable[str]) -> str:
    return ", ".join(sorted(file_ids))


def _refusal(state: ManifestState, reason: str) -> InvalidManifestAction:
    return InvalidManifestAction(reason, region_id=state.region_id, version=state.version)

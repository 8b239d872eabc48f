"""A manifest's state as plainly as it can be written: the oracle of the property tests."""

from __future__ import annotations

from tsdb.engine.manifest import Action, Change, Edit, FileMeta, Forget, ManifestState, Remove, Truncate
from tsdb.model import RegionOptions, RegionSchema


class Model:
    """Dictionaries and lists that change in place."""

    def __init__(self, schema: RegionSchema, options: RegionOptions) -> None:
        self.schema = schema
        self.options = options
        self.files: dict[str, FileMeta] = {}
        self.removed: dict[str, int] = {}
        self.quarantined: dict[str, str] = {}
        self.flushed = (0, 0)
        self.truncated: int | None = None
        self.window: int | None = None
        self.is_removed = False

    def accepts(self, action: Action) -> bool:
        if self.is_removed:
            return False
        match action:
            case Change(schema=None, options=None):
                return False
            case Change(schema=schema):
                return schema is None or schema.version > self.schema.version
            case Edit():
                return self._accepts_edit(action)
            case Truncate(entry_id, sequence):
                return entry_id >= self.flushed[0] and sequence >= self.flushed[1]
            case Remove():
                return True
            case Forget(file_ids):
                return len(set(file_ids)) == len(file_ids) and all(each in self.removed for each in file_ids)

    def _accepts_edit(self, action: Edit) -> bool:
        added = [file.file_id for file in action.added]
        return (
            all(file_id in self.files for file_id in action.removed)
            and not any(file_id in self.files or file_id in self.removed for file_id in added)
            and len(set(added)) == len(added)
            and len(set(action.removed)) == len(action.removed)
            and (action.flushed_entry_id is None or action.flushed_entry_id >= self.flushed[0])
            and (action.flushed_sequence is None or action.flushed_sequence >= self.flushed[1])
            and (action.compaction_window_seconds is None or action.compaction_window_seconds > 0)
            and self._accepts_quarantine(action)
        )

    def _accepts_quarantine(self, action: Edit) -> bool:
        """Files that the edit removes are neither quarantined nor released by it."""
        named = [file.file_id for file in action.quarantined]
        return (
            all(file_id in self.files and file_id not in action.removed for file_id in named)
            and all(file_id in self.quarantined and file_id not in action.removed for file_id in action.released)
            and len(set(named)) == len(named)
            and len(set(action.released)) == len(action.released)
        )

    def do(self, action: Action, now_ms: int) -> None:
        match action:
            case Change(schema, options):
                self.schema = schema or self.schema
                self.options = options or self.options
            case Edit():
                self._drop(set(action.removed), now_ms)
                for file_id in action.released:
                    del self.quarantined[file_id]
                self.quarantined.update({file.file_id: file.reason for file in action.quarantined})
                self.files.update({file.file_id: file for file in action.added})
                entry_id, sequence = action.flushed_entry_id, action.flushed_sequence
                self.flushed = (
                    self.flushed[0] if entry_id is None else entry_id,
                    self.flushed[1] if sequence is None else sequence,
                )
                self.window = action.compaction_window_seconds or self.window
            case Truncate(entry_id, sequence):
                self._drop(set(self.files), now_ms)
                self.flushed = (entry_id, sequence)
                self.truncated = entry_id
            case Remove():
                self._drop(set(self.files), now_ms)
                self.is_removed = True
            case Forget(file_ids):
                for file_id in file_ids:
                    del self.removed[file_id]

    def _drop(self, file_ids: set[str], now_ms: int) -> None:
        for file_id in file_ids:
            del self.files[file_id]
            self.quarantined.pop(file_id, None)
            self.removed[file_id] = now_ms

    def check(self, state: ManifestState) -> None:
        """Fail unless the state says the same."""
        assert state.schema == self.schema
        assert state.options == self.options
        assert state.files == self.files
        assert {removed.file_id: removed.removed_at_ms for removed in state.removed_files} == self.removed
        assert {file_id: file.reason for file_id, file in state.quarantined.items()} == self.quarantined
        assert (state.flushed_entry_id, state.flushed_sequence) == self.flushed
        assert state.truncated_entry_id == self.truncated
        assert state.compaction_window_seconds == self.window
        assert state.is_removed == self.is_removed

"""Reading a manifest: the newest checkpoint that is whole, then every delta behind it.

The pointer saves listing what a checkpoint has made obsolete. It is only a hint about where to begin: if it is missing
or wrong, the listing finds the newest checkpoint. But it is proof of a version that was reached, as is a checkpoint
that is damaged: a manifest that ends before such a version has lost something, and that is an error rather than an
older state. So is a gap between versions. Deltas that a checkpoint covers are leftovers and are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tsdb.engine.errors import InvalidManifestAction, ManifestCorrupted, ManifestNotFound
from tsdb.engine.manifest._apply import apply_delta
from tsdb.engine.manifest._codec import Pointer, parse_checkpoint, parse_delta, parse_pointer
from tsdb.engine.manifest._layout import (
    before_version,
    checkpoint_path,
    delta_path,
    manifest_directory,
    parse_manifest_path,
    pointer_path,
)
from tsdb.engine.manifest._state import ManifestState
from tsdb.store import ObjectMeta, ObjectNotFound, ObjectStore
from tsdb.telemetry import get_logger

log = get_logger(__name__)

READ_ATTEMPTS_MAX = 5
"""How often the objects of a manifest may be deleted, by the checkpoints of its writer, while they are being read."""


@dataclass(frozen=True, slots=True)
class RecoveredManifest:
    """A manifest as the store has it."""

    state: ManifestState
    checkpoint_version: int
    """The checkpoint it was read from; 0 if it was read from its first delta on."""
    size_bytes: int
    """Of that checkpoint and the deltas behind it."""


def read_manifest(store: ObjectStore, directory: str, objects: Sequence[ObjectMeta] | None = None) -> RecoveredManifest:
    """Read the newest state, or raise ManifestNotFound or ManifestCorrupted.

    `objects` are those of the directory, if they are known; they are not looked at twice.
    """
    attempts = 0
    while True:
        try:
            return _Reader(store, directory, None if attempts else objects).read()
        except ObjectNotFound as error:
            file = str(error.fields["path"])
            attempts += 1
            if attempts == READ_ATTEMPTS_MAX:
                raise ManifestCorrupted(file=file, reason="it is listed but cannot be read") from error
            log.info("manifest changed while it was read", file=file, attempts=attempts)


@dataclass(slots=True)
class _Listing:
    deltas: list[int] = field(default_factory=list)
    checkpoints: list[int] = field(default_factory=list)


class _Reader:
    """One pass over a manifest."""

    def __init__(self, store: ObjectStore, directory: str, objects: Sequence[ObjectMeta] | None) -> None:
        self._store = store
        self._directory = directory
        self._objects = objects
        self._base_bytes = self._delta_bytes = 0
        self._damaged: dict[int, ManifestCorrupted] = {}
        """Checkpoints that could not be read, by version."""

    def read(self) -> RecoveredManifest:
        pointer = self._read_pointer()
        base = None if pointer is None else self._read_pointed(pointer)
        listing = self._list(after=0 if base is None else base.version)
        base = self._newest_checkpoint(listing) or base
        base_version = 0 if base is None else base.version
        state = self._replay(base, [version for version in listing.deltas if version > base_version])
        if state is None:
            if pointer is None and not self._damaged:
                raise ManifestNotFound(directory=self._directory)
            raise self._loss(self._directory, "neither a whole checkpoint nor a first delta is there", version=0)
        self._check_reached(state, pointer)
        return RecoveredManifest(state, base_version, self._base_bytes + self._delta_bytes)

    def _read_pointer(self) -> Pointer | None:
        path = pointer_path(self._directory)
        try:
            return parse_pointer(self._store.get(path), path=path)
        except ObjectNotFound:
            return None
        except ManifestCorrupted as error:
            log.warning("manifest pointer is damaged, listing instead", file=path, reason=error.reason)
            return None

    def _read_pointed(self, pointer: Pointer) -> ManifestState | None:
        path = checkpoint_path(self._directory, pointer.version)
        try:
            content = self._store.get(path)
        except ObjectNotFound:
            log.warning("manifest pointer names a checkpoint that is not there, listing instead", file=path)
            return None
        if not pointer.matches(content):
            log.warning("manifest pointer does not match its checkpoint, listing instead", file=path)
            return None
        return self._parse_checkpoint(content, pointer.version)

    def _list(self, *, after: int) -> _Listing:
        listing = _Listing()
        start = before_version(self._directory, after + 1)
        objects: Iterable[ObjectMeta] | None = self._objects
        if objects is None:
            objects = self._store.list(manifest_directory(self._directory), start_after=start)
        for found in objects:
            name = parse_manifest_path(self._directory, found.path)
            if name is not None and found.path > start:
                (listing.checkpoints if name.is_checkpoint else listing.deltas).append(name.version)
        return listing

    def _newest_checkpoint(self, listing: _Listing) -> ManifestState | None:
        for version in reversed(listing.checkpoints):
            content = self._store.get(checkpoint_path(self._directory, version))
            state = self._parse_checkpoint(content, version)
            if state is not None:
                return state
        return None

    def _parse_checkpoint(self, content: bytes, version: int) -> ManifestState | None:
        path = checkpoint_path(self._directory, version)
        try:
            state = parse_checkpoint(content, path=path)
            if state.version != version:
                raise ManifestCorrupted(file=path, reason=f"it holds version {state.version}")
            self._base_bytes = len(content)
            return state
        except ManifestCorrupted as error:
            log.warning("manifest checkpoint is damaged, trying an older one", file=path, reason=error.reason)
            self._damaged[version] = error
            return None

    def _replay(self, state: ManifestState | None, versions: list[int]) -> ManifestState | None:
        expected = 1 if state is None else state.version + 1
        for version in versions:
            path = delta_path(self._directory, expected)
            if version != expected:
                raise self._loss(path, f"it is missing, the next delta is version {version}", version=expected)
            content = self._store.get(path)
            self._delta_bytes += len(content)
            delta = parse_delta(content, path=path)
            if delta.version != version:
                raise ManifestCorrupted(file=path, reason=f"it holds version {delta.version}")
            try:
                state = apply_delta(state, delta)
            except InvalidManifestAction as error:
                raise ManifestCorrupted(file=path, reason=error.message) from error
            expected += 1
        return state

    def _check_reached(self, state: ManifestState, pointer: Pointer | None) -> None:
        reached = max([*self._damaged, 0 if pointer is None else pointer.version])
        if state.version < reached:
            path = delta_path(self._directory, state.version + 1)
            raise self._loss(path, f"it is missing, version {reached} was reached once", version=state.version + 1)

    def _loss(self, path: str, reason: str, *, version: int) -> ManifestCorrupted:
        """Say what is missing, or rather which damaged checkpoint would have covered it."""
        for damaged_version, error in self._damaged.items():
            if damaged_version >= version:
                return error
        return ManifestCorrupted(file=path, reason=reason)

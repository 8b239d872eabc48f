"""The manifest of one region: which files it is made of, as a chain of immutable versions in the store.

A commit writes the next version put-if-absent. That one step is the commit: before it nothing has changed, after it
everything has. It is also the fence: of two writers that build on the same version, one finds its place taken.

Invariants:

- `state` is always a version that is durable in the store and part of the region's history.
- A version is written once and never changed; versions have no gaps.
- The epochs along the chain never fall: a writer with an older epoch cannot commit behind a newer one.
- When a disk fails after a version is in its place, it may be gone again after a power loss. So nothing is written
  behind it: the manifest is broken until the next start, which builds on what it finds.
- While it is unknown whether a version was written, nothing else is. `recover` finds out, and if the version is not
  there, fills its place with an empty one, so that a request that is still under way cannot come into effect later.
- A version counts as committed only if nothing newer was there. Checkpoints delete old versions, so a writer that
  slept for long enough would find the place free that others have long passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tsdb.clock import Clock
from tsdb.engine.errors import (
    ManifestCorrupted,
    ManifestFenced,
    ManifestMismatch,
    ManifestNotDurable,
    ManifestNotFound,
    ManifestUncertain,
    is_of_disk,
)
from tsdb.engine.manifest._actions import Action, Change, Delta, Forget
from tsdb.engine.manifest._apply import apply_delta
from tsdb.engine.manifest._checkpoint import delete_covered, write_checkpoint
from tsdb.engine.manifest._codec import encode_delta, parse_delta, parse_pointer
from tsdb.engine.manifest._layout import (
    before_version,
    delta_path,
    manifest_directory,
    parse_manifest_path,
    pointer_path,
)
from tsdb.engine.manifest._recover import RecoveredManifest, read_manifest
from tsdb.engine.manifest._state import ManifestState
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.model import RegionId, RegionOptions, RegionSchema
from tsdb.store import ObjectExists, ObjectMeta, ObjectNotFound, ObjectStore, StoreError, crash_point
from tsdb.telemetry import get_logger

log = get_logger(__name__)

_WRITER_BYTES = 8
CLAIM_ATTEMPTS_MAX = 16
"""How many commits of an older writer may come in between while a new one claims the region."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A version whose fate is open: what we tried to write there, and what to fill its place with instead."""

    version: int
    content: bytes
    state: ManifestState
    filler: bytes
    filler_state: ManifestState


class Manifest:
    """The manifest of one region, open for one writer.

    Not safe for concurrent use, with two exceptions: `state` may be read by any thread at any time, and one
    `checkpoint` may run beside the other calls. All calls but `state` and `needs_checkpoint` wait for the store.
    """

    def __init__(
        self,
        store: ObjectStore,
        directory: str,
        recovered: RecoveredManifest,
        *,
        epoch: int,
        checkpoint_distance: int,
        clock: Clock,
        ids: Ids = SYSTEM_IDS,
    ) -> None:
        self._store = store
        self._directory = directory
        self._state = recovered.state
        self._checkpoint_version = recovered.checkpoint_version
        self._size_bytes = recovered.size_bytes
        self._epoch = epoch
        self._checkpoint_distance = checkpoint_distance
        self._clock = clock
        self._writer = ids.token(_WRITER_BYTES)
        self._open_attempt: _Attempt | None = None
        self._is_broken = False
        self._has_company = False
        """There may be versions that are unknown here: the pointer of this writer may hide that of another."""
        self._forgotten: set[str] = set()

    @classmethod
    def create(
        cls,
        store: ObjectStore,
        directory: str,
        region_id: RegionId,
        schema: RegionSchema,
        options: RegionOptions,
        *,
        epoch: int,
        checkpoint_distance: int,
        clock: Clock,
        ids: Ids = SYSTEM_IDS,
    ) -> Manifest:
        """Begin a manifest, or open the one that is there; ManifestMismatch if that is another region's.

        After a StoreError it may have been created or not: create it again. Not so after ManifestNotDurable.
        """

        def open_created() -> Manifest:
            manifest = cls.open(
                store, directory, region_id, epoch=epoch, checkpoint_distance=checkpoint_distance, clock=clock, ids=ids
            )
            manifest._check_created_as(schema)
            return manifest

        try:
            return open_created()
        except ManifestNotFound:
            actions = (Change(schema, options),)
        delta = Delta(region_id, 1, epoch, ids.token(_WRITER_BYTES), clock.now_ns() // 1_000_000, actions)
        _put_delta(store, directory, region_id, delta.version, encode_delta(delta))
        # Another writer may have been first, so what counts is what is there now.
        return open_created()

    @classmethod
    def open(
        cls,
        store: ObjectStore,
        directory: str,
        region_id: RegionId,
        *,
        epoch: int,
        checkpoint_distance: int,
        clock: Clock,
        ids: Ids = SYSTEM_IDS,
        objects: Sequence[ObjectMeta] | None = None,
    ) -> Manifest:
        """Read a manifest. ManifestNotFound if there is none, ManifestCorrupted if it cannot be read to its end.

        `objects` are those of the directory, for a caller that has listed it already.
        """
        recovered = read_manifest(store, directory, objects)
        if recovered.state.region_id != region_id:
            reason = f"it belongs to region {recovered.state.region_id}, not to region {region_id}"
            raise ManifestCorrupted(file=manifest_directory(directory), reason=reason)
        return cls(
            store, directory, recovered, epoch=epoch, checkpoint_distance=checkpoint_distance, clock=clock, ids=ids
        )

    @property
    def state(self) -> ManifestState:
        """The newest version that is known to be durable."""
        return self._state

    @property
    def epoch(self) -> int:
        """The epoch this writer commits under."""
        return self._epoch

    @property
    def is_uncertain(self) -> bool:
        """Whether the fate of a commit is unknown, so that `recover` must come next."""
        return self._open_attempt is not None

    @property
    def is_broken(self) -> bool:
        """Whether a commit may not be durable, so that there can be no other before a restart."""
        return self._is_broken

    @property
    def size_bytes(self) -> int:
        """The size of the newest checkpoint and the deltas behind it."""
        return self._size_bytes

    @property
    def needs_checkpoint(self) -> bool:
        """Whether there are enough deltas behind the last checkpoint for a new one."""
        deltas = self._state.version - self._checkpoint_version
        return 0 < self._checkpoint_distance <= deltas

    def commit(self, actions: Action | Iterable[Action]) -> ManifestState:
        """Make actions durable, all of them or none, and return the new state. Nothing to do is no new version.

        - InvalidManifestAction: they do not fit; nothing was written.
        - ManifestFenced: another writer has the region.
        - ManifestUncertain: keep the files they name, and call `recover` before anything else.
        - ManifestNotDurable: keep the files they name, and commit nothing more.
        """
        self._check_writable()
        given = (actions,) if isinstance(actions, Action) else tuple(actions)
        forgotten = tuple(each.file_id for each in self._state.removed_files if each.file_id in self._forgotten)
        if forgotten:
            given = (Forget(forgotten), *given)
        if given:
            self._write(given)
        return self._state

    def forget_removed(self, file_ids: Iterable[str]) -> None:
        """Note that removed files are deleted; the next commit takes them off `state.removed_files`.

        The note is lost if the process ends before: deleting a file that is gone already must be no error.
        """
        self._forgotten.update(file_ids)

    def claim(self, *, always: bool = False) -> ManifestState:
        """Put this writer's epoch into the manifest, so that no writer of an older epoch can commit any more.

        For a writer that takes a region over: what the older one committed until then is part of the state afterwards.
        With `always`, a writer of the same epoch cannot either: a process of the same node that was thought to be dead.
        """
        self._check_writable()
        must_write = always
        for attempt in range(1, CLAIM_ATTEMPTS_MAX + 1):
            if self._state.epoch == self._epoch and not must_write:
                break
            try:
                self._write(())
                must_write = False
            except ManifestFenced:
                if attempt == CLAIM_ATTEMPTS_MAX:
                    raise
                self.refresh()
                self._check_writable()
        return self._state

    def refresh(self) -> ManifestState:
        """Read what other writers have committed: for followers, and before taking over."""
        self._check_certain()
        recovered = read_manifest(self._store, self._directory)
        if recovered.state.version < self._state.version:
            file = delta_path(self._directory, self._state.version)
            raise ManifestCorrupted(file=file, reason=f"it is gone, version {recovered.state.version} is the last")
        self._checkpoint_version = recovered.checkpoint_version
        self._size_bytes = recovered.size_bytes
        self._state = recovered.state
        return self._state

    def recover(self) -> bool:
        """Find out whether the commit that ended in ManifestUncertain is in effect; False if there is none.

        Raises ManifestUncertain as long as the store fails, ManifestFenced if another writer has the region.
        """
        attempt = self._open_attempt
        if attempt is None:
            return False
        if self._is_broken:
            raise ManifestNotDurable(region_id=self._state.region_id, version=attempt.version)
        with self._uncertain(attempt):
            found = self._find(attempt.version)
            if found is None:
                is_filled = self._put(attempt.version, attempt.filler)
                found = attempt.filler if is_filled else self._find(attempt.version)
            has_landed = self._settle(attempt, found)
        log.info("manifest recovered", region=self._state.region_id, version=attempt.version, has_landed=has_landed)
        return has_landed

    def checkpoint(self) -> None:
        """Write a checkpoint of the state and delete what it covers; StoreError if it could not be written."""
        state = self._state
        if state.version == self._checkpoint_version:
            return
        size_bytes = write_checkpoint(self._store, self._directory, state)
        self._checkpoint_version = state.version
        self._size_bytes = size_bytes
        newest = delete_covered(self._store, self._directory, state.version)
        if newest is None or newest > self._state.version:
            self._has_company = True

    def _write(self, actions: tuple[Action, ...]) -> None:
        attempt = self._open_attempt = self._prepare(actions)
        with self._uncertain(attempt):
            is_put = self._put(attempt.version, attempt.content)
            # The place may be taken by ourselves: a store that repeats a request whose reply was lost finds its own.
            self._settle(attempt, attempt.content if is_put else self._find(attempt.version))

    def _put(self, version: int, content: bytes) -> bool:
        try:
            return _put_delta(self._store, self._directory, self._state.region_id, version, content)
        except ManifestNotDurable:
            self._is_broken = True
            raise

    def _prepare(self, actions: tuple[Action, ...]) -> _Attempt:
        version = self._state.version + 1
        now_ms = self._clock.now_ns() // 1_000_000
        delta = Delta(self._state.region_id, version, self._epoch, self._writer, now_ms, actions)
        filler = Delta(self._state.region_id, version, self._epoch, self._writer, now_ms, ())
        return _Attempt(
            version=version,
            content=encode_delta(delta),
            state=apply_delta(self._state, delta),
            filler=encode_delta(filler),
            filler_state=apply_delta(self._state, filler),
        )

    def _settle(self, attempt: _Attempt, found: bytes | None) -> bool:
        """Decide the fate of an attempt by what is in its place; return whether its actions are in effect."""
        if found is None or found not in (attempt.content, attempt.filler):
            raise self._lose(attempt, found, found_version=attempt.version)
        newest = self._newest_beside(attempt.version)
        if newest is not None:
            raise self._lose(attempt, None, found_version=newest)
        has_landed = found == attempt.content
        self._size_bytes += len(found)
        self._state = attempt.state if has_landed else attempt.filler_state
        self._forgotten &= {removed.file_id for removed in self._state.removed_files}
        self._open_attempt = None
        return has_landed

    def _lose(self, attempt: _Attempt, found: bytes | None, *, found_version: int) -> ManifestFenced:
        """Give an attempt up: another writer's delta was `found` in its place, or others have long passed it.

        In the second case they may have passed it with our delta in their history, before they deleted it.
        """
        path = delta_path(self._directory, attempt.version)
        fenced = ManifestFenced(
            region_id=self._state.region_id,
            version=attempt.version,
            epoch=self._epoch,
            found_version=found_version,
            found_epoch=None if found is None else parse_delta(found, path=path).epoch,
            may_have_landed=found is None,
        )
        self._open_attempt = None
        return fenced

    def _newest_beside(self, version: int) -> int | None:
        """The newest version of which there is any object from `version` on, except for its own delta.

        Others that came this far have written the delta behind `version`, or have deleted it again after a checkpoint
        of their own, which the pointer names. Only if there is a trace of that, the store is asked for a listing.
        """
        if not (self._has_company or self._has_successor(version) or self._is_pointed_elsewhere()):
            return None
        newest = None
        own = delta_path(self._directory, version)
        start = before_version(self._directory, version)
        for found in self._store.list(manifest_directory(self._directory), start_after=start):
            name = parse_manifest_path(self._directory, found.path)
            if name is not None and found.path != own:
                newest = name.version
        self._has_company = newest is not None
        return newest

    def _has_successor(self, version: int) -> bool:
        try:
            self._store.head(delta_path(self._directory, version + 1))
        except ObjectNotFound:
            return False
        return True

    def _is_pointed_elsewhere(self) -> bool:
        """Whether the pointer names another checkpoint than the one that is known here."""
        path = pointer_path(self._directory)
        try:
            return parse_pointer(self._store.get(path), path=path).version != self._checkpoint_version
        except ObjectNotFound:
            return self._checkpoint_version != 0
        except ManifestCorrupted:
            return True

    def _find(self, version: int) -> bytes | None:
        try:
            return self._store.get(delta_path(self._directory, version))
        except ObjectNotFound:
            return None

    @contextmanager
    def _uncertain(self, attempt: _Attempt) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            raise ManifestUncertain(region_id=self._state.region_id, version=attempt.version) from error

    def _check_certain(self) -> None:
        if self._open_attempt is not None:
            if self._is_broken:
                raise ManifestNotDurable(region_id=self._state.region_id, version=self._open_attempt.version)
            raise ManifestUncertain(region_id=self._state.region_id, version=self._open_attempt.version)

    def _check_writable(self) -> None:
        self._check_certain()
        if self._epoch < self._state.epoch:
            raise ManifestFenced(
                region_id=self._state.region_id,
                version=self._state.version + 1,
                epoch=self._epoch,
                found_version=self._state.version,
                found_epoch=self._state.epoch,
                may_have_landed=False,
            )

    def _check_created_as(self, schema: RegionSchema) -> None:
        if self._state.is_removed:
            raise ManifestMismatch("the region was dropped and cannot be created again", directory=self._directory)
        if self._state.schema.to_json() != schema.to_json():
            raise ManifestMismatch(
                "the region exists with another schema",
                directory=self._directory,
                hint="open it, or drop it first",
            )


def _put_delta(store: ObjectStore, directory: str, region_id: RegionId, version: int, content: bytes) -> bool:
    """Write a version; False if its place is taken, ManifestNotDurable if it is there but not for good."""
    crash_point("manifest.commit.before_put")
    path = delta_path(directory, version)
    try:
        store.put_if_absent(path, content)
    except ObjectExists:
        return False
    except StoreError as error:
        # A disk that fails is not a reply that is lost: what is there is there for now only.
        if is_of_disk(error) and _may_be_there(store, path):
            raise ManifestNotDurable(region_id=region_id, version=version) from error
        raise
    crash_point("manifest.commit.after_put")
    return True


def _may_be_there(store: ObjectStore, path: str) -> bool:
    try:
        store.head(path)
    except ObjectNotFound:
        return False
    except StoreError:
        return True
    return True

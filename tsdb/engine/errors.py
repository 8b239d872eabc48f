"""What can go wrong inside the region engine.

StorageUnavailable        the log or the store failed: nothing more is accepted until a restart
StorageFull               there is no space left: what was accepted is safe, try again when there is space
LogFenced                 another process has taken over the log: stop, what it acknowledges is elsewhere
WalCorrupted              the log holds damage that may have cost acknowledged rows: repair it explicitly
EntryOutOfOrder           an entry does not follow its region's last one: the one before it was refused
ManifestNotFound          there is no region in this directory
ManifestMismatch          a region is to be created where another one is: choose, or drop it first
ManifestCorrupted         a manifest cannot be read to its end: do not serve the region, restore the file
ManifestFenced            another writer has the region: stop writing to it
ManifestUncertain         a commit may be in effect or not: keep its files, recover the manifest before the next
ManifestNotDurable        a commit is there but may not survive a power loss: no other one before a restart
InvalidManifestAction     an action does not fit the manifest: a bug, nothing was written
FileCorrupted             a data file is missing or damaged: restore it, what it held is nowhere else
MergeMismatch             a merge did not give what it should: a bug, the files that were merged stay as they are
RegionNotFound            there is no such region here
RegionReadOnly            the region takes no writes: its log or store failed, or it leads elsewhere
RegionQuarantined         the region is not served, because that could hide that rows are lost
RegionBusy                the write buffer or a queue is full: try again
ScanTooLarge              what was asked for does not fit into the memory of a query: ask for less
LateRowsUnexpected        rows are handed in of a region that was not taken over from that node: keep them there
SchemaOutdated            the write was made for another version of the schema: read the schema and make it again
"""

from __future__ import annotations

import errno

from tsdb.errors import Status, TsdbError


def is_of_disk(error: TsdbError) -> bool:
    """Whether a store failed because a disk did: what is there in spite of it is there for now only.

    Of a reply that is lost on its way it can be found out later what became of the request. A sync that failed is never
    repeated: the second one may succeed although what the first one lost is lost.
    """
    return isinstance(error.__cause__, OSError) and error.__cause__.errno is not None


def damage_of(error: BaseException) -> str | None:
    """Return why a data file cannot be read if that is the file's fault: wrong bytes, or a broken place on the disk."""
    if isinstance(error, FileCorrupted):
        return error.reason
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno == errno.EIO:
        return f"it cannot be read: {cause.strerror or cause}"
    return None


class StorageUnavailable(TsdbError):
    """Storage failed in a way that retrying cannot mend."""

    status = Status.STORAGE_UNAVAILABLE


class LogFenced(StorageUnavailable):
    """Another process has taken over the log; nothing that was not acknowledged will be."""

    def __init__(self, reason: str, **fields: object) -> None:
        super().__init__(
            f"the shared log has another owner: {reason}",
            **fields,
            hint="only one server may use a log; end the other one, or restart this one to take the log back",
        )


class StorageFull(TsdbError):
    """There is no space left; the write was refused whole."""

    status = Status.RUNTIME_RESOURCES_EXHAUSTED


class WalCorrupted(TsdbError):
    """The log is damaged where it was durable."""

    status = Status.STORAGE_UNAVAILABLE


class EntryOutOfOrder(TsdbError):
    """Accepting this entry would leave a hole in its region's log."""

    status = Status.ILLEGAL_STATE

    def __init__(self, *, region_id: int, entry_id: int, last_entry_id: int) -> None:
        super().__init__(
            f"entry {entry_id} does not follow entry {last_entry_id}, the last one in the log",
            region_id=region_id,
            hint="number entries densely, and again from the last accepted one after a refusal",
        )


class ManifestNotFound(TsdbError):
    """There is no manifest in this directory."""

    status = Status.REGION_NOT_FOUND

    def __init__(self, *, directory: str) -> None:
        super().__init__("there is no region here, its manifest is missing", directory=directory)


class ManifestMismatch(TsdbError):
    """A region is to be created where another one is."""

    status = Status.REGION_ALREADY_EXISTS


class ManifestCorrupted(TsdbError):
    """A manifest cannot be read to its end; the region must not be served."""

    status = Status.STORAGE_UNAVAILABLE

    def __init__(self, *, file: str, reason: str, hint: str = "restore the file from a backup") -> None:
        super().__init__(f"the manifest is corrupted: {reason}", file=file, hint=hint)
        self.file = file
        self.reason = reason


class ManifestFenced(TsdbError):
    """Another writer has the region: stop writing.

    The files of the refused action can be deleted only if `may_have_landed` is false. Otherwise the other writer may
    have taken them over, and only its own sweep can know.
    """

    status = Status.REGION_NOT_READY

    def __init__(
        self,
        *,
        region_id: int,
        version: int,
        epoch: int,
        found_version: int,
        found_epoch: int | None,
        may_have_landed: bool,
    ) -> None:
        super().__init__(
            "another writer has the region",
            region_id=region_id,
            version=version,
            epoch=epoch,
            found_version=found_version,
            found_epoch="unknown" if found_epoch is None else found_epoch,
            hint="stop writing to it; its leader is elsewhere",
        )
        self.version = version
        self.epoch = epoch
        self.found_version = found_version
        self.found_epoch = found_epoch
        self.may_have_landed = may_have_landed


class ManifestUncertain(TsdbError):
    """The store failed so that a commit may be in effect or not: keep its files, and recover the manifest first."""

    status = Status.STORAGE_UNAVAILABLE

    def __init__(self, *, region_id: int, version: int) -> None:
        super().__init__(
            f"it is unknown whether version {version} of the manifest was written",
            region_id=region_id,
            hint="the region finds out before its next change, when the store answers again",
        )
        self.version = version


class ManifestNotDurable(TsdbError):
    """The disk failed after a version was in its place: it may be gone after a power loss, so nothing can follow it.

    A sync that failed is never repeated: the second one may succeed although what the first one lost is lost.
    """

    status = Status.STORAGE_UNAVAILABLE

    def __init__(self, *, region_id: int, version: int) -> None:
        super().__init__(
            f"version {version} of the manifest was written, but the disk failed before it was durable",
            region_id=region_id,
            hint="check the disk, then restart: what is there is read again, and the log has the rest",
        )
        self.version = version


class InvalidManifestAction(TsdbError):
    """An action does not fit the state of the manifest: a bug, refused before it is written."""

    status = Status.INTERNAL


class FileCorrupted(TsdbError):
    """A data file is missing, short or damaged."""

    status = Status.STORAGE_UNAVAILABLE

    def __init__(
        self,
        *,
        file: str,
        reason: str,
        hint: str = "restore the file from a backup, or give up its rows with ADMIN drop_quarantined",
    ) -> None:
        super().__init__(f"a data file is corrupted: {reason}", file=file, hint=hint)
        self.file = file
        self.reason = reason


class MergeMismatch(TsdbError):
    """What came out of a merge is not what went in: a bug, found before a file took the place of others."""

    status = Status.INTERNAL

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"a compaction was given up, its result would be wrong: {reason}",
            hint="the files that it read are unchanged; this is a bug, please report it",
        )


class RegionNotFound(TsdbError):
    """There is no such region here."""

    status = Status.REGION_NOT_FOUND

    def __init__(self, *, region_id: int) -> None:
        super().__init__("there is no such region", region_id=region_id)


class RegionReadOnly(TsdbError):
    """The region takes no writes."""

    status = Status.REGION_READONLY

    def __init__(self, *, region_id: int, reason: str, leads_elsewhere: bool = False) -> None:
        super().__init__(f"the region takes no writes: {reason}", region_id=region_id)
        self.leads_elsewhere = leads_elsewhere
        """Another node has the region, or is about to: ask where it is and try there."""


class RegionQuarantined(TsdbError):
    """The region is not served because serving it could hide that rows are lost."""

    status = Status.REGION_NOT_READY

    def __init__(self, *, region_id: int, reason: str) -> None:
        super().__init__(
            f"the region is not served: {reason}",
            region_id=region_id,
            hint="restore what is missing, or give it up: an object of a shared log with ADMIN skip_log_object, "
            "the whole region with DROP TABLE",
        )


class RegionBusy(TsdbError):
    """The write buffer is full, or the queue is; try again."""

    status = Status.REGION_BUSY

    def __init__(self, message: str, *, retry_after_seconds: int = 1, **fields: object) -> None:
        super().__init__(message, hint="try again later, or raise global_write_buffer_size", **fields)
        self.retry_after_seconds = retry_after_seconds


class LateRowsUnexpected(TsdbError):
    """A node hands in rows of a region that was not taken over from it."""

    status = Status.INVALID_ARGUMENTS

    def __init__(self, *, entry_id: int) -> None:
        super().__init__("the region was not taken over from the node that hands in rows", entry_id=entry_id)


class SchemaOutdated(TsdbError):
    """The region's schema is not the one a write was made for; nothing was written."""

    status = Status.REQUEST_OUTDATED

    def __init__(self, *, region_id: int, expected: int, current: int) -> None:
        super().__init__(
            f"the write was made for version {expected} of the schema, the region has version {current}",
            region_id=region_id,
            hint="read the schema again and repeat the write",
        )
        self.expected = expected
        self.current = current


class ScanTooLarge(TsdbError):
    """Whole series were asked for, and their rows take more memory than a query may have."""

    status = Status.RUNTIME_RESOURCES_EXHAUSTED

    def __init__(self, *, rows: int, bytes_max: int) -> None:
        super().__init__(
            "the series take more memory than a query may have",
            rows=rows,
            bytes_max=bytes_max,
            hint="choose fewer series or a shorter range of time",
        )

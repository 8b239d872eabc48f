"""Errors of the metadata store.

KvUnavailable             the store failed: look at the disk or the network
└── KvClosed              it was closed: the server is stopping
KvConflict                other transactions kept changing the same keys: try again
KvTooLarge                a transaction has more operations than every store takes: a bug, split it
"""

from __future__ import annotations

from tsdb.errors import Status, TsdbError


class KvUnavailable(TsdbError):
    """The metadata cannot be read or written."""

    status = Status.STORAGE_UNAVAILABLE


class KvClosed(KvUnavailable):
    """The store was closed."""

    def __init__(self) -> None:
        super().__init__("the metadata store is closed")


class KvConflict(TsdbError):
    """Others changed the same keys in the meantime, more often than it is sensible to try again."""

    status = Status.REQUEST_OUTDATED


class KvTooLarge(TsdbError):
    """A transaction has more operations than every store takes."""

    status = Status.INTERNAL

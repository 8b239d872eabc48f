"""Errors of the metadata store.

KvUnavailable             the store failed: look at the disk or the network
├── KvClosed              it was closed: the server is stopping
├── KvDenied              it refused the user or the certificate: look at the configuration
└── KvOutcomeUnknown      a transaction may have happened or not: read the keys again before anything else
KvConflict                other transactions kept changing the same keys: try again
├── LeaseLost             a lease ended: what it held is gone, begin anew
└── LeadershipLost        another may lead now: stop everything that only a leader does
KvTooLarge                a transaction has more operations or bytes than every store takes: a bug, split it
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


class KvDenied(KvUnavailable):
    """The store does not let this server in, or not at these keys."""


class KvOutcomeUnknown(KvUnavailable):
    """The reply to a transaction was lost, and the store could not be asked before the deadline what became of it.

    It may have happened, may still happen, or never will.
    """


class KvConflict(TsdbError):
    """Others changed the same keys in the meantime, more often than it is sensible to try again."""

    status = Status.REQUEST_OUTDATED


class LeaseLost(KvConflict):
    """The lease of a key has ended."""


class LeadershipLost(KvConflict):
    """The caller does not lead any more; nothing was changed."""


class KvTooLarge(TsdbError):
    """A transaction has more operations or bytes than every store takes."""

    status = Status.INTERNAL

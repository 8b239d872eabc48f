"""What a failed call to etcd means: one table from gRPC codes and etcd's messages to what the caller must do.

Only `TRANSIENT` leaves open whether etcd has done what it was asked for. After all other kinds nothing was done.
"""

from __future__ import annotations

from enum import Enum, auto

import grpc

from tsdb.errors import TsdbError
from tsdb.kv._errors import KvDenied, KvTooLarge, KvUnavailable, LeaseLost


class FailureKind(Enum):
    """What to do about it."""

    TRANSIENT = auto()
    """Ask another member, later."""
    UNSENT = auto()
    """The same, and no member has seen the request."""
    TOKEN = auto()
    """Log in again."""
    DENIED = auto()
    LEASE_GONE = auto()
    COMPACTED = auto()
    """Read from a newer revision."""
    TOO_LARGE = auto()
    REPLY_TOO_LARGE = auto()
    """Ask for less."""
    FULL = auto()
    REFUSED = auto()


_Code = grpc.StatusCode

# The first row that fits decides; an empty text fits every message.
_TABLE: tuple[tuple[grpc.StatusCode, str, FailureKind], ...] = (
    (_Code.UNAUTHENTICATED, "", FailureKind.TOKEN),
    (_Code.INVALID_ARGUMENT, "revision of auth store is old", FailureKind.TOKEN),
    (_Code.INVALID_ARGUMENT, "user name is empty", FailureKind.DENIED),
    (_Code.INVALID_ARGUMENT, "authentication failed", FailureKind.DENIED),
    (_Code.PERMISSION_DENIED, "", FailureKind.DENIED),
    (_Code.NOT_FOUND, "lease not found", FailureKind.LEASE_GONE),
    (_Code.OUT_OF_RANGE, "compacted", FailureKind.COMPACTED),
    (_Code.INVALID_ARGUMENT, "request is too large", FailureKind.TOO_LARGE),
    # The server's message begins in lower case, that of the client's own limit in upper case.
    (_Code.RESOURCE_EXHAUSTED, "received message larger", FailureKind.TOO_LARGE),
    (_Code.RESOURCE_EXHAUSTED, "Received message larger", FailureKind.REPLY_TOO_LARGE),
    (_Code.RESOURCE_EXHAUSTED, "database space exceeded", FailureKind.FULL),
    (_Code.RESOURCE_EXHAUSTED, "", FailureKind.TRANSIENT),
    (_Code.UNAVAILABLE, "failed to connect to all addresses", FailureKind.UNSENT),
    (_Code.UNAVAILABLE, "", FailureKind.TRANSIENT),
    (_Code.DEADLINE_EXCEEDED, "", FailureKind.TRANSIENT),
    (_Code.CANCELLED, "", FailureKind.TRANSIENT),
    (_Code.ABORTED, "", FailureKind.TRANSIENT),
    (_Code.INTERNAL, "", FailureKind.TRANSIENT),
    (_Code.UNKNOWN, "", FailureKind.TRANSIENT),
    (_Code.DATA_LOSS, "", FailureKind.TRANSIENT),
)

_PASSING = (FailureKind.TRANSIENT, FailureKind.UNSENT)


class EtcdFailure(Exception):
    """A call to one member failed."""

    def __init__(self, kind: FailureKind, details: str, endpoint: str, *, is_timeout: bool = False) -> None:
        super().__init__(f"{details} ({endpoint})")
        self.kind = kind
        self.details = details
        self.endpoint = endpoint
        self.is_timeout = is_timeout

    @classmethod
    def of(cls, error: grpc.RpcError, endpoint: str) -> EtcdFailure:
        code = error.code()
        details = error.details() or code.name
        return cls(classify(code, details), details, endpoint, is_timeout=code is _Code.DEADLINE_EXCEEDED)

    @property
    def is_passing(self) -> bool:
        """Whether another member, or the same one later, may answer."""
        return self.kind in _PASSING

    def as_error(self) -> TsdbError:
        """The error of the metadata store that this is."""
        where = {"endpoint": self.endpoint}
        match self.kind:
            case FailureKind.DENIED | FailureKind.TOKEN:
                hint = "check the user, its password and its permissions in etcd"
                return KvDenied(f"etcd refuses access: {self.details}", hint=hint, **where)
            case FailureKind.LEASE_GONE:
                return LeaseLost(f"the lease has ended: {self.details}", **where)
            case FailureKind.TOO_LARGE:
                return KvTooLarge(f"the request is too large for etcd: {self.details}", **where)
            case FailureKind.FULL:
                hint = "compact its history, defragment it and disarm its alarm, or raise its quota"
                return KvUnavailable(f"etcd has no space left: {self.details}", hint=hint, **where)
            case _:
                return KvUnavailable(f"etcd failed: {self.details}", **where)


def classify(code: grpc.StatusCode, details: str) -> FailureKind:
    for row_code, text, kind in _TABLE:
        if row_code is code and text in details:
            return kind
    return FailureKind.REFUSED

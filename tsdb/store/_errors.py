"""Errors of object storage.

StoreError                the store failed: wait, or look at the disk or the network
├── ObjectNotFound        there is no object of this path
├── ObjectExists          put_if_absent found an object: another writer was first
├── InvalidRange          the range does not lie within the object
├── InvalidPath           the path is not a relative path of plain components
├── StoreFull             there is no space left; what was there is untouched
├── StoreMisconfigured    the service refuses us: wrong credentials, no such bucket, a wrong clock; change that
└── StoreUnreachable      the service does not answer, or is overloaded: try again later
"""

from __future__ import annotations

import errno

from tsdb.errors import Status, TsdbError

_CAUSES_MAX = 8
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The system errors of a full disk or quota."""


class StoreError(TsdbError):
    """An operation of the store failed."""

    status = Status.STORAGE_UNAVAILABLE


class ObjectNotFound(StoreError):
    """There is no object of this path."""

    def __init__(self, path: str) -> None:
        super().__init__("the object does not exist", path=path)


class ObjectExists(StoreError):
    """The path is taken; nothing was written."""

    def __init__(self, path: str) -> None:
        super().__init__("the object exists already", path=path)


class InvalidRange(StoreError):
    """The requested range is not within the object."""

    def __init__(self, path: str, *, offset: int, length: int, size_bytes: int) -> None:
        super().__init__(
            f"bytes {offset} to {offset + length} do not lie within the object",
            path=path,
            size_bytes=size_bytes,
        )


class InvalidPath(StoreError):
    """A path must be relative, with plain components separated by `/`."""

    status = Status.INTERNAL

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path!r} is not a path of an object: {problem}")


class StoreFull(StoreError):
    """The disk or the quota is full; the object was not written."""

    status = Status.RUNTIME_RESOURCES_EXHAUSTED


class StoreMisconfigured(StoreError):
    """The service refuses requests until somebody changes the configuration, the bucket or the clock."""


class StoreUnreachable(StoreError):
    """The service did not answer in time, or not with what was asked for; the same request may succeed later."""

    store: str = ""
    """The name of the store."""


def find_unreachable(error: BaseException) -> StoreUnreachable | None:
    """Return the failure of a service that an error is due to, if it is."""
    seen: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if seen is None or isinstance(seen, StoreUnreachable):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def wrap_os_error(error: OSError, *, operation: str, path: str) -> StoreError:
    """Say in the store's own words what the operating system refused."""
    reason = error.strerror or str(error)
    if error.errno in NO_SPACE:
        return StoreFull(f"cannot {operation}: {reason}", path=path, hint="free space on the disk or raise the quota")
    return StoreError(f"cannot {operation}: {reason}", path=path)

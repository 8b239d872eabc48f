"""What can go wrong between nodes, and how errors of a region travel.

    RemoteError
    ├── BadMessage           what arrived is not a message of this protocol: a bug, or something else is at the address
    ├── ProtocolMismatch     the two sides are of releases that do not understand each other: run the same one on both
    ├── NodeUnavailable      the datanode cannot be reached, or went away before it answered: try again
    ├── RegionNotOpen        in `_elsewhere.py`: the region is being moved, or opened: try again
    └── OutcomeUnknown       a write was sent and its answer is lost: the rows may be there; writing them again is safe

Errors travel as `tsdb.error_json` writes them; a class that is not known here arrives as a `RemoteError` with the same
status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tsdb.error_json import error_from_json, error_to_json
from tsdb.errors import Status, TsdbError


class RemoteError(TsdbError):
    """A datanode failed in a way that this process has no class for."""

    status = Status.INTERNAL


class BadMessage(RemoteError):
    """Bytes that are no message of the region protocol."""

    status = Status.INVALID_ARGUMENTS


class ProtocolMismatch(RemoteError):
    """A message of another version of the region protocol."""

    status = Status.UNSUPPORTED

    def __init__(self, *, received: int, expected: int) -> None:
        super().__init__(
            f"the message is of version {received} of the region protocol, this process speaks version {expected}",
            hint="run the same release on all nodes of the cluster",
        )


class CannotTravel(RemoteError, TypeError):
    """A value is none that other nodes know: a bug, nothing was sent."""

    status = Status.INTERNAL


class NodeUnavailable(RemoteError):
    """A datanode does not answer; nothing that was asked of it has been done, or it can be asked again."""

    status = Status.REGION_NOT_READY

    def __init__(self, reason: str, *, address: str, **fields: object) -> None:
        super().__init__(f"the datanode does not answer: {reason}", address=address, **fields, hint="try again later")
        self.reason = reason


class StaleStream(NodeUnavailable):
    """A connection broke that had been used before, and nothing was changed: a new one may well be answered."""


class OutcomeUnknown(RemoteError):
    """A change was sent, and its answer did not arrive: it may have been made."""

    status = Status.STORAGE_UNAVAILABLE

    def __init__(self, reason: str, *, address: str, **fields: object) -> None:
        super().__init__(
            f"the outcome is unknown, the datanode went away before it answered: {reason}",
            address=address,
            **fields,
            hint="repeat the request; writing the same rows again is safe unless the table keeps duplicates "
            "(append_mode)",
        )


_PLAIN: dict[str, type[Exception]] = {
    each.__name__: each
    for each in (
        pa.ArrowInvalid,
        pa.ArrowNotImplementedError,
        pa.ArrowTypeError,
        pa.ArrowCapacityError,
        pa.ArrowMemoryError,
        ValueError,
        OverflowError,
    )
}
"""Errors that are not of our own tree and that queries tell apart."""


def lower_error(error: BaseException) -> dict[str, Any]:
    """Return an error in plain values."""
    if isinstance(error, TsdbError):
        return error_to_json(error)
    name = type(error).__name__
    text = str(error) if name in _PLAIN else f"{name}: {error}"
    return {"class": name, "status": int(Status.INTERNAL), "message": text, "plain": name in _PLAIN}


def raise_error(lowered: Mapping[str, Any]) -> Exception:
    """Return the error that was sent."""
    if lowered.get("plain"):
        return _PLAIN[str(lowered["class"])](str(lowered["message"]))
    return error_from_json(lowered, unknown=RemoteError)

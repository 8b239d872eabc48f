"""Errors as gRPC statuses.

The code comes from the table in `tsdb.errors`. Trailers add the status as a number, and whether the same request may
succeed if retried. If it may, `grpc-status-details-bin` says after how long, in the form that OpenTelemetry and other
clients understand.
"""

from __future__ import annotations

from typing import Final, NoReturn

import grpc
from google.protobuf.duration_pb2 import Duration as ProtoDuration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status as RpcStatus  # type: ignore[import-untyped]

from tsdb.errors import Status, TsdbError, wire_of

DETAILS_BYTES_MAX = 2048
"""Clients refuse more than 8 KiB of trailers, and the text is in there twice, in one place with escapes."""
RETRY_SECONDS = 1
"""When to try again what cannot be done now, unless the error knows better."""
INTERNAL_ERROR = "internal error; the log of the server has the details"

RETRYABLE: Final = frozenset(
    {
        Status.SUSPENDED,
        Status.REGION_NOT_READY,
        Status.REGION_BUSY,
        Status.TABLE_UNAVAILABLE,
        Status.STORAGE_UNAVAILABLE,
        Status.RUNTIME_RESOURCES_EXHAUSTED,
        Status.RATE_LIMITED,
    }
)
"""Statuses that a retry may solve."""


class InternalError(TsdbError):
    """A bug. The client gets no details; the log does."""

    def __init__(self) -> None:
        super().__init__(INTERNAL_ERROR)


def status_code(error: TsdbError) -> grpc.StatusCode:
    return grpc.StatusCode[wire_of(error).grpc]


def details(error: TsdbError) -> str:
    """The text of an error as it may stand in trailers."""
    raw = str(error).encode("utf-8", "backslashreplace")
    return raw[:DETAILS_BYTES_MAX].decode("utf-8", "ignore")


def trailers(error: TsdbError) -> tuple[tuple[str, str | bytes], ...]:
    code = str(error.status.value)
    hint = "retryable" if error.status in RETRYABLE else "non_retryable"
    found: list[tuple[str, str | bytes]] = [
        ("x-tsdb-err-code", code),
        ("x-greptime-err-code", code),
        ("x-tsdb-err-retry-hint", hint),
        ("x-greptime-err-retry-hint", hint),
    ]
    if error.status in RETRYABLE:
        seconds = int(getattr(error, "retry_after_seconds", RETRY_SECONDS))
        status = RpcStatus(code=status_code(error).value[0], message=details(error))
        status.details.add().Pack(RetryInfo(retry_delay=ProtoDuration(seconds=seconds)))
        found.append(("grpc-status-details-bin", status.SerializeToString()))
    return tuple(found)


async def abort(context: grpc.aio.ServicerContext, error: TsdbError) -> NoReturn:
    """End a call with an error."""
    await context.abort(status_code(error), details(error), trailers(error))
    raise AssertionError("a call that was aborted does not go on")

"""One call (RPC) from its first message to its status.

    unary_rpc(handle)              one message in, one out:    async def handle(request: bytes, call: GrpcCall) -> bytes
    streaming_unary_rpc(handle)    any number in, one out:     async def handle(call: GrpcCall) -> bytes
    streaming_rpc(handle)          any number both ways:       async def handle(call: GrpcCall) -> None

Every method is served as a streaming one, whatever it looks like to clients, so that waiting for a message always has a
deadline: a client that opens calls and sends nothing is disconnected. Messages are bytes here; handlers parse them,
large ones on a thread. A TsdbError becomes a status with trailers; anything else is a bug, and is logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import TypeAlias, TypeVar
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError, Message

from tsdb.errors import DeadlineExceeded, InvalidArguments, Status, TsdbError, wire_of
from tsdb.servers._failures import log_failure
from tsdb.servers.grpc._errors import InternalError, abort
from tsdb.telemetry import (
    SECONDS_BUCKETS,
    begin_trace,
    counter,
    entered,
    fail_span,
    gauge,
    get_logger,
    histogram,
    is_tracing,
    parse_traceparent,
)

MESSAGE_SECONDS_MAX = 300.0
"""How long a client may take for the first message of a call."""
SILENCE_SECONDS_MAX = 3600.0
"""How long a client may keep a stream open without a further message; its connection is watched besides."""
STALLED_SECONDS_MAX = 60.0
"""How long a client may not read what is sent to it."""

_log = get_logger("tsdb.grpc")
_CALLS = counter(
    "tsdb_servers_grpc_requests_total",
    "Calls answered, refused, or abandoned by the client.",
    labels=("method", "code"),
)
_SECONDS = histogram(
    "tsdb_servers_grpc_requests_elapsed_seconds",
    "Time from receiving a call to its status.",
    labels=("method",),
    buckets=SECONDS_BUCKETS,
)
_OPEN = gauge("tsdb_servers_grpc_requests_in_flight", "Calls in progress.")

_M = TypeVar("_M", bound=Message)


class ServerStopping(TsdbError):
    """The server goes away: what the client still wants to send belongs to the next one."""

    status = Status.SUSPENDED


class Calls:
    """The calls that are under way in a server."""

    def __init__(self, *, message_seconds: float = MESSAGE_SECONDS_MAX) -> None:
        self.message_seconds = message_seconds
        self.is_stopping = False
        self._open: set[GrpcCall] = set()

    def enter(self, call: GrpcCall) -> None:
        self._open.add(call)
        _OPEN.inc()

    def leave(self, call: GrpcCall) -> None:
        self._open.discard(call)
        _OPEN.dec()

    def stop(self) -> None:
        """End streams whose clients may still send something some day; what is being worked on goes on."""
        self.is_stopping = True
        for call in self._open:
            call.stop_waiting()


class GrpcCall:
    """One call, as its method sees it."""

    def __init__(self, context: grpc.aio.ServicerContext, method: str, calls: Calls) -> None:
        self.context = context
        self.method = method
        self._calls = calls
        self._received = 0
        self._silence: asyncio.Timeout | None = None

    @cached_property
    def metadata(self) -> Mapping[str, str | bytes]:
        """The first value of each key; keys are in lower case, those that end in `-bin` have bytes."""
        found: dict[str, str | bytes] = {}
        for key, value in self.context.invocation_metadata() or ():
            found.setdefault(key, value)
        return found

    def find(self, name: str) -> str | None:
        """Return the value of `x-tsdb-<name>`, or of its twin by the name that other clients know."""
        value = self.metadata.get(f"x-tsdb-{name}") or self.metadata.get(f"x-greptime-{name}")
        return value if isinstance(value, str) else None

    @cached_property
    def client(self) -> str:
        """The address of the client, without the port: `127.0.0.1`."""
        peer = unquote(self.context.peer() or "")
        kind, _, where = peer.partition(":")
        return where.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else peer

    @property
    def seconds_left(self) -> float | None:
        """Until the deadline that the client has set; None: it has set none."""
        left: float | None = self.context.time_remaining()
        return left

    async def receive(self) -> bytes | None:
        """Return the next message, None after the last."""
        seconds = SILENCE_SECONDS_MAX if self._received else self._calls.message_seconds
        if self._calls.is_stopping and self._received:
            seconds = 0.0
        try:
            async with asyncio.timeout(seconds) as self._silence:
                message = await self.context.read()
        except TimeoutError:
            if self._calls.is_stopping:
                raise ServerStopping(
                    "the server is stopping", hint="try again with the rest when it has restarted"
                ) from None
            raise DeadlineExceeded(f"no message came for {seconds:g} s") from None
        finally:
            self._silence = None
        if message is grpc.aio.EOF:
            return None
        assert isinstance(message, bytes)
        self._received += 1
        return message

    def stop_waiting(self) -> None:
        """Wait no longer for a further message."""
        if self._silence is not None and self._received:
            self._silence.reschedule(asyncio.get_running_loop().time())

    async def receive_one(self) -> bytes:
        """Return the only message of a call that has one."""
        message = await self.receive()
        if message is None:
            raise InvalidArguments("the call has no message")
        return message

    async def send(self, message: bytes) -> None:
        """Send a message; returns when there is room for the next."""
        try:
            async with asyncio.timeout(STALLED_SECONDS_MAX):
                await self.context.write(message)
        except TimeoutError:
            raise DeadlineExceeded(f"the client has read nothing for {STALLED_SECONDS_MAX:g} s") from None
        except grpc.aio.InternalError as error:
            # The client has left, and the news of that is still on its way.
            raise asyncio.CancelledError from error


UnaryHandle: TypeAlias = Callable[[bytes, GrpcCall], Awaitable[bytes]]
StreamUnaryHandle: TypeAlias = Callable[[GrpcCall], Awaitable[bytes]]
StreamHandle: TypeAlias = Callable[[GrpcCall], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Rpc:
    """A method."""

    answer: Callable[[GrpcCall], Awaitable[bytes | None]]
    has_one_answer: bool


def unary_rpc(handle: UnaryHandle) -> Rpc:
    async def answer(call: GrpcCall) -> bytes:
        return await handle(await call.receive_one(), call)

    return Rpc(answer, has_one_answer=True)


def streaming_unary_rpc(handle: StreamUnaryHandle) -> Rpc:
    return Rpc(handle, has_one_answer=True)


def streaming_rpc(handle: StreamHandle) -> Rpc:
    return Rpc(handle, has_one_answer=False)


@dataclass(frozen=True, slots=True)
class RpcService:
    """A service by its full name, with its methods by their short names."""

    name: str
    methods: Mapping[str, Rpc]

    def handler(self, calls: Calls) -> grpc.GenericRpcHandler:
        methods = {name: _make_handler(f"{self.name}/{name}", rpc, calls) for name, rpc in self.methods.items()}
        return grpc.method_handlers_generic_handler(self.name, methods)


def parse_message(kind: type[_M], raw: bytes) -> _M:
    """Parse a message; InvalidArguments if it is not one."""
    try:
        return kind.FromString(raw)
    except DecodeError as error:
        name = kind.DESCRIPTOR.full_name
        raise InvalidArguments(f"the message is not a {name}: {error}") from None


def _make_handler(name: str, rpc: Rpc, calls: Calls) -> grpc.RpcMethodHandler:
    async def serve(_: object, context: grpc.aio.ServicerContext) -> bytes | None:
        call = GrpcCall(context, name, calls)
        calls.enter(call)
        try:
            with _traced(call):
                return await _serve(rpc, call)
        finally:
            calls.leave(call)

    if rpc.has_one_answer:
        return grpc.stream_unary_rpc_method_handler(serve)
    return grpc.stream_stream_rpc_method_handler(serve)


def _traced(call: GrpcCall) -> AbstractContextManager[object]:
    """Trace a call, or continue the trace of its client; health checks and reflection are not worth one."""
    if not is_tracing() or call.method.startswith("grpc."):
        return entered(None)
    parent, state = (call.metadata.get(name) for name in ("traceparent", "tracestate"))
    sender = parse_traceparent(parent, state if isinstance(state, str) else "") if isinstance(parent, str) else None
    attributes = {"protocol": "grpc", "rpc.system": "grpc", "rpc.method": call.method}
    return entered(begin_trace(call.method, sender, attributes=attributes))


async def _serve(rpc: Rpc, call: GrpcCall) -> bytes | None:
    started, code = perf_counter(), "OK"
    try:
        return await rpc.answer(call)
    except TsdbError as error:
        code = wire_of(error).grpc
        _log_error(call, error)
        fail_span(error)
        return await abort(call.context, error)
    except asyncio.CancelledError:
        code = "CANCELLED"
        raise
    except grpc.aio.AbortError:
        code = "ABORTED"
        raise
    except Exception as error:  # noqa: BLE001 - a bug met by one call must not go unseen
        code = "INTERNAL"
        fail_span(error)
        _log.error("a call failed unexpectedly", method=call.method, exc_info=error)
        return await abort(call.context, InternalError())
    finally:
        _CALLS.labels(call.method, code).inc()
        _SECONDS.labels(call.method).observe(perf_counter() - started)


def _log_error(call: GrpcCall, error: TsdbError) -> None:
    log_failure(_log, error, method=call.method)

"""One client: bytes in, messages to the backend, answers out.

Messages are passed on in batches, each up to the last message that a client waits for (Sync, Flush, Query, the end of a
COPY), so that a statement costs one thread switch. While a batch runs, at most one buffer is read ahead; while the
client does not read its answer, nothing runs.

- A message that has begun must arrive at a minimum speed; otherwise the connection is closed.
- A disconnect cancels the statement.
- A connection is closed after the idle timeout, with the reason.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from time import perf_counter
from typing import cast

from tsdb.errors import Busy, QueryTimeout, TsdbError
from tsdb.servers._steps import StepPool, Steps
from tsdb.servers._tcp import ClientGone
from tsdb.servers._tls import Tls
from tsdb.servers._tracing import trace_texts
from tsdb.servers.fast_workers import FastStatements
from tsdb.servers.postgres._backend import Backend
from tsdb.servers.postgres._errors import PgError, ProtocolViolation
from tsdb.servers.postgres._messages import Message
from tsdb.telemetry import entered, is_tracing

MESSAGE_BYTES_MAX = 64 << 20
"""A longer message is refused: statements are not longer either."""
BUFFER_BYTES_MAX = 1 << 20
"""How much is read ahead of the backend."""
BATCH_MESSAGES_MAX = 1_000
BATCH_BYTES_MAX = 1 << 20
CHUNK_BYTES = 256 << 10
"""How many bytes of an answer are made before they are sent."""
MESSAGE_BYTES_PER_SECOND = 32 << 10
"""The lowest speed at which a message may arrive."""
UNREAD_SECONDS_MAX = 600.0
"""How long a client may leave its answer unread."""
HANDSHAKE_SECONDS_MAX = 10.0
RETRY_SECONDS = 0.02
"""How long a statement rests that waits for an advisory lock; no thread is kept meanwhile."""

_BOUNDARIES = b"QSHXFcf"
_KNOWN = b"QPBDECSHXFdcf"
_WORK = b"QPBDEFdc"
"""Messages that have something done."""
_LENGTH = struct.Struct("!I")


class PostgresConnection(asyncio.Protocol):
    """The socket of one client, and who reads and writes it."""

    def __init__(self, client: str, message_seconds: float) -> None:
        self.client = client
        self._message_seconds = message_seconds
        self.is_encrypted = False
        self.task: asyncio.Task[None] | None = None
        self.is_made = False
        """Whether it has a transport, which closes the socket."""
        self.is_idle = False
        """Whether it waits for the client to ask something."""
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_lost = False
        self._is_paused = False
        self._is_ending = False
        self._wants_bytes = BUFFER_BYTES_MAX

    # Called by the event loop -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_made = True

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._arrived.set()
        if len(self._buffer) >= self._wants_bytes and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._arrived.set()
        self._writable.set()
        if self.task is not None and not self.is_idle:
            self.task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # Reading ----------------------------------------------------------------------------------------------------------

    async def _more(self, wanted: int) -> None:
        """Wait until more bytes have come; `wanted` is how many the message has that is being read."""
        if self._is_lost:
            raise ClientGone
        self._arrived.clear()
        self._wants_bytes = max(BUFFER_BYTES_MAX, wanted)
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        self.is_idle = True
        try:
            await self._arrived.wait()
        finally:
            self.is_idle = False
        if self._is_lost:
            raise ClientGone

    async def read_startup(self, size_max: int) -> bytes:
        """Return the body of a message without a letter; b"" when the client went away before it began."""
        try:
            while len(self._buffer) < 4:
                await self._more(4)
            length = _LENGTH.unpack_from(self._buffer)[0]
            if not 8 <= length <= size_max:
                raise ProtocolViolation("invalid length of startup packet")
            while len(self._buffer) < length:
                await self._more(length)
        except ClientGone:
            return b""
        return self._take(length)[4:]

    async def read_message(self, size_max: int) -> Message | None:
        """Return the next message; None when the client went away."""
        try:
            while (message := self._next_message(size_max)) is None:
                await self._more(self._missing(size_max))
        except ClientGone:
            return None
        return message

    def _missing(self, size_max: int) -> int:
        """How many bytes the message has that is being read, as far as it is known."""
        return min(1 + _LENGTH.unpack_from(self._buffer, 1)[0], size_max) if len(self._buffer) >= 5 else 5

    def _next_message(self, size_max: int, known: bytes | None = None) -> Message | None:
        """Take a message from the buffer if it is there; `known` are the letters that may come."""
        if known is not None and self._buffer and self._buffer[0] not in known:
            raise ProtocolViolation(f"invalid frontend message type {self._buffer[0]}")
        if len(self._buffer) < 5:
            return None
        length = _LENGTH.unpack_from(self._buffer, 1)[0]
        if length < 4 or length > size_max:
            raise ProtocolViolation(f"invalid message length {length}")
        if len(self._buffer) < 1 + length:
            return None
        raw = self._take(1 + length)
        return Message(raw[0], raw[5:])

    def _take(self, count: int) -> bytes:
        piece = bytes(memoryview(self._buffer)[:count])
        del self._buffer[:count]
        return piece

    async def read_batch(self, idle_seconds: float | None) -> list[Message]:
        """Return messages up to one behind which the client waits; PgError when it says nothing for too long."""
        batch: list[Message] = []
        size = 0
        while True:
            while (message := self._next_message(MESSAGE_BYTES_MAX, _KNOWN)) is not None:
                batch.append(message)
                size += len(message.body)
                if message.tag == ord("X") or len(batch) >= BATCH_MESSAGES_MAX or size >= BATCH_BYTES_MAX:
                    return batch
            if batch and batch[-1].tag in _BOUNDARIES:
                return batch
            if self._is_ending:
                raise shutdown_error()
            await self._wait_for_message(idle_seconds)

    async def _wait_for_message(self, idle_seconds: float | None) -> None:
        """Wait for the rest of a message that has begun, or for the next one to begin."""
        has_begun = len(self._buffer) > 0
        wanted = self._missing(MESSAGE_BYTES_MAX)
        seconds = self._message_seconds + wanted / MESSAGE_BYTES_PER_SECOND if has_begun else idle_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._more(wanted)
                while has_begun and len(self._buffer) < wanted and not self._is_ending:
                    await self._more(wanted)
        except TimeoutError:
            if has_begun:
                raise PgError("08P01", "the message did not arrive in time") from None
            raise PgError("57P05", "terminating connection due to idle-session timeout") from None

    # Writing ----------------------------------------------------------------------------------------------------------

    def write(self, piece: bytes) -> None:
        if self._transport is not None and not self._is_lost:
            self._transport.write(piece)

    async def drain(self) -> None:
        """Wait until the client has taken most of what was written."""
        if self._writable.is_set():
            return
        async with asyncio.timeout(UNREAD_SECONDS_MAX):
            await self._writable.wait()

    async def answer(self, messages: list[Message], backend: Backend, pool: StepPool, fast: FastStatements) -> None:
        """Work on messages on a thread of the pool, or in a fast worker, and send what comes out of it."""
        begun = perf_counter()
        if fast.are_wanted and await self._answer_fast(messages, backend, fast):
            return
        with _traced(messages):
            await self._answer(messages, backend, pool, begun)

    async def _answer_fast(self, messages: list[Message], backend: Backend, fast: FastStatements) -> bool:
        """Have a fast worker answer messages; False if it cannot."""
        request = backend.find_fast(messages)
        if request is None:
            return False
        outcome: bytes | TsdbError | None
        try:
            outcome = await fast.answer(request.text, backend.session, request.encode)
        except TsdbError as error:
            outcome = error
        if outcome is None:
            return False
        self.write(backend.end_fast(request, outcome))
        await self.drain()
        return True

    async def _answer(self, messages: list[Message], backend: Backend, pool: StepPool, begun: float) -> None:
        allowed = backend.timeout_seconds
        steps = Steps(
            pool,
            lambda: backend.run(messages),
            backend.cancel,
            chunk_bytes=CHUNK_BYTES,
            pauses=True,
            seconds_max=None if allowed is None else max(allowed - (perf_counter() - begun), 0.0),
            is_new=not backend.is_copying,
        )
        try:
            while not steps.is_over:
                try:
                    chunk = await steps.next_chunk()
                except (Busy, QueryTimeout) as error:  # nothing has run: errors of statements are part of their answer
                    steps.abandon()
                    chunk = backend.refuse(messages, error)
                self.write(chunk)
                await self.drain()
                if not chunk and not steps.is_over:
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            await steps.close()

    # Beginning and end ------------------------------------------------------------------------------------------------

    async def start_tls(self, tls: Tls) -> None:
        """Say that TLS is welcome and go on inside of it."""
        if self._buffer:
            # A man in the middle could have injected it, to be taken for encrypted data.
            raise ProtocolViolation("received unencrypted data after SSL request")
        context = await asyncio.to_thread(tls.context)
        transport = self._transport
        if transport is None or self._is_lost:
            raise ClientGone
        transport.write(b"S")
        try:
            self._transport = await asyncio.get_running_loop().start_tls(
                transport, self, context, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX
            )
        except (ssl.SSLError, OSError) as error:
            raise ClientGone(str(error)) from error
        self.is_encrypted = True

    def peer_certificate(self) -> dict[str, object] | None:
        """Return the certificate that the client has shown."""
        if self._transport is None:
            return None
        found: dict[str, object] | None = self._transport.get_extra_info("peercert")
        return found

    def end_soon(self) -> None:
        """Have the connection end as soon as it has nothing under way."""
        self._is_ending = True
        self._arrived.set()

    async def close(self) -> None:
        """Send what is written, but do not wait for long, and close."""
        transport, self._transport = self._transport, None
        if transport is None:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._writable.wait(), 1.0)
        transport.close()

    def abort(self) -> None:
        """Close without sending what is written."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()


def _traced(messages: Sequence[Message]) -> AbstractContextManager[object]:
    """Trace what a client asks for; the end of a transaction alone is not worth a trace."""
    if not is_tracing() or not any(each.tag in _WORK for each in messages):
        return entered(None)
    texts = (each.body.decode("utf-8", "replace") for each in messages if b"traceparent" in each.body)
    return trace_texts("postgres.query", "postgres", texts)


def shutdown_error() -> PgError:
    return PgError("57P01", "terminating connection due to administrator command")

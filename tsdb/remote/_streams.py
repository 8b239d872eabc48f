"""Streams as both sides use them: messages in, messages out, and what it means when one breaks.

A stream is a call of Arrow Flight (DoExchange) of which only the application metadata is used: a message is one buffer.

    calls      client: request ─▶ … ◀─ answer; one at a time. Each request has a number, which its answers repeat; what
               still arrives of an earlier one is ignored
    changes    client: request ─▶ request ─▶ … ◀─ answers, by their numbers, in any order

The first message of a stream says what it is for, and the first answer that the server is ready. Until then nothing
else is sent: what fails before has not been received by anybody.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from tsdb.remote._message import Part, pack, unpack

CALLS, CHANGES = "calls", "changes"


class StreamEnded(Exception):
    """The other side has ended a stream."""


BROKEN = (flight.FlightError, pa.ArrowException, OSError, StreamEnded, ValueError)
"""What Arrow raises when the other side is gone; ValueError of a stream that is closed already."""

WINDOW_BATCHES = 3
"""How many batches of a scan are sent before the client asks for more, which it does from the second one on: one is
read while the next is made, and the client of a small answer asks only once."""


def text_of(error: BaseException) -> str:
    """Return the first line of what Arrow says about a broken stream."""
    if isinstance(error, StreamEnded):
        return "it has closed the connection"
    text = str(error).split(". gRPC client debug context", 1)[0]
    text = text.rsplit("with message: ", 1)[-1]
    return text.splitlines()[0] if text else type(error).__name__


class ClientStream:
    """The client's end of a stream."""

    def __init__(self, client: flight.FlightClient, kind: str) -> None:
        descriptor = flight.FlightDescriptor.for_command(kind.encode())
        self._writer, self._reader = client.do_exchange(descriptor)
        self._closing = threading.Lock()
        self.is_cancelled = False
        self.give_up_ns: int | None = None
        """When the stream is to be cancelled by the thread that watches it; None while nothing is awaited."""

    def send(self, head: Any, buffers: list[Part] | tuple[Part, ...] = ()) -> None:
        self._writer.write_metadata(pack(head, buffers))

    def send_packed(self, message: bytes) -> None:
        self._writer.write_metadata(message)

    def receive(self) -> tuple[Any, list[pa.Buffer]]:
        """Wait for a message; one of `BROKEN` when there will be none."""
        try:
            metadata = self._reader.read_chunk().app_metadata
        except StopIteration:
            metadata = None
        if metadata is None:
            raise StreamEnded
        return unpack(metadata)

    def cancel(self) -> None:
        """End the stream from any thread: a thread that waits for a message gets one of `BROKEN`."""
        self.is_cancelled = True
        self._reader.cancel()

    def close(self) -> None:
        """Let go of the stream; only when no other thread uses it."""
        with self._closing:
            self.cancel()
            with suppress(*BROKEN):
                self._writer.close()


def why_broken(stream: ClientStream, error: BaseException) -> str:
    """Return why a stream broke that was to begin; it has not been closed yet."""
    return "no answer in time" if stream.is_cancelled else text_of(error)


class ServerStream:
    """The server's end of a stream.

    What Arrow hands over is valid until the stream has been served. Other threads may still have the stream then: they
    find that it has ended.
    """

    def __init__(
        self,
        context: flight.ServerCallContext,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        self._context = context
        self._reader = reader
        self._writer = writer
        self._sending = threading.Lock()
        self._looking = threading.Lock()
        self._is_ended = False
        self.peer = str(context.peer())

    @property
    def is_broken(self) -> bool:
        """Whether the client has ended the stream, or is gone."""
        with self._looking:
            return self._is_ended or bool(self._context.is_cancelled())

    def end(self) -> None:
        """The stream has been served."""
        with self._sending, self._looking:
            self._is_ended = True

    def send(self, head: Any, buffers: list[Part] | tuple[Part, ...] = ()) -> None:
        message = pack(head, buffers)
        with self._sending:
            if self._is_ended:
                raise StreamEnded
            self._writer.write_metadata(message)

    def receive(self) -> tuple[Any, list[pa.Buffer]] | None:
        """Wait for a message; None when the client has ended the stream."""
        try:
            metadata = self._reader.read_chunk().app_metadata
        except (flight.FlightError, pa.ArrowException, OSError, StopIteration):
            return None
        return None if metadata is None else unpack(metadata)

"""Messages between the server and its workers: a header, a body, and file descriptors beside some of them.

Small messages are pickled objects: both ends are the same program. Batches travel as Arrow IPC, received into a buffer
that Arrow reads without a copy.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import pyarrow as pa

_HEADER = struct.Struct("<BQ")
_DESCRIPTORS_MAX = 4


class MessageKind(IntEnum):
    """What the body of a message is."""

    OBJECT = 1
    BATCH = 2
    END = 3
    ERROR = 4


class Gone(Exception):
    """The other end has closed the connection, or its process has ended."""


def object_header(body: bytes) -> bytes:
    """Return what is sent before a pickled object."""
    return _HEADER.pack(MessageKind.OBJECT, len(body))


def send_object(connection: socket.socket, value: Any, descriptors: Sequence[int] = ()) -> None:
    """Send a value; descriptors arrive with it."""
    body = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    header = object_header(body)
    try:
        if descriptors:
            socket.send_fds(connection, [header], list(descriptors))
            connection.sendall(body)
        else:
            connection.sendall(header + body)
    except OSError as error:
        raise Gone from error


def send_batch(connection: socket.socket, batch: pa.RecordBatch) -> None:
    """Send rows; the receiver knows their schema."""
    body = batch.serialize()
    try:
        connection.sendall(_HEADER.pack(MessageKind.BATCH, body.size))
        connection.sendall(memoryview(body))
    except OSError as error:
        raise Gone from error


def send_end(connection: socket.socket, error: BaseException | None = None) -> None:
    """Say that nothing follows, and why if something failed."""
    body = b"" if error is None else pickle.dumps(packed_error(error), pickle.HIGHEST_PROTOCOL)
    try:
        connection.sendall(_HEADER.pack(MessageKind.END if error is None else MessageKind.ERROR, len(body)) + body)
    except OSError as failure:
        raise Gone from failure


def receive(connection: socket.socket) -> tuple[MessageKind, pa.Buffer]:
    """Return the next message; TimeoutError if the connection has a timeout and it passes."""
    kind, size = _HEADER.unpack(_receive_exactly(connection, _HEADER.size))
    return MessageKind(kind), _receive_exactly(connection, size)


def receive_object(connection: socket.socket, descriptors_max: int = _DESCRIPTORS_MAX) -> tuple[Any, list[int]]:
    """Return a value that was sent with `send_object`, and the descriptors that came with it."""
    try:
        first, descriptors, _, _ = socket.recv_fds(connection, _HEADER.size, descriptors_max)
    except TimeoutError:
        raise
    except OSError as error:
        raise Gone from error
    if not first:
        raise Gone
    rest = b"" if len(first) == _HEADER.size else bytes(_receive_exactly(connection, _HEADER.size - len(first)))
    kind, size = _HEADER.unpack(first + rest)
    return opened(MessageKind(kind), _receive_exactly(connection, size)), descriptors


def opened(kind: MessageKind, body: pa.Buffer) -> Any:
    """Return the value of a message, or raise the error that it is."""
    if kind is MessageKind.ERROR:
        raise unpacked_error(pickle.loads(body))
    return pickle.loads(body) if kind is MessageKind.OBJECT else None


def read_batch(body: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(body, schema)


def _receive_exactly(connection: socket.socket, size: int) -> pa.Buffer:
    buffer = pa.allocate_buffer(size)
    view = memoryview(buffer).cast("B")
    done = 0
    try:
        while done < size:
            count = connection.recv_into(view[done:])
            if not count:
                raise Gone
            done += count
    except TimeoutError:
        raise
    except OSError as error:
        raise Gone from error
    return buffer


def packed_error(error: BaseException) -> tuple[type[BaseException], tuple[Any, ...], dict[str, Any]]:
    """Return an exception as a value; its own constructor may want other arguments than it keeps."""
    if type(error).__module__.startswith("tsdb."):
        return type(error), error.args, dict(vars(error))
    return RuntimeError, (str(error),), {}


def unpacked_error(packed: tuple[type[BaseException], tuple[Any, ...], dict[str, Any]]) -> BaseException:
    kind, arguments, state = packed
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(state)
    return error

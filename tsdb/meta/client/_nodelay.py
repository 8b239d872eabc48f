"""TCP_NODELAY of connections that the gRPC library made.

The library sets it for every connection and has no option for it. So the sockets of this process that are connected to
an address are found in `/proc`, where there is one, and changed through a duplicate of their descriptor.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

_DESCRIPTORS = "/proc/self/fd"


def clear_nodelay(port: int) -> int:
    """Let small packets to a port be collected again; return how many connections there are."""
    changed = 0
    for connection in connections_to(port):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        changed += 1
    return changed


def connections_to(port: int) -> Iterator[socket.socket]:
    """Yield the TCP connections of this process to a port, each only until the next one is asked for."""
    try:
        names = os.listdir(_DESCRIPTORS)
    except OSError:
        return
    for name in names:
        with _opened(int(name)) as found:
            if found is not None and _is_to(found, port):
                yield found


@contextmanager
def _opened(descriptor: int) -> Iterator[socket.socket | None]:
    """A duplicate of a descriptor as a socket, None if it is none."""
    try:
        copy = os.dup(descriptor)
    except OSError:
        yield None
        return
    try:
        found = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        yield None
        return
    with found:
        yield found


def _is_to(found: socket.socket, port: int) -> bool:
    if found.family not in (socket.AF_INET, socket.AF_INET6) or not found.type & socket.SOCK_STREAM:
        return False
    try:
        return bool(found.getpeername()[1] == port)
    except OSError:
        return False

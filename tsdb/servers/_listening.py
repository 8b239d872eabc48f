"""What servers on sockets have in common: the address as people write it, and taking it before anything starts."""

from __future__ import annotations

import socket

from tsdb.errors import StartError


def written_address(host: str, port: int) -> str:
    """Return an address as it is configured: `127.0.0.1:4002`, `[::1]:4002`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def take_address(host: str, port: int, *, protocol: str, hint: str, backlog: int) -> socket.socket:
    """Listen on an address; StartError that says in one line why that cannot be."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, where = found[0]
        return socket.create_server(where[:2], family=family, backlog=backlog)
    except OSError as error:
        raise StartError(
            f"cannot listen on {written_address(host, port)} for {protocol}: {error.strerror or error}", hint=hint
        ) from error


def set_keep_alive(opened: socket.socket, seconds: int, *, probes: int | None = None) -> None:
    """Have the system ask a silent client whether it is still there, so often; 0 leaves that to the system."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if seconds and hasattr(socket, "TCP_KEEPIDLE"):
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, seconds)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, seconds)
        if probes is not None:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes)

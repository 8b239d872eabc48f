"""One granian: the socket it accepts connections from and, with TLS, the certificate it was started with.

Granian keeps the certificate of its start. For another one a second engine is started beside the first, on the same
address (`SO_REUSEPORT`), and the first is stopped once nobody is on the way to it:

1. the second listens; the system gives new connections to both
2. `take_over`: the system gives new connections to the second alone
3. handshakes under way at the first come to an end; then it is stopped, and its requests end in their own time

Without the second step, connections that the first had not yet taken in, or was still shaking hands with, would be
lost: 31 of 2,430 in twenty changes with eight clients that connected for each request, none of 4,023 with it.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server

from tsdb.servers._tls import TlsFiles
from tsdb.servers.http._messages import Receive, Scope, Send

Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

BACKLOG_MAX = 1024
"""Connections that may wait to be accepted."""

IDLE_SECONDS_MAX = 75
"""How long a connection may be silent between requests, and how long the headers of one may take."""

# Granian would replace the handlers of all loggers. This makes it touch only the level of its own.
_LEAVE_LOGGING_ALONE = {"incremental": True, "handlers": {}, "loggers": {}}

_SO_ATTACH_REUSEPORT_CBPF = 51
_BPF_RETURN = 0x06
_POLL_SECONDS = 0.005


class Engine:
    """A granian that serves `app` at an address, with TLS where `files` says so."""

    def __init__(
        self, app: Application, *, ip: str, port: int, connections_max: int, files: TlsFiles | None = None
    ) -> None:
        engine_logger = logging.getLogger("_granian")
        # Its own account of starting and stopping says nothing that our lines do not.
        engine_logger.setLevel(logging.WARNING)
        level = engine_logger.level
        kind = Server if files is None else _TlsServer
        self._server = kind(
            app,
            address=ip,
            port=port,
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,
            websockets=False,
            backlog=BACKLOG_MAX,
            backpressure=connections_max,
            http1_settings=HTTP1Settings(header_read_timeout=IDLE_SECONDS_MAX * 1000),
            log_level=LogLevels.notset,
            log_dictconfig=_LEAVE_LOGGING_ALONE,
            ssl_cert=None if files is None else files.certificate,
            ssl_key=None if files is None else files.key,
            ssl_ca=None if files is None else files.ca,
            ssl_client_verify=files is not None and files.ca is not None,
            ssl_protocol_min=SSLProtocols.tls12,
        )
        engine_logger.setLevel(level)
        self.serving = asyncio.get_running_loop().create_task(self._server.serve(), name="tsdb-http")

    async def wait_listening(self) -> bool:
        """Return True when the socket listens, False if the engine has ended instead; `failure` says why."""
        while not self.serving.done():
            await asyncio.sleep(_POLL_SECONDS)
            own = self._own_socket
            if own is None or own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                return True
        return False

    @property
    def failure(self) -> BaseException | None:
        """What has ended the engine before it was stopped. What panics in granian is no Exception."""
        if not self.serving.done() or self.serving.cancelled():
            return None
        return self.serving.exception()

    def take_over(self) -> None:
        """Let the system give new connections to this engine, and none to the one that listened before it."""
        if self._own_socket is None:
            return
        # A program of one instruction: the socket to choose is the second one of those that share the address. Where
        # there is no second one any more, the system chooses by itself.
        instruction = ctypes.create_string_buffer(struct.pack("HBBI", _BPF_RETURN, 0, 0, 1))
        program = struct.pack("@HP", 1, ctypes.addressof(instruction))
        with suppress(OSError):
            self._own_socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, program)

    def stop(self) -> None:
        """Accept no more; `serving` ends when the requests under way have."""
        if self._own_socket is not None:
            self._own_socket.close()
        self._server.stop()  # type: ignore[no-untyped-call]

    @property
    def _own_socket(self) -> socket.socket | None:
        return self._server.own_socket if isinstance(self._server, _TlsServer) else None


class _TlsServer(Server):
    """A granian whose socket we hold too, to see whether it listens and to tell the system who gets connections."""

    own_socket: socket.socket | None = None

    def _init_shared_socket(self) -> None:
        if sys.platform != "linux":
            super()._init_shared_socket()  # type: ignore[no-untyped-call]
            return
        family = socket.AF_INET6 if ":" in self.bind_addr else socket.AF_INET
        own = socket.socket(family, socket.SOCK_STREAM)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            own.bind((self.bind_addr, self.bind_port))
        except OSError:
            own.close()
            raise
        self.own_socket = own
        # Granian listens on it, and closes its end when it stops.
        self._shd: Any = SocketHolder(os.dup(own.fileno()), False, BACKLOG_MAX)  # type: ignore[call-arg]
        self._ssp: Any = None

"""The process that others are forked from: it has imported what they need, and has no threads of its own.

Starting a Python process and importing everything takes a second; a fork takes milliseconds and shares the memory of
what is imported. A server that has begun to serve cannot be forked: its threads and locks would be left behind. So a
component forks this process from itself when it starts (`ForkServer.forked`). If that ends, and in programs that have
threads already, it is a new process (`ForkServer.started`).

It has a connected Unix socket. Every message on it is a program to be run, with the sockets of its process beside it;
the answer is the process, as a descriptor that stays valid when the process has ended. The fork server ends when the
socket is closed, and all processes that were forked from it end with it.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tsdb.processes.messages import Gone, receive_object, send_object

_PROGRAM = """
import sys
from tsdb.quick_imports import quick_imports
with quick_imports():
    from tsdb.processes.fork_server import main
    for module in sys.argv[2:]:
        __import__(module)
main(int(sys.argv[1]))
"""
_END_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1
_OOM_SCORE = "500"
"""The kernel ends such a process rather than the server when memory runs out."""
_DESCRIPTORS_MAX = 4096
"""Beyond this a process that was just started has no open files."""


class Program(Protocol):
    """What a process runs; it travels to the process and is imported there."""

    def run(self, *connections: socket.socket) -> None: ...


class Forked(NamedTuple):
    """A process, a descriptor of it, and our ends of its connections."""

    process: int
    descriptor: int
    connections: Sequence[socket.socket]


class ForkServer:
    """The fork server, as the server process sees it."""

    def __init__(self, process: int, connection: socket.socket) -> None:
        self.process = process
        self._connection = connection

    @classmethod
    def started(cls, modules: Sequence[str]) -> ForkServer:
        """Start one as a new process, which imports some modules."""
        ours, theirs = socket.socketpair()
        with theirs:
            started = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), *modules],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        started.returncode = 0  # it is waited for here, not by the collector of garbage
        return cls(started.pid, ours)

    @classmethod
    def forked(cls) -> ForkServer:
        """Fork one from this process, which has imported everything and has no other threads."""
        gc.collect()
        gc.freeze()
        ours, theirs = socket.socketpair()
        process = os.fork()
        if process:
            theirs.close()
            return cls(process, ours)
        try:
            os.setsid()
            _close_all_but(theirs.fileno())
            main(theirs.fileno())
        finally:
            os._exit(0)

    def fork(self, program: Program, connections: int) -> Forked:
        """Run a program in a new process that has so many connections to this one."""
        pairs = [socket.socketpair() for _ in range(connections)]
        try:
            send_object(self._connection, program, [theirs.fileno() for _, theirs in pairs])
            process, descriptors = receive_object(self._connection)
        except BaseException:
            for ours, _ in pairs:
                ours.close()
            raise
        finally:
            for _, theirs in pairs:
                theirs.close()
        return Forked(process, descriptors[0], [ours for ours, _ in pairs])

    def kill(self) -> None:
        os.kill(self.process, signal.SIGKILL)

    def close(self) -> None:
        """End it, and with it every process that was forked from it."""
        self._connection.close()
        timer = threading.Timer(_END_SECONDS, self.kill)
        timer.daemon = True
        timer.start()
        with suppress(ChildProcessError):
            os.waitpid(self.process, 0)
        timer.cancel()


class Forker:
    """Forks processes, from another fork server if one has ended. Safe to use from many threads."""

    def __init__(self, modules: Sequence[str], server: ForkServer | None = None) -> None:
        """`modules` are those that programs need. Without a `server`, one is started when it is needed."""
        self._modules = modules
        self._lock = threading.Lock()
        self._server = server
        self._is_closed = False

    @property
    def server(self) -> ForkServer | None:
        """The fork server, if it runs."""
        return self._server

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def fork(self, program: Program, connections: int = 1) -> Forked:
        """Run a program in a new process; Gone when this is closed."""
        with self._lock:
            if self._is_closed:
                raise Gone
            if self._server is not None:
                try:
                    return self._server.fork(program, connections)
                except Gone:
                    self._server.close()
            self._server = ForkServer.started(self._modules)
            return self._server.fork(program, connections)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._is_closed = True
            server, self._server = self._server, None
        if server is not None:
            server.close()


def main(descriptor: int) -> None:
    """Fork a process for each request that comes over the socket of a descriptor."""
    name_process("tsdb-fork")
    connection = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _reap)
    gc.collect()
    gc.freeze()
    with suppress(Gone):
        while True:
            program, descriptors = receive_object(connection)
            sockets = [socket.socket(fileno=each) for each in descriptors]
            process = _fork(connection, sockets, program)
            for each in sockets:
                each.close()
            _answer(connection, process)


def _fork(connection: socket.socket, sockets: list[socket.socket], program: Program) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        connection.close()
        _end_with_parent()
        program.run(*sockets)
        code = 0
    finally:
        os._exit(code)


def name_process(name: str) -> None:
    """Let tools show a process under its own name."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)


def _answer(connection: socket.socket, process: int) -> None:
    """Send the process; it is not reaped before there is a descriptor for it."""
    descriptor = os.pidfd_open(process)
    try:
        send_object(connection, process, [descriptor])
    finally:
        os.close(descriptor)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _reap(*_: Any) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _close_all_but(kept: int) -> None:
    """Close every file that this process has inherited, except its messages to the terminal and a descriptor."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.closerange(3, kept)
    os.closerange(kept + 1, _DESCRIPTORS_MAX)

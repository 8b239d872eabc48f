"""The process that workers are forked from: it has imported what they need, and has no threads of its own.

Starting a Python process and importing DataFusion takes a second; a fork takes milliseconds and shares the memory of
everything imported. The server process itself cannot be forked: its threads and locks would be left behind.

It is started with a connected Unix socket. Every message on it is a request for a worker and has its two sockets with
it; the answer is the process, as a descriptor that stays valid when the process has ended. The fork server ends when
the socket is closed, and its workers end with it.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any

from tsdb.query.workers import _worker
from tsdb.query.workers._messages import Gone, receive_object, send_object
from tsdb.query.workers._worker import WorkerOptions

_PROGRAM = """
from tsdb.quick_imports import quick_imports
with quick_imports():
    from tsdb.query.workers._fork_server import main
main()
"""


class ForkServer:
    """The fork server, as the server process sees it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._connection = ours

    def fork(self, options: WorkerOptions) -> tuple[int, int, socket.socket, socket.socket]:
        """Return process id and descriptor of a new worker, its control connection and that of its calls."""
        control, control_end = socket.socketpair()
        calls, calls_end = socket.socketpair()
        try:
            with control_end, calls_end:
                send_object(self._connection, options, [control_end.fileno(), calls_end.fileno()])
            process, descriptors = receive_object(self._connection)
        except BaseException:
            control.close()
            calls.close()
            raise
        return process, descriptors[0], control, calls

    def close(self) -> None:
        """End it, and with it every worker that is left."""
        self._connection.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> None:
    """Fork a worker for each request that comes over the socket whose descriptor is the argument of the program."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _reap)
    gc.collect()
    gc.freeze()
    with suppress(Gone):
        while True:
            options, descriptors = receive_object(connection)
            sockets = [socket.socket(fileno=each) for each in descriptors]
            process = _fork(connection, sockets, options)
            for each in sockets:
                each.close()
            _answer(connection, process)


def _fork(connection: socket.socket, sockets: list[socket.socket], options: WorkerOptions) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        connection.close()
        control, calls = sockets
        _worker.main(control, calls, options)
        code = 0
    finally:
        os._exit(code)


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

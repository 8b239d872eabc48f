"""A TCP proxy that loses or delays what passes between a client and a server, told by the test what to do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CHUNK = 1 << 16


class Proxy:
    """Forwards connections to a port."""

    def __init__(self, target_port: int, listen: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self._target_port = target_port
        self._listener = socket.create_server(listen)
        self.address = f"{listen[0]}:{self._listener.getsockname()[1]}"
        self.url = f"http://{self.address}"
        self.accepted = 0
        self.lost_reply_bytes = 0
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._silent: set[socket.socket] = set()
        self._loses_replies = False
        self._refuses = False
        self._lost = threading.Event()
        self._flows = threading.Event()
        self._flows.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_replies(self) -> None:
        """From now on requests arrive, and replies do not."""
        self._lost.clear()
        self._loses_replies = True

    def wait_lost(self, timeout_seconds: float) -> bool:
        """Wait until some reply was lost."""
        return self._lost.wait(timeout_seconds)

    def refuse(self) -> None:
        """Close every connection at once, also new ones."""
        self._refuses = True
        self.cut()

    def silence(self) -> None:
        """Forward nothing more on the connections there are, without closing them; new ones work."""
        with self._lock:
            self._silent.update(end for pair in self._pairs for end in pair)

    def freeze(self) -> None:
        """Hold everything back, as a program does that is stopped: connections are accepted, and nothing arrives."""
        self._flows.clear()

    def thaw(self) -> None:
        """Let what was held back arrive, and all that follows."""
        self._flows.set()

    def heal(self) -> None:
        """Cut the connections that have lost something, and forward everything again."""
        self._refuses = False
        self._loses_replies = False
        self.cut()

    def cut(self) -> None:
        """Close all connections."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._refuses = True
        self._listener.close()
        self.cut()
        self.thaw()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refuses:
                client.close()
                continue
            self.accepted += 1
            try:
                server = socket.create_connection(("127.0.0.1", self._target_port), timeout=10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self._pairs.append((client, server))
            threading.Thread(target=self._forward, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._forward, args=(server, client, True), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, is_reply: bool) -> None:
        with suppress(OSError), source:
            while data := source.recv(_CHUNK):
                if source in self._silent:
                    continue
                if is_reply and self._loses_replies:
                    self.lost_reply_bytes += len(data)
                    self._lost.set()
                    continue
                self._flows.wait()
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


@contextmanager
def running_proxy(target_port: int, listen: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[Proxy]:
    proxy = Proxy(target_port, listen)
    try:
        yield proxy
    finally:
        proxy.close()

"""Writers that do not give up: each sends its requests in order and keeps a ledger of what the server promised.

    wait for the gate ─▶ send request n ─▶ acknowledged: n + 1 ─▶ …
                              └─ no answer, or "later": it may be there or not; send it again, or now and then leave it

An answer that means neither "written" nor "later" is a fault, and ends the soak.
"""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.soak.requests import ROWS, Protocol, Request, telnet_lines, value_of

ANSWER_SECONDS_MAX = 60.0
_LEAVE_SHARE = 0.2
"""How often a request that got no answer is left in doubt."""
_LATER = (408, 429, 503, 504)


class NotAcknowledged(Exception):
    """The server is gone, or asks to be asked later."""


class NotSent(NotAcknowledged):
    """There was nobody to send to: nothing can have been written."""


@dataclass
class Ledger:
    """What a writer knows of its requests."""

    following: int = 0
    """The first request that has not been settled; all before it are acknowledged or in doubt."""
    attempts: Counter[int] = field(default_factory=Counter)
    """How often a request was sent without an answer."""
    doubtful: set[int] = field(default_factory=set)
    """Requests that were left without an answer."""

    @property
    def acknowledged(self) -> int:
        return self.following - len(self.doubtful)

    def copies(self, request: int, *, is_append: bool) -> tuple[int, int]:
        """How often the rows of a request are there, at least and at most."""
        tried = self.attempts[request]
        if request >= self.following or request in self.doubtful:
            return 0, tried if is_append else min(tried, 1)
        return 1, tried + 1 if is_append else 1


@dataclass
class Doors:
    """Where the server is now; None while it is down."""

    url: str | None = None
    telnet: tuple[str, int] | None = None


class Writer:
    """One client and its ledger."""

    def __init__(self, name: str, protocol: Protocol | None, doors: Doors, *, pause_seconds: float, seed: int) -> None:
        self.name = name
        self.protocol = protocol
        """None for telnet, which is no HTTP."""
        self.ledger = Ledger()
        self.busy = threading.Lock()
        """Held while a request is under way."""
        self.fault: str | None = None
        self._doors = doors
        self._pause_seconds = pause_seconds
        self._random = random.Random(seed)
        self._connection: http.client.HTTPConnection | socket.socket | None = None
        self._address: object = None

    def run(self, gate: threading.Event, end: threading.Event) -> None:
        """Write until the end."""
        while not end.is_set():
            if not gate.wait(0.1):
                continue
            with self.busy:
                is_sent = gate.is_set() and self._step()
            end.wait(self._pause_seconds * self._random.uniform(0.5, 1.5) if is_sent else 0.05)
        self._close()

    def _step(self) -> bool:
        """Send one request; False if it was not acknowledged."""
        ledger = self.ledger
        number = ledger.following
        try:
            self._send(number)
        except NotSent:
            return False
        except NotAcknowledged:
            ledger.attempts[number] += 1
            if self._random.random() < _LEAVE_SHARE:
                ledger.doubtful.add(number)
                ledger.following += 1
            return False
        except Exception as error:  # noqa: BLE001 - told by the thread that drives the soak
            self.fault = f"{self.name}, request {number}: {error!r}"
            return False
        ledger.following += 1
        return True

    def _send(self, number: int) -> None:
        try:
            if self.protocol is None:
                self._send_lines(number)
            else:
                self._post(self.protocol.make(self.name, number))
        except (OSError, http.client.HTTPException) as error:
            self._close()
            raise NotAcknowledged from error
        except NotAcknowledged:
            self._close()
            raise

    def _connect(
        self, address: object, open_connection: Callable[[], http.client.HTTPConnection | socket.socket]
    ) -> None:
        if self._connection is not None and self._address == address:
            return
        self._close()
        try:
            self._connection = open_connection()
        except OSError as error:
            raise NotSent from error
        self._address = address

    def _post(self, request: Request) -> None:
        url = self._doors.url
        if url is None:
            raise NotSent

        def open_connection() -> http.client.HTTPConnection:
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_SECONDS_MAX)
            connection.connect()
            return connection

        self._connect(url, open_connection)
        assert isinstance(self._connection, http.client.HTTPConnection)
        self._connection.request("POST", request.path, request.body, request.headers)
        response = self._connection.getresponse()
        body = response.read()
        if response.status in _LATER:
            raise NotAcknowledged
        is_partial = "/otlp/" in request.path and body
        expected = (200, 204) if request.is_good else (400,)
        if response.status not in expected or is_partial:
            raise AssertionError(f"{request.path} was answered with {response.status}: {body[:1000]!r}")

    def _send_lines(self, number: int) -> None:
        """Send lines, and `version` behind them: its answer comes when they have been dealt with."""
        address = self._doors.telnet
        if address is None:
            raise NotSent
        self._connect(address, lambda: socket.create_connection(address, timeout=ANSWER_SECONDS_MAX))
        assert isinstance(self._connection, socket.socket)
        self._connection.sendall(telnet_lines(self.name, number) + b"version\n")
        answer = b""
        while not answer.endswith(b"\n"):
            piece = self._connection.recv(65_536)
            if not piece:
                raise NotAcknowledged
            answer += piece
        if b"Internal error" in answer:
            raise NotAcknowledged
        if not answer.startswith(b"tsdb "):
            raise AssertionError(f"telnet was answered with {answer[:1000]!r}")

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def expected_sum(request: int) -> int:
    """The sum of the values of a request."""
    return sum(value_of(number) for number in range(request * ROWS, (request + 1) * ROWS))


def wait_idle(writers: list[Writer], gate: threading.Event, deadline_seconds: float = 2 * ANSWER_SECONDS_MAX) -> None:
    """Close the gate and wait until no request is under way."""
    gate.clear()
    deadline = time.monotonic() + deadline_seconds
    for writer in writers:
        assert writer.busy.acquire(timeout=max(0.0, deadline - time.monotonic())), f"{writer.name} does not come back"
        writer.busy.release()

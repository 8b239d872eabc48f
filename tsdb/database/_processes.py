"""The statements that are running: who sees them, and who can stop them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tsdb.clock import Clock
from tsdb.errors import Cancelled, UnknownProcess
from tsdb.query import Session, WriteToken

TEXT_CHARS_MAX = 4096
"""How much of a statement the process list keeps."""


@dataclass(slots=True, eq=False)
class Process:
    """One statement that is running."""

    id: str
    session: Session
    text: str
    started_ns: int
    is_cancelled: bool = False
    is_finishing: bool = False
    """Whether it was answered, while work behind it that cannot be interrupted still runs."""
    forget: Callable[[Process], None] = lambda _: None
    """Takes it off the list."""
    _holds: int = 0
    token: WriteToken = field(default_factory=WriteToken)
    _stops: list[Callable[[], None]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on_cancel(self, stop: Callable[[], None]) -> None:
        """Let `stop` end what is running, at once if the statement was cancelled already."""
        with self._lock:
            self._stops.append(stop)
            is_late = self.is_cancelled
        if is_late:
            stop()

    def cancel(self) -> None:
        with self._lock:
            self.is_cancelled = True
            stops = list(self._stops)
        self.token.cancel()
        for stop in stops:
            stop()

    def hold(self) -> Callable[[], None]:
        """Keep the statement in the list until the returned function is called, even after its answer."""
        with self._lock:
            self._holds += 1
        return self._release

    def _release(self) -> None:
        with self._lock:
            self._holds -= 1
            is_over = self.is_finishing and not self._holds
        if is_over:
            self._stops.clear()
            self.forget(self)

    def finish(self) -> bool:
        """Note that the statement was answered; tells whether nothing of it runs any more.

        Then nothing is left to stop. The functions go, because they hold answers and the plans behind them, and a plan
        holds the statement where Python's garbage collector cannot see it.
        """
        with self._lock:
            self.is_finishing = True
            if not self._holds:
                self._stops.clear()
            return not self._holds

    def check(self) -> None:
        """Raise Cancelled when the statement is not wanted any more: between the steps of a long one."""
        if self.is_cancelled:
            raise Cancelled("the statement was cancelled", process=self.id)


@dataclass(slots=True)
class Connected:
    """A client that stays connected, busy or not."""

    session: Session
    began_ns: int
    quiet_since_ns: int
    """When its last statement ended, or when it came if there was none."""


class ProcessList:
    """All statements that are running, of all sessions."""

    def __init__(self, clock: Clock, *, frontend: str = "") -> None:
        self._clock = clock
        self._numbers = itertools.count(1)
        self._running: dict[str, Process] = {}
        self._connected: dict[int, Connected] = {}
        self.frontend = frontend
        """The address of this server, the first part of every id."""

    @contextmanager
    def entered(self, session: Session, text: str) -> Iterator[Process]:
        """Show a statement in the list while it runs."""
        process = self.enter(session, text)
        try:
            yield process
        finally:
            self.leave(process)

    def enter(self, session: Session, text: str) -> Process:
        number = next(self._numbers)
        process = Process(f"{self.frontend}/{number}", session, text[:TEXT_CHARS_MAX], self._clock.now_ns())
        process.forget = self._forget
        if session.token is not None:
            process.token = session.token
        self._running[process.id] = process
        return process

    def _forget(self, process: Process) -> None:
        self._running.pop(process.id, None)

    def leave(self, process: Process) -> None:
        if process.finish():
            self._forget(process)
        session = process.session
        if session.statement is process:
            # Else they would hold each other until a garbage collection, which delays the requests of its moment.
            session.statement = None
        connected = self._connected.get(session.connection_id)
        if connected is not None:
            connected.quiet_since_ns = self._clock.now_ns()

    def connect(self, session: Session) -> None:
        """Note that a client is there, whether it runs something or not; again when its session is another one."""
        now_ns = self._clock.now_ns()
        before = self._connected.get(session.connection_id)
        began_ns = now_ns if before is None else before.began_ns
        self._connected[session.connection_id] = Connected(session, began_ns, now_ns)

    def disconnect(self, session: Session) -> None:
        self._connected.pop(session.connection_id, None)

    def connected(self) -> list[Connected]:
        """The clients that stay connected, in the order in which they came."""
        return list(self._connected.values())

    def all(self) -> list[Process]:
        return sorted(self._running.values(), key=lambda process: process.started_ns)

    def cancel_session(self, session: Session) -> None:
        """Stop whatever runs for a session."""
        for process in self.all():
            if process.session is session and not process.is_finishing:
                process.cancel()

    def check_connection(self, connection_id: int) -> None:
        """Raise Cancelled when what a connection runs is not wanted any more."""
        for process in list(self._running.values()):
            if process.session.connection_id == connection_id and not process.is_finishing:
                process.check()

    def kill(self, process_id: str) -> int:
        """Stop one statement; the number of statements that were stopped. UnknownProcess if it does not run."""
        process = self._running.get(process_id)
        if process is None:
            raise UnknownProcess(f"Unknown process id: {process_id!r}", hint="SHOW PROCESSLIST lists them")
        process.cancel()
        return 1

    def kill_connection(self, connection_id: int) -> int:
        """Stop what a connection runs; UnknownProcess if there is no such connection."""
        found = [process for process in self.all() if process.session.connection_id == connection_id]
        if not found and connection_id not in self._connected:
            raise UnknownProcess(f"Unknown process id: {connection_id}", hint="SHOW PROCESSLIST lists them")
        for process in found:
            process.cancel()
        return len(found)

"""The Flight server of a datanode: its regions, for frontends and metasrv.

    stream "changes" of a client ─▶ a session: its readers live as long as this stream
    streams "calls" of the session ─▶ `CallsEnd`, one request at a time each
    more streams "changes" ─▶ `ChangesEnd`, writes and other changes

Arrow runs each stream on a thread of its own, which mostly waits. How many requests compute at a time is decided by
slots (`threads_max`). A server that stops tells its clients on their first streams; these end all of theirs.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import pyarrow.flight as flight

from tsdb.clock import Clock, SystemClock
from tsdb.errors import Busy, StartError, TsdbError
from tsdb.remote._errors import BadMessage, NodeUnavailable, lower_error
from tsdb.remote._readers import Readers
from tsdb.remote._serve_calls import CallsEnd
from tsdb.remote._serve_changes import ChangesEnd
from tsdb.remote._served import NodeVerbs, ServedRegions
from tsdb.remote._slots import RequestSlots
from tsdb.remote._streams import BROKEN, CALLS, CHANGES, ServerStream
from tsdb.telemetry import gauge, get_logger
from tsdb.units import Duration

STREAMS_MAX = 2048
"""How many streams all clients together may have open: each has a thread."""
STOP_GRACE = Duration.of_seconds(5)
_TICK_SECONDS = 0.5

_STREAMS = gauge("tsdb_region_server_streams", "Streams that other nodes have open to this datanode.")
_READERS = gauge("tsdb_region_server_readers", "Readers that other nodes have open on this datanode.")
_RUNNING = gauge("tsdb_region_server_running", "Requests of other nodes that are running on this datanode.")
_WAITING = gauge("tsdb_region_server_waiting", "Requests of other nodes that wait for a slot of this datanode.")

_log = get_logger("tsdb.remote")


class RegionServer:
    """Serves regions at an address."""

    def __init__(
        self,
        regions: ServedRegions,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        threads_max: int = 8,
        node: NodeVerbs | None = None,
        streams_max: int = STREAMS_MAX,
        clock: Clock | None = None,
    ) -> None:
        """With port 0 a free one is chosen. `threads_max` is how many requests compute at a time."""
        self.regions = regions
        """What is served; another engine may take its place."""
        self._host, self._port = host, port
        self._node = node or NodeVerbs()
        self._clock = clock or SystemClock()
        self._streams_max = streams_max
        self._slots = RequestSlots(threads_max, self._clock)
        self.readers = Readers(self._clock)
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._sessions: dict[int, ServerStream] = {}
        self._streams: set[ServerStream] = set()
        self._idle = threading.Condition(self._lock)
        self._is_stopping = threading.Event()
        self._flight: _Flight | None = None

    def start(self) -> None:
        """Listen; StartError if the address cannot be used."""
        try:
            self._flight = _Flight(f"grpc://{self._host}:{self._port}", self._serve)
        except BROKEN as error:
            raise StartError(
                f"the address for other nodes cannot be used: {error}", address=f"{self._host}:{self._port}"
            ) from error
        self._port = self._flight.port
        threading.Thread(target=self._tick, name="tsdb-region-server", daemon=True).start()

    @property
    def address(self) -> str:
        """`host:port`; the port is known once the server has started."""
        return f"{self._host}:{self._port}"

    @property
    def streams(self) -> int:
        """How many streams clients have open."""
        return len(self._streams)

    def stop(self, grace: Duration = STOP_GRACE) -> bool:
        """Begin nothing more, and have clients end their streams: in half of the grace what they ask is still answered.

        Returns whether all have done so. Streams of a client that does not answer end with it, or with this process.
        """
        self._is_stopping.set()
        is_clean = self._say({"stops": "soon"}, grace) or self._say({"stops": "now"}, grace)
        self.readers.close()
        server, self._flight = self._flight, None
        if server is not None:
            _end(server, grace if is_clean else Duration(0))
        return is_clean

    def _say(self, head: dict[str, Any], grace: Duration) -> bool:
        """Tell all clients something, and wait until they have ended their streams."""
        with self._lock:
            sessions = list(self._sessions.values())
        for stream in sessions:
            with suppress(*BROKEN):
                stream.send(head)
        with self._idle:
            return self._idle.wait_for(lambda: not self._streams, grace.seconds / 2)

    def _serve(self, stream: ServerStream) -> None:
        with self._lock:
            is_full = len(self._streams) >= self._streams_max
            if not is_full:
                self._streams.add(stream)
        try:
            self._greet(stream, is_full=is_full)
        except BROKEN:
            pass  # the client is gone
        except Exception as error:  # noqa: BLE001 - what a message can bring about that is none
            _log.warning("a stream of another node was ended", peer=stream.peer, error=error)
            bad = error if isinstance(error, TsdbError) else BadMessage(f"a message cannot be parsed: {error!r}")
            self._refuse(stream, bad)
        finally:
            stream.end()
            with self._idle:
                self._streams.discard(stream)
                self._idle.notify_all()

    def _greet(self, stream: ServerStream, *, is_full: bool) -> None:
        try:
            message = stream.receive()
        except TsdbError as error:
            self._refuse(stream, error)
            return
        if message is None:
            return
        head = message[0]
        if self._is_stopping.is_set():
            self._refuse(stream, NodeUnavailable("it is stopping", address=self.address))
        elif is_full:
            self._refuse(stream, Busy("too many streams are open on the datanode", hint="try again later"))
        elif head.get("hello") == CHANGES:
            self._serve_changes(stream, is_first=not head.get("session"))
        elif head.get("hello") == CALLS and head.get("session") in self._sessions:
            stream.send({"ready": True})
            self._calls(stream, head["session"]).run()
        else:
            self._refuse(stream, NodeUnavailable("the session is over", address=self.address))

    def _calls(self, stream: ServerStream, session: int) -> CallsEnd:
        return CallsEnd(
            stream,
            session,
            regions=lambda: self.regions,
            node=self._node,
            readers=self.readers,
            slots=self._slots,
            clock=self._clock,
        )

    def _serve_changes(self, stream: ServerStream, *, is_first: bool) -> None:
        session = next(self._numbers)
        if is_first:
            self._sessions[session] = stream
        try:
            stream.send({"ready": True, "session": session})
            ChangesEnd(stream, lambda: self.regions, partial(self._release, session)).run()
        finally:
            if is_first:
                del self._sessions[session]
                self.readers.end_session(session)

    def _release(self, session: int, numbers: list[int]) -> None:
        for number in numbers:
            self.readers.release(number, session)

    def _refuse(self, stream: ServerStream, error: TsdbError) -> None:
        with suppress(*BROKEN):
            stream.send({"error": lower_error(error)})

    def _tick(self) -> None:
        """Release readers whose time is over, and count."""
        while not self._is_stopping.wait(_TICK_SECONDS):
            self.readers.expire()
            _STREAMS.set(len(self._streams))
            _READERS.set(len(self.readers))
            _RUNNING.set(self._slots.running)
            _WAITING.set(self._slots.waiting)


def _end(server: _Flight, grace: Duration) -> None:
    """Shut a server down. Arrow waits for streams of clients that do not answer, however long that takes.

    It would do so once more at the end of the process: a server that has streams left is spared that.
    """
    ending = threading.Thread(target=server.shutdown, name="tsdb-region-server-end", daemon=True)
    ending.start()
    ending.join(grace.seconds)
    if ending.is_alive():
        registered: Iterable[Any] = getattr(weakref.finalize, "_registry", ())
        for finalizer in list(registered):
            known = finalizer.peek()
            if known is not None and known[0] is server:
                finalizer.atexit = False


class _Flight(flight.FlightServerBase):  # type: ignore[misc]
    """Hands each stream to the server."""

    def __init__(self, location: str, serve: Callable[[ServerStream], None]) -> None:
        super().__init__(location)
        self._serve = serve

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        self._serve(ServerStream(context, reader, writer))

"""A watch of the metadata by way of a metadata server, as a `KvWatch`.

A thread reads the stream of one server and goes on with the next one when it breaks, behind the last revision that was
handed on. A server that cannot reach the store says so with its ticks; after some of them another one is asked.
"""

from __future__ import annotations

import threading
from queue import Empty, Full, Queue
from typing import Any

import grpc

from tsdb.error_json import error_from_json
from tsdb.errors import TsdbError
from tsdb.kv import KvClosed, WatchChanges, WatchReset
from tsdb.meta._wire import WATCH, method_path, read_body, read_changes, read_page, write_body
from tsdb.meta.client._channels import MetaChannels
from tsdb.telemetry import get_logger

_BACKLOG = 64
"""How many messages wait for their reader; then the server holds the rest back."""
_PAUSE_MIN_SECONDS, _PAUSE_MAX_SECONDS = 0.05, 1.0
_STEP_SECONDS = 0.2
_PROBLEMS_MAX = 3
_LOG = get_logger(__name__)


class MetaWatch:
    """Everything in the metadata, and every change of it."""

    def __init__(self, channels: MetaChannels, after_revision: int | None) -> None:
        self.problem: str | None = "not connected yet"
        self._channels = channels
        self._revision = after_revision
        self._found: Queue[WatchReset | WatchChanges] = Queue(_BACKLOG)
        self._closed = threading.Event()
        self._call: Any = None
        self._thread = threading.Thread(target=self._run, name="meta-watch", daemon=True)
        self._thread.start()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def wait(self, timeout_seconds: float) -> WatchReset | WatchChanges | None:
        if self._closed.is_set():
            raise KvClosed
        try:
            return self._found.get(timeout=timeout_seconds) if timeout_seconds > 0 else self._found.get_nowait()
        except Empty:
            if self._closed.is_set():
                raise KvClosed from None
            return None

    def close(self) -> None:
        self._closed.set()
        call = self._call
        if call is not None:
            call.cancel()

    def _run(self) -> None:
        address, pause = self._channels.preferred, _PAUSE_MIN_SECONDS
        while not self._closed.is_set():
            before = self._revision
            try:
                self._follow(address)
            except grpc.RpcError as error:
                self.problem = f"{address}: {error.code().name}: {error.details()}"
            except (KvClosed, ValueError):
                # The channels were closed.
                self._closed.set()
                return
            except (TsdbError, LookupError, TypeError) as error:
                # A server of another version may say what is not understood here.
                self.problem = f"{address}: {type(error).__name__}: {error}"
                _LOG.error("what a metadata server says is not understood", address=address, error=str(error))
            if self._closed.is_set():
                return
            address = self._channels.after(address)
            pause = _PAUSE_MIN_SECONDS if self._revision != before else min(_PAUSE_MAX_SECONDS, 2 * pause)
            _LOG.info("the metadata is followed from another server", address=address, problem=self.problem)
            self._closed.wait(pause)

    def _follow(self, address: str) -> None:
        """Hand on what one server says, until its stream ends."""
        stream = self._channels.channel(address).unary_stream(method_path(WATCH))
        self._call = stream(write_body({"after_revision": self._revision}))
        pages: list[tuple[str, bytes]] = []
        problems = 0
        for body in self._call:
            message = read_body(body)
            if "error" in message:
                self.problem = f"{address}: {error_from_json(message['error'])}"
                return
            self.problem = message.get("problem")
            problems = problems + 1 if self.problem else 0
            if problems >= _PROBLEMS_MAX and len(self._channels.addresses) > 1:
                self._call.cancel()
                return
            if "reset" in message:
                pages += read_page(message)
                if not message["more"]:
                    self._hand_on(WatchReset(message["reset"], tuple(pages)))
                    pages = []
            elif "changes" in message:
                self._hand_on(read_changes(message))
        self.problem = f"{address}: the stream ended"

    def _hand_on(self, found: WatchReset | WatchChanges) -> None:
        while not self._closed.is_set():
            try:
                self._found.put(found, timeout=_STEP_SECONDS)
            except Full:
                continue
            self._revision = found.revision
            return

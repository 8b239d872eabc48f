"""The gRPC server of a metadata server, on threads.

Bodies are JSON (`_wire.py`). Each watch has a thread as long as its client listens, so their number is bounded, and
other calls have threads of their own number. Nobody logs in here: the address belongs into a network that only the
nodes of the cluster can reach.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from tsdb.error_json import error_to_json
from tsdb.errors import Busy, StartError, TsdbError
from tsdb.kv import KvClosed, KvWatch
from tsdb.meta._metasrv import ChangeRefused, Metasrv
from tsdb.meta._wire import MESSAGE_BYTES_MAX, METHODS, SERVICE, WATCH, read_body, watch_messages, write_body
from tsdb.meta.errors import NotLeader
from tsdb.telemetry import TraceSpan, continue_trace, entered, get_logger, is_tracing

CALLS_MAX = 128
"""How many calls may be under way; further ones wait."""
WATCHES_MAX = 512
"""How many clients may follow the metadata; further ones are refused."""
CHANGES_MAX = 64
"""How many clients may wait for their changes; further ones are refused, so that heartbeats always find a thread."""
TICK_SECONDS = 2.0
"""How long a watch says nothing when nothing happens."""

_log = get_logger("tsdb.meta")


class MetaServer:
    """Serves a `Metasrv`, which may be made after the address is taken."""

    def __init__(self, metasrv: Callable[[], Metasrv], *, host: str, port: int) -> None:
        self._metasrv = metasrv
        self._host, self._port = host, port
        self._watches = threading.BoundedSemaphore(WATCHES_MAX)
        self._changes = threading.BoundedSemaphore(CHANGES_MAX)
        self._open: set[KvWatch] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(CALLS_MAX + WATCHES_MAX, thread_name_prefix="metasrv-grpc")
        self._server: grpc.Server | None = None

    @property
    def address(self) -> str:
        return f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"

    def listen(self) -> None:
        """Take the address; StartError if that cannot be."""
        server = grpc.server(self._pool, options=_OPTIONS, maximum_concurrent_rpcs=CALLS_MAX + WATCHES_MAX)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, self._handlers()),))
        try:
            self._port = server.add_insecure_port(self.address)
        except RuntimeError as error:
            raise StartError(
                f"cannot listen on {self.address} for gRPC: {error}", hint="change bind_addr, or free the address"
            ) from error
        self._server = server

    def start(self) -> None:
        if self._server is None:
            self.listen()
        assert self._server is not None
        self._server.start()

    def stop(self, grace_seconds: float) -> None:
        """Accept no more, and end what is under way within the grace period."""
        self._stopping.set()
        with self._lock:
            watches = list(self._open)
        for watch in watches:
            watch.close()
        if self._server is not None:
            self._server.stop(grace_seconds).wait(grace_seconds + 1.0)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        handlers = {name: grpc.unary_unary_rpc_method_handler(self._unary(name)) for name in METHODS}
        return {**handlers, WATCH: grpc.unary_stream_rpc_method_handler(self._watch)}

    def _unary(self, method: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def serve(body: bytes, context: grpc.ServicerContext) -> bytes:
            with entered(_continued(method, context)):
                return write_body(self._answer(method, body))

        return serve

    def _answer(self, method: str, body: bytes) -> dict[str, Any]:
        try:
            return self._call(method, read_body(body))
        except NotLeader as error:
            return {"leader": error.leader}
        except ChangeRefused as refused:
            return {"error": error_to_json(refused.error), "revision": refused.revision}
        except TsdbError as error:
            return {"error": error_to_json(error), "revision": 0}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            _log.exception("a call failed unexpectedly", method=method)
            return {"error": error_to_json(TsdbError(f"the call failed unexpectedly: {error}", method=method))}

    def _call(self, method: str, request: dict[str, Any]) -> dict[str, Any]:
        if method != "Change":
            return self._metasrv().answer(method, request)
        if not self._changes.acquire(blocking=False):
            raise Busy(f"{CHANGES_MAX} clients wait for changes of the metadata already", hint="try again later")
        try:
            return self._metasrv().answer(method, request)
        finally:
            self._changes.release()

    def _watch(self, body: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        if not self._watches.acquire(blocking=False):
            busy = Busy(f"{WATCHES_MAX} clients follow the metadata already", hint="try again later")
            yield write_body({"error": error_to_json(busy)})
            return
        try:
            yield from self._messages(read_body(body), context)
        except KvClosed:
            return
        except TsdbError as error:
            yield write_body({"error": error_to_json(error)})
        finally:
            self._watches.release()

    def _messages(self, request: dict[str, Any], context: grpc.ServicerContext) -> Iterator[bytes]:
        after = request.get("after_revision")
        watch = self._metasrv().watch(after if isinstance(after, int) else None)
        with self._lock:
            self._open.add(watch)
        try:
            while context.is_active() and not self._stopping.is_set():
                found = watch.wait(TICK_SECONDS)
                if found is None:
                    yield write_body({"tick": True, "problem": watch.problem})
                else:
                    yield from map(write_body, watch_messages(found))
        finally:
            with self._lock:
                self._open.discard(watch)
            watch.close()


def _continued(method: str, context: grpc.ServicerContext) -> TraceSpan | None:
    """Continue the trace of a node, if its request is traced."""
    if not is_tracing():
        return None
    found = next((value for key, value in context.invocation_metadata() if key == "traceparent"), None)
    return continue_trace(f"metasrv.{method}", found)


_OPTIONS = [
    # By default a second process would take the same port without a word.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", 5000),
    ("grpc.keepalive_timeout_ms", 5000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
]

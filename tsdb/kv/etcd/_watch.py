"""A watch of etcd that survives its connections.

A thread reads the stream and puts what it says into a bounded queue. It remembers the revision up to which everything
was queued, and every new stream starts behind it, at another member if the last one failed: nothing is lost and nothing
comes twice. It advances with changes, and with the notifications that etcd sends to streams on which nothing happens.

If etcd has compacted the history from there, or was replaced by a cluster with less history, all keys are read anew.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc

from tsdb.errors import TsdbError
from tsdb.kv._coordination import KeyDeleted, KeyEvent, KeyPut, WatchChanges, WatchReset
from tsdb.kv._errors import KvClosed, KvConflict, KvDenied, KvUnavailable
from tsdb.kv.etcd import etcd_pb2 as pb
from tsdb.kv.etcd._client import EtcdClient
from tsdb.kv.etcd._failures import EtcdFailure, FailureKind
from tsdb.kv.etcd._methods import WATCH
from tsdb.kv.etcd._metrics import WATCH_RESETS
from tsdb.kv.etcd._reads import read_snapshot
from tsdb.kv.etcd._requests import Keyspace
from tsdb.kv.etcd._retry import backoff_seconds
from tsdb.kv.etcd._settings import Endpoint
from tsdb.telemetry import get_logger

_LOG = get_logger(__name__)
_CLOSED_CHECK_SECONDS = 0.1
_REFUSALS_MAX = 3


class EtcdWatch:
    """What happens to the keys with a prefix."""

    def __init__(self, client: EtcdClient, keyspace: Keyspace, prefix: str, after_revision: int | None) -> None:
        self.problem: str | None = None
        self._client = client
        self._keyspace = keyspace
        self._prefix = prefix
        self._revision = after_revision
        """Everything up to it is in the queue; None: nothing is yet, not even what is there."""
        self._queue: queue.Queue[WatchReset | WatchChanges] = queue.Queue(client.tuning.watch_backlog)
        self._closed = threading.Event()
        self._error: TsdbError | None = None
        self._call: Any = None
        self._cluster_id = 0
        self._refusals = 0
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=f"kv-watch-{prefix}", daemon=True)
        self._thread.start()

    def wait(self, timeout_seconds: float) -> WatchReset | WatchChanges | None:
        deadline = time.monotonic() + timeout_seconds
        while not self._closed.is_set():
            remaining = deadline - time.monotonic()
            try:
                return self._queue.get(timeout=max(0.0, min(remaining, _CLOSED_CHECK_SECONDS)))
            except queue.Empty:
                if self._error is not None:
                    raise self._error from None
                if remaining <= 0:
                    return None
        raise KvClosed

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def close(self) -> None:
        self._closed.set()
        if self._call is not None:
            self._call.cancel()
        self._thread.join(self._client.tuning.timeout_seconds)

    def _run(self) -> None:
        """Follow the changes until the watch or the store is closed, or etcd refuses for good."""
        while not self._closed.is_set() and self._error is None:
            try:
                if self._revision is None:
                    self._reset()
                self._follow()
            except KvClosed:
                self._closed.set()
            except (KvUnavailable, KvConflict) as error:
                self._note(error)
            except EtcdFailure as failure:
                self._note(failure.as_error())
            except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
                _LOG.exception("a watch of etcd failed", prefix=self._prefix)
                self._error = error if isinstance(error, TsdbError) else KvUnavailable(f"a watch failed: {error!r}")

    def _reset(self) -> None:
        found = read_snapshot(self._client, self._keyspace, self._prefix)
        self._put(found)
        self._revision = found.revision

    def _follow(self) -> None:
        """Read one stream to its end."""
        done = threading.Event()
        endpoint, call = self._client.stream(WATCH, self._requests(done))
        self._call = call
        if self._closed.is_set():
            call.cancel()
        pending: list[KeyEvent] = []
        try:
            for reply in call:
                if not self._take(reply, pending, endpoint):
                    return
            raise EtcdFailure(FailureKind.TRANSIENT, "the stream ended", str(endpoint))
        except grpc.RpcError as error:
            if self._closed.is_set():
                raise KvClosed from None
            raise self._client.failure_of(error, endpoint) from error
        finally:
            done.set()
            call.cancel()

    def _requests(self, done: threading.Event) -> Iterator[pb.WatchRequest]:
        """Create the watch, and leave the stream open: etcd ends it when the requests end."""
        begin, end = self._keyspace.range_of(self._prefix)
        assert self._revision is not None
        create = pb.WatchCreateRequest(
            key=begin, range_end=end, start_revision=self._revision + 1, progress_notify=True, fragment=True
        )
        yield pb.WatchRequest(create_request=create)
        done.wait()

    def _take(self, reply: pb.WatchResponse, pending: list[KeyEvent], endpoint: Endpoint) -> bool:
        """Queue the changes of a reply; return False if all keys have to be read again."""
        assert self._revision is not None
        if reply.canceled and not reply.compact_revision:
            raise self._refused(reply, endpoint)
        if reply.canceled or (reply.created and self._is_replaced(reply.header)):
            _LOG.warning("etcd no longer has the history of a watch, all keys are read anew", prefix=self._prefix)
            WATCH_RESETS.inc()
            self._revision = None
            return False
        self._recovered()
        events = [self._event(event) for event in reply.events if event.kv.mod_revision > self._revision]
        pending += [event for event in events if event is not None]
        # Parts of a reply that was too large for one message belong together: a transaction is never split.
        if reply.fragment or reply.created:
            return True
        if pending:
            self._put(WatchChanges(pending[-1].revision, tuple(pending)))
            pending.clear()
        # The revision of the store says how far a watch is only in notifications: with events, more may follow.
        reached = reply.events[-1].kv.mod_revision if reply.events else reply.header.revision
        self._revision = max(self._revision, reached)
        return True

    def _refused(self, reply: pb.WatchResponse, endpoint: Endpoint) -> EtcdFailure:
        reason = reply.cancel_reason or "etcd ended the watch"
        kind = FailureKind.TOKEN if "permission" in reason or "token" in reason else FailureKind.TRANSIENT
        return self._client.note(EtcdFailure(kind, reason, str(endpoint)), endpoint)

    def _is_replaced(self, header: pb.Header) -> bool:
        """Tell a cluster that was replaced, or restored from a backup, from a member that lags behind."""
        assert self._revision is not None
        was, self._cluster_id = self._cluster_id, header.cluster_id
        if was not in (0, header.cluster_id):
            return True
        if header.revision >= self._revision:
            return False
        return read_snapshot(self._client, self._keyspace, self._prefix).revision < self._revision

    def _event(self, event: pb.WatchEvent) -> KeyEvent | None:
        key = self._keyspace.decode(event.kv.key)
        if key is None:
            return None
        if event.type == pb.WatchEvent.DELETE:
            return KeyDeleted(key, event.kv.mod_revision)
        return KeyPut(key, event.kv.value, event.kv.mod_revision)

    def _put(self, item: WatchReset | WatchChanges) -> None:
        while not self._closed.is_set():
            try:
                return self._queue.put(item, timeout=_CLOSED_CHECK_SECONDS)
            except queue.Full:
                continue
        raise KvClosed

    def _recovered(self) -> None:
        self.problem = None
        self._refusals = self._failures = 0

    def _note(self, error: TsdbError) -> None:
        """Pause after a failure; a user who is refused again after a new login will not be let in by waiting."""
        self.problem = str(error)
        self._refusals = self._refusals + 1 if isinstance(error, KvDenied) else 0
        if self._refusals >= _REFUSALS_MAX:
            self._error = error
            return
        pause = backoff_seconds(self._client.tuning, self._failures)
        self._failures += 1
        if self._closed.wait(pause) or self._client.wait_closed(0):
            self._closed.set()

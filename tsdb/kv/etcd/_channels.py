"""Connections to the members of the cluster: one channel each, opened when first used, and one of them is preferred.

gRPC's own choice among addresses is not used: it prefers any connection that is open, also one to a member that hangs
or has no leader, and does not say which member it asked. Here a failure moves the preference to the next member.

A connection can be dead without anybody having closed it. Open streams find out by pings, which etcd does not allow
without a stream, so a channel on which calls time out one after the other is replaced.
"""

from __future__ import annotations

import threading

import grpc

from tsdb.kv._errors import KvClosed
from tsdb.kv.etcd._settings import Endpoint, EtcdSettings, EtcdTuning
from tsdb.kv.etcd._tls import EtcdTls

_CONNECT_TIMEOUT_MS = 5000
_RECONNECT_MIN_MS = 50
_RECONNECT_MAX_MS = 1000
_TIMEOUTS_MAX = 2


class Channels:
    """One channel per endpoint. Any thread may use them."""

    def __init__(self, settings: EtcdSettings, tuning: EtcdTuning) -> None:
        self.endpoints = settings.endpoints
        self._tls = settings.tls
        self._options = _options(tuning)
        self._lock = threading.Lock()
        self._open: dict[Endpoint, grpc.Channel] = {}
        self._timeouts: dict[Endpoint, int] = {}
        self._preferred = 0
        self._is_closed = False

    def preferred(self) -> Endpoint:
        return self.endpoints[self._preferred]

    def avoid(self, endpoint: Endpoint) -> None:
        """Prefer the next member, if this one is still preferred."""
        with self._lock:
            if self.preferred() == endpoint:
                self._preferred = (self._preferred + 1) % len(self.endpoints)

    def answered(self, endpoint: Endpoint) -> None:
        """Take note that the connection to a member works."""
        if self._timeouts.get(endpoint):
            self._timeouts[endpoint] = 0

    def timed_out(self, endpoint: Endpoint) -> None:
        """Take note of a call without a reply; replace the channel if it was not the first."""
        with self._lock:
            self._timeouts[endpoint] = self._timeouts.get(endpoint, 0) + 1
            if self._timeouts[endpoint] < _TIMEOUTS_MAX:
                return
            self._timeouts[endpoint] = 0
            channel = self._open.pop(endpoint, None)
        if channel is not None:
            channel.close()

    def channel(self, endpoint: Endpoint) -> grpc.Channel:
        with self._lock:
            if self._is_closed:
                raise KvClosed
            if endpoint not in self._open:
                self._open[endpoint] = self._connect(endpoint)
            return self._open[endpoint]

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            channels = list(self._open.values())
            self._open.clear()
        for channel in channels:
            channel.close()

    def _connect(self, endpoint: Endpoint) -> grpc.Channel:
        if not endpoint.is_secure:
            return grpc.insecure_channel(endpoint.target, options=self._options)
        return grpc.secure_channel(endpoint.target, (self._tls or EtcdTls()).credentials(), options=self._options)


def _options(tuning: EtcdTuning) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", tuning.reply_bytes_max),
        ("grpc.max_send_message_length", -1),  # etcd says how much it takes, and what it says is told
        ("grpc.keepalive_time_ms", round(tuning.ping_seconds * 1000)),
        # Without the second of these, a ping without a reply ends the connection only after a minute.
        ("grpc.keepalive_timeout_ms", round(tuning.ping_timeout_seconds * 1000)),
        ("grpc.http2.ping_timeout_ms", round(tuning.ping_timeout_seconds * 1000)),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", _RECONNECT_MIN_MS),
        ("grpc.min_reconnect_backoff_ms", _CONNECT_TIMEOUT_MS),  # despite its name, what a connection may take
        ("grpc.max_reconnect_backoff_ms", _RECONNECT_MAX_MS),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
        # Two stores in one process must not share a connection: closing one would not close it.
        ("grpc.use_local_subchannel_pool", 1),
    ]

"""Connections to metadata servers: one channel for each address, and one of them is preferred."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import grpc

from tsdb.errors import InvalidArguments
from tsdb.kv import KvClosed
from tsdb.meta._wire import MESSAGE_BYTES_MAX
from tsdb.meta.client._nodelay import clear_nodelay
from tsdb.units import Duration

_RECONNECT_MIN_MS, _RECONNECT_MAX_MS = 50, 1000
_PING_MS = 5000


@dataclass(frozen=True, slots=True)
class MetaClientSettings:
    """Times of the client."""

    timeout: Duration = Duration.of_seconds(3)
    """How long a call may take, with all of its attempts."""
    connect_timeout: Duration = Duration.of_seconds(1)
    ddl_timeout: Duration = Duration.of_seconds(10)
    """How long a change of the catalog is waited for; it goes on behind it."""
    tcp_nodelay: bool = True
    """Whether small packets are sent at once."""


class MetaChannels:
    """Channels to several servers. The preferred one is the leader, as far as is known. Any thread may use them."""

    def __init__(self, addresses: Sequence[str], settings: MetaClientSettings) -> None:
        if not addresses:
            raise InvalidArguments("no address of a metadata server is given", hint="set meta_client.metasrv_addrs")
        self.addresses = tuple(dict.fromkeys(addresses))
        self._settings = settings
        self._options = _options(settings)
        self._lock = threading.Lock()
        self._open: dict[str, grpc.Channel] = {}
        self._preferred = self.addresses[0]
        self._is_closed = False

    @property
    def preferred(self) -> str:
        return self._preferred

    def prefer(self, address: str) -> None:
        """Ask this server from now on; it may be one that is not in the configuration."""
        self._preferred = address

    def avoid(self, address: str) -> None:
        """Ask the next server, if this one is still preferred."""
        with self._lock:
            if self._preferred == address:
                self._preferred = self.after(address)

    def after(self, address: str) -> str:
        """The configured server after one."""
        if address not in self.addresses:
            return self.addresses[0]
        return self.addresses[(self.addresses.index(address) + 1) % len(self.addresses)]

    def channel(self, address: str) -> grpc.Channel:
        with self._lock:
            if self._is_closed:
                raise KvClosed
            if address not in self._open:
                self._open[address] = self._connect(address)
            return self._open[address]

    def _connect(self, address: str) -> grpc.Channel:
        channel = grpc.insecure_channel(address, options=self._options)
        if not self._settings.tcp_nodelay:
            port = int(address.rpartition(":")[2])

            def on_state(state: grpc.ChannelConnectivity) -> None:
                if state is grpc.ChannelConnectivity.READY:
                    clear_nodelay(port)

            channel.subscribe(on_state)
        return channel

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            channels = list(self._open.values())
            self._open.clear()
        for channel in channels:
            channel.close()


def _options(settings: MetaClientSettings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
        ("grpc.keepalive_time_ms", _PING_MS),
        ("grpc.keepalive_timeout_ms", _PING_MS),
        ("grpc.http2.ping_timeout_ms", _PING_MS),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", _RECONNECT_MIN_MS),
        # Despite its name, what a connection may take.
        ("grpc.min_reconnect_backoff_ms", max(1, settings.connect_timeout // 1_000_000)),
        ("grpc.max_reconnect_backoff_ms", _RECONNECT_MAX_MS),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]

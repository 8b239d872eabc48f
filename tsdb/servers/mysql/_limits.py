"""Limits of the MySQL server."""

from __future__ import annotations

from dataclasses import dataclass

from tsdb.servers.mysql._protocol import PACKET_BYTES_MAX
from tsdb.units import Duration

_IDLE = Duration.parse("8h")
_NO_TIME = Duration(0)


@dataclass(frozen=True, slots=True)
class MysqlLimits:
    """Limits of connections."""

    threads_max: int = 2
    connections_max: int = 4096
    idle: Duration = _IDLE
    keep_alive: Duration = _NO_TIME
    prepared_max: int = 10_000
    packet_bytes_max: int = PACKET_BYTES_MAX
    login_seconds_max: float = 10.0
    """For each packet of a login."""
    pace_seconds_max: float = 30.0
    """For each `PACE_BYTES` of a packet that has begun."""

    @property
    def idle_seconds(self) -> float | None:
        return int(self.idle) / 1e9 or None

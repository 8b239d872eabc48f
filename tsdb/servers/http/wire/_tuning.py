"""Tuning values of HTTP connections that are not configuration."""

from __future__ import annotations

from dataclasses import dataclass

IDLE_SECONDS_MAX = 75.0
HANDSHAKE_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class HttpTuning:
    """Timeouts and intervals; tests pass smaller ones."""

    idle_seconds_max: float = IDLE_SECONDS_MAX
    """The idle timeout between requests, and the time for the head of a request."""
    sweep_seconds: float = 1.0
    """How often idle connections are looked for."""
    recent_seconds: float = 0.1
    """A connection that began a request within this time may send another one while another client is served."""
    handshake_seconds_max: float = HANDSHAKE_SECONDS_MAX
    """For the TLS handshake."""
    interrupt_seconds_max: float = 1.0
    """How long a handler may take to end after it was cancelled."""


TUNING = HttpTuning()

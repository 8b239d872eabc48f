"""Tuning values of the PostgreSQL server that are not configuration."""

from __future__ import annotations

from dataclasses import dataclass

COPY_RECORD_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class PostgresTuning:
    """Timeouts and sizes; tests pass smaller ones."""

    login_seconds_max: float = 30.0
    """From the first byte to the end of the login."""
    message_seconds: float = 30.0
    """For a message that has begun, in addition to the time its bytes take at the lowest speed."""
    copy_piece_bytes: int = 8 << 20
    """How much of a COPY is parsed at a time."""
    copy_record_bytes_max: int = COPY_RECORD_BYTES_MAX
    """A COPY with a longer line is refused."""


TUNING = PostgresTuning()

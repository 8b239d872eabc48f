"""How the client of remote regions behaves."""

from __future__ import annotations

from dataclasses import dataclass

from tsdb.units import Duration


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """Bounds of what is asked of datanodes."""

    connect_timeout: Duration = Duration.of_seconds(5)
    """How long a datanode may take to begin a session."""
    timeout: Duration = Duration.of_seconds(60)
    """How long it may take to answer a request that has no deadline of its own."""
    answer_timeout: Duration = Duration.of_seconds(60)
    """How long the answer to a write may take on top of what the write may wait for memory."""
    silence_timeout: Duration = Duration.of_seconds(20)
    """How long a datanode may leave the question unanswered whether it is there, before the connection is given up."""
    call_streams_max: int = 64
    """How many requests of readers run on one datanode at a time; more wait."""
    write_streams: int = 2
    """How many streams carry writes to one datanode; those of one region are in order."""
    changes_in_flight_max: int = 64
    """How many writes of one stream may be unanswered; more wait."""

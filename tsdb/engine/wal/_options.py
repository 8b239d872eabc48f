"""Settings of the log."""

from __future__ import annotations

from dataclasses import dataclass

from tsdb.units import Duration, Size


@dataclass(frozen=True, slots=True)
class WalSettings:
    """The settings of section `[wal]`, and bounds that have no key."""

    file_size: Size = Size(256 << 20)
    """A segment never grows past this, except one that holds a single frame that is larger."""
    sync_write: bool = False
    """Sync before an append is acknowledged, rather than every `sync_interval`."""
    purge_interval: Duration = Duration.of_seconds(600)
    """How often the owner of the log calls `purge`."""
    purge_threshold: Size = Size(4 << 30)
    """Above this total, `purge` names the regions that keep the oldest segments alive."""
    read_batch_size: int = 128
    """At most this many frames in a batch of `read`."""
    sync_interval: Duration = Duration.of_seconds(1)
    """Without `sync_write`, what a power loss may cost."""
    queue_bytes_max: Size = Size(64 << 20)
    """Callers of `append` wait while more than this is queued."""
    append_timeout: Duration = Duration.of_seconds(30)
    """How long they wait."""
    close_timeout: Duration = Duration.of_seconds(30)
    """How long `close` waits for the queue to drain."""
    ballast_bytes: Size = Size(64 << 20)
    """Space set aside when the disk runs out, and given back when it is full, so that flushes can finish; 0: none."""

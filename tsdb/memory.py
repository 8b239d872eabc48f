"""What the parts of a server hold in memory, and how they are made to hold less.

The server has one memory limit. Each part has a share of it and says what it holds (`memory_use`). When the processes
together come near the limit, all parts are told to keep to a smaller part of their share (`limit_memory`), until there
is room again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

SHARES = (1.0, 0.75, 0.5, 0.25)
"""The fractions of their shares that owners are limited to, one after the other."""
LEAST_SHARE = SHARES[-1]
"""When only so much is left, nothing large is begun."""


class MemoryUse(NamedTuple):
    """What one owner holds."""

    owner: str
    bytes: int
    limit_bytes: int | None = None
    """What it may hold at the moment; None where only the server as a whole has a limit."""


class MemoryReport(NamedTuple):
    """What a server holds in memory, and how near to its limit it is."""

    uses: Sequence[MemoryUse]
    held_bytes: int
    """What all processes hold together, as the system says."""
    limit_bytes: int | None = None
    share: float = 1.0
    """What owners may use of their shares at the moment."""
    since_ms: int | None = None
    """When that became so."""


class MemoryOwner(Protocol):
    """A part of a server that holds memory."""

    def memory_use(self) -> Iterable[MemoryUse]: ...

    def limit_memory(self, share: float) -> None:
        """Hold at most this part, between 0 and 1, of what the configuration allows from now on."""


@runtime_checkable
class MemoryKeeper(Protocol):
    """A part of a server that keeps free memory for itself, as some allocators do."""

    def return_free_memory(self) -> None:
        """Return free memory to the system. Not called from the event loop: it may take half a second."""

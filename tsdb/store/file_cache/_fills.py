"""Downloads that are under way, and those that wait for a thread: of each object at most one.

- A small object is downloaded whole by the first reader that misses it; others that miss it meanwhile wait for that.
  One request costs about the same time for a few megabytes as for a few kilobytes.
- A large object is read in the ranges that are asked for, as without a cache. When it has been asked for often enough,
  a background thread downloads all of it. So a query of a cold file never waits for more than what it needs, and a file
  that is looked at once does not push out others.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable

QUEUED_MAX = 256
"""How many downloads wait for a thread; further ones are forgotten, and asked for again by the next reads."""
THREADS_MAX = 2
READS_MIN = 4
"""After so many reads of a large object all of it is downloaded."""
SHARE_MIN = 4
"""Or after reads of one part in so many of it."""
NOTED_MAX = 4096
"""Of how many objects it is known how often they were read."""
WAIT_SECONDS = 60.0
"""How long a reader waits for another one's download of a small object."""


class SharedDownload:
    """A download of a small object that others may wait for."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.content: bytes | None = None


class Fills:
    """The downloads of one store. Thread-safe."""

    def __init__(self, fill: Callable[[str, int], None]) -> None:
        """`fill` downloads a large object by path and size; it raises nothing."""
        self._fill = fill
        self._lock = threading.Lock()
        self._shared: dict[str, SharedDownload] = {}
        self._noted: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """Reads and bytes of large objects that are not here."""
        self._waiting: deque[tuple[str, int]] = deque()
        self._wanted: set[str] = set()
        """What waits or is downloaded."""
        self._threads = 0

    def share(self, path: str, download: Callable[[], bytes]) -> bytes | None:
        """Download a small object, or wait for the one who does; None if that one failed or takes too long."""
        with self._lock:
            under_way = self._shared.get(path)
            if under_way is None:
                mine = self._shared[path] = SharedDownload()
        if under_way is not None:
            under_way.done.wait(WAIT_SECONDS)
            return under_way.content
        try:
            mine.content = download()
        finally:
            with self._lock:
                del self._shared[path]
            mine.done.set()
        return mine.content

    def note_read(self, path: str, size_bytes: int, length: int) -> None:
        """Note that a part of a large object was read from the store; begin to download it if that was often."""
        with self._lock:
            if path in self._wanted:
                return
            reads, read_bytes = self._noted.pop(path, (0, 0))
            reads, read_bytes = reads + 1, read_bytes + length
            if reads < READS_MIN and read_bytes * SHARE_MIN < size_bytes:
                self._noted[path] = reads, read_bytes
                if len(self._noted) > NOTED_MAX:
                    self._noted.popitem(last=False)
                return
        self.want(path, size_bytes)

    def want(self, path: str, size_bytes: int) -> None:
        """Let a background thread download an object, if not too many wait for that."""
        with self._lock:
            if path in self._wanted or len(self._waiting) >= QUEUED_MAX:
                return
            self._wanted.add(path)
            self._waiting.append((path, size_bytes))
            if self._threads >= THREADS_MAX:
                return
            self._threads += 1
        threading.Thread(target=self._run, name="tsdb-cache-fill", daemon=True).start()

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return not self._wanted

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                path, size_bytes = self._waiting.popleft()
            try:
                self._fill(path, size_bytes)
            finally:
                with self._lock:
                    self._wanted.discard(path)

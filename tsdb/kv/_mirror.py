"""A copy of shared metadata in memory, for processes that do not have the store themselves.

    KvWatch ─▶ thread ─▶ copy ─▶ subscribers ─▶ those who wait for a revision

- Reads are answered from the copy. It is a little older than the store, never inconsistent: all changes of one
  transaction appear together.
- `transact` is what the constructor was given; it is over when the copy shows what it changed.
- A subscriber is called with the keys that changed, on the thread of the mirror, after the copy has them and before
  anybody who waits for the revision goes on. When the watch starts over, what is new is compared with the copy: a
  subscriber sees the difference and nothing else.
- While nothing can be heard of the store, the copy stays as it is; `problem` says why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from tsdb.errors import DeadlineExceeded
from tsdb.kv._coordination import KeyPut, KvWatch, WatchChanges, WatchReset
from tsdb.kv._errors import KvClosed, KvUnavailable
from tsdb.kv._protocol import Compare, Operation
from tsdb.telemetry import get_logger

CATCH_UP_SECONDS = 10.0
"""How long a change may take from the store to the copy."""

_WAIT_SECONDS = 0.5
_LOG = get_logger(__name__)

Changed = Mapping[str, bytes | None]
"""The new values of keys; None for those that are gone."""
Transact = Callable[[Sequence[Compare], Sequence[Operation]], int | None]
"""Change the store; return the revision at which it has the change, None if a comparison did not hold."""


class MirrorKv:
    """The keys of a watch, as a `KvStore`."""

    def __init__(self, watch: KvWatch, transact: Transact, *, name: str = "mirror") -> None:
        self._watch = watch
        self._transact = transact
        self._pairs: dict[str, tuple[bytes, int]] = {}
        self._revision = 0
        self._is_ready = False
        self._failure: KvUnavailable | None = None
        self._subscribers: list[tuple[tuple[str, ...], Callable[[Changed], None]]] = []
        self._applying = threading.RLock()
        """Held while a change goes into the copy and to the subscribers."""
        self._moved = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"kv-{name}", daemon=True)

    def start(self, timeout_seconds: float) -> None:
        """Begin to follow, and wait until the copy is there."""
        self._thread.start()
        self._wait_until(lambda: self._is_ready, timeout_seconds, "the metadata did not arrive")

    @property
    def problem(self) -> str | None:
        """Why the store is unreachable at the moment."""
        return str(self._failure) if self._failure is not None else self._watch.problem

    @property
    def seen(self) -> int:
        """Up to which revision of the store the copy shows everything."""
        return self._revision

    def get(self, key: str) -> bytes | None:
        found = self._pairs.get(key)
        return None if found is None else found[0]

    def revision(self, key: str) -> int:
        """The revision of the last change of a key, or a later one at which it was still unchanged."""
        found = self._pairs.get(key)
        return 0 if found is None else found[1]

    def scan(self, prefix: str) -> list[tuple[str, bytes]]:
        with self._applying:
            return sorted((key, value) for key, (value, _) in self._pairs.items() if key.startswith(prefix))

    def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        revision = self._transact(compares, operations)
        if revision is None:
            return False
        try:
            self.wait_for(revision, CATCH_UP_SECONDS)
        except DeadlineExceeded:
            # It has happened, whatever is shown here.
            _LOG.warning("the copy of the metadata is behind", revision=revision, seen=self._revision)
        return True

    def subscribe(self, prefixes: Sequence[str], callback: Callable[[Changed], None]) -> None:
        """Call back with everything there is under some prefixes, now, and with every change of it."""
        with self._applying:
            wanted = tuple(prefixes)
            self._subscribers.append((wanted, callback))
            callback({key: value for key, (value, _) in self._pairs.items() if key.startswith(wanted)})

    def wait_for(self, revision: int, timeout_seconds: float) -> None:
        """Wait until the copy and all subscribers have seen a revision; DeadlineExceeded if they do not."""
        if self._revision < revision:
            self._wait_until(lambda: self._revision >= revision, timeout_seconds, "the copy of the metadata is behind")

    def wait_after(self, revision: int, timeout_seconds: float) -> bool:
        """Wait until the copy has moved on from a revision; return whether it has."""
        with self._moved:
            self._moved.wait_for(lambda: self._revision != revision or self._is_closed, timeout_seconds)
        return self._revision != revision

    def close(self) -> None:
        with self._moved:
            self._is_closed = True
            self._moved.notify_all()
        self._watch.close()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(CATCH_UP_SECONDS)

    def _wait_until(self, holds: Callable[[], bool], timeout_seconds: float, what: str) -> None:
        deadline = time.monotonic() + timeout_seconds
        with self._moved:
            self._moved.wait_for(lambda: holds() or self._is_closed, max(0.0, deadline - time.monotonic()))
        if holds():
            return
        if self._is_closed:
            raise self._failure or KvClosed
        raise DeadlineExceeded(f"{what} within {timeout_seconds:g} s", reason=self.problem)

    def _run(self) -> None:
        while not self._is_closed:
            try:
                found = self._watch.wait(_WAIT_SECONDS)
            except KvUnavailable as error:
                with self._moved:
                    if not self._is_closed:
                        _LOG.error("the metadata is not followed any more", error=str(error))
                        self._failure = error
                    self._is_closed = True
                    self._moved.notify_all()
                return
            if found is not None:
                self._apply(found)

    def _apply(self, found: WatchReset | WatchChanges) -> None:
        with self._applying:
            if isinstance(found, WatchReset):
                changed = self._replace(found)
            else:
                changed = {each.key: each.value if isinstance(each, KeyPut) else None for each in found.events}
                for event in found.events:
                    if isinstance(event, KeyPut):
                        self._pairs[event.key] = (event.value, event.revision)
                    else:
                        self._pairs.pop(event.key, None)
            self._tell(changed)
        with self._moved:
            self._revision = found.revision
            self._is_ready = True
            self._moved.notify_all()

    def _replace(self, reset: WatchReset) -> dict[str, bytes | None]:
        """Take over everything; return what is different."""
        before, self._pairs = self._pairs, {key: (value, reset.revision) for key, value in reset.pairs}
        changed: dict[str, bytes | None] = dict.fromkeys(before.keys() - self._pairs.keys())
        changed.update({key: value for key, value in reset.pairs if key not in before or before[key][0] != value})
        return changed

    def _tell(self, changed: dict[str, bytes | None]) -> None:
        for prefixes, callback in self._subscribers:
            mine = {key: value for key, value in changed.items() if key.startswith(prefixes)}
            if not mine:
                continue
            try:
                callback(mine)
            except Exception:  # noqa: BLE001 - one subscriber that fails must not stop what others follow
                _LOG.exception("a change of the metadata could not be followed", keys=len(mine))

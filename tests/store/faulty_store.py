"""A store that fails as one at the other end of a network does.

`FaultyStore` passes calls on to another store. Faults are armed by operation and by a part of the path: a call fails
without effect, takes effect and loses its reply, takes its time, or returns less than was asked for. A request may also
reach the store long after it was given up, or a second time: that happens when the test calls `arrive`. `down()` lets
everything fail until `up()`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from tsdb.store import ObjectData, ObjectMeta, ObjectSink, ObjectStore, RangeFile, StoreError

T = TypeVar("T")

OPERATIONS = ("put", "put_if_absent", "get", "get_range", "head", "list", "delete", "delete_prefix", "writer")


@dataclass
class _Fault:
    kind: str
    operation: str
    name: str
    skip: int
    times: int

    def strikes(self, operation: str, path: str) -> bool:
        if self.times == 0 or self.operation not in ("any", operation) or self.name not in path:
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.times -= 1
        return True


class FaultyStore:
    """An `ObjectStore` with faults. `times=-1` is for ever."""

    def __init__(self, store: ObjectStore, *, has_conditional_put: bool = True) -> None:
        """Without conditional puts, as with some services, `put_if_absent` replaces what is there."""
        self.inner = store
        self.calls: Counter[str] = Counter()
        self.read_paths: list[str] = []
        self._has_conditional_put = has_conditional_put
        self._faults: list[_Fault] = []
        self._lock = threading.Lock()
        self._gate: threading.Event | None = None
        self._delay_seconds = 0.0
        self._is_paused = False
        self.before_call: Callable[[str, str], None] | None = None
        """Called before every call, with its operation and path: what others do meanwhile."""
        self.under_way: list[Callable[[], object]] = []
        """Requests that are going to reach the store, when `arrive` is called."""

    def fail(self, operation: str = "any", name: str = "", *, nth: int = 1, times: int = 1) -> None:
        """Let calls fail without effect, from the n-th on."""
        self._arm("fail", operation, name, nth, times)

    def lose_reply(self, operation: str = "any", name: str = "", *, nth: int = 1, times: int = 1) -> None:
        """Let calls take effect and fail all the same."""
        self._arm("lose", operation, name, nth, times)

    def shorten(self, operation: str = "get_range", name: str = "", *, nth: int = 1, times: int = 1) -> None:
        """Let reads return less than they should."""
        self._arm("shorten", operation, name, nth, times)

    def arrive_later(self, operation: str = "any", name: str = "", *, nth: int = 1, times: int = 1) -> None:
        """Let calls fail without effect for now: they reach the store later."""
        self._arm("later", operation, name, nth, times)

    def arrive_twice(self, operation: str = "any", name: str = "", *, nth: int = 1, times: int = 1) -> None:
        """Let calls take effect, and reach the store once more later."""
        self._arm("twice", operation, name, nth, times)

    def arrive(self, position: int = 0) -> None:
        """Let a request that is under way reach the store; nobody waits for its answer any more."""
        with suppress(StoreError):
            self.under_way.pop(position)()

    def down(self) -> None:
        self.fail(times=-1)

    def up(self) -> None:
        """No more faults."""
        with self._lock:
            self._faults.clear()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Neither faults nor counts inside the block: for a look that is no part of the story."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def slow_down(self, seconds: float) -> None:
        """Let every call take a while."""
        self._delay_seconds = seconds

    def block(self) -> threading.Event:
        """Let all calls wait until the event is set."""
        self._gate = threading.Event()
        return self._gate

    def put(self, path: str, data: ObjectData) -> None:
        self._call("put", path, lambda: self.inner.put(path, data))

    def put_if_absent(self, path: str, data: ObjectData) -> None:
        put = self.inner.put_if_absent if self._has_conditional_put else self.inner.put
        self._call("put_if_absent", path, lambda: put(path, data))

    def get(self, path: str) -> bytes:
        self.read_paths.append(path)
        return self._call("get", path, lambda: self.inner.get(path))

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        self.read_paths.append(path)
        return self._call("get_range", path, lambda: self.inner.get_range(path, offset, length))

    def head(self, path: str) -> ObjectMeta:
        return self._call("head", path, lambda: self.inner.head(path))

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        return iter(self._call("list", prefix, lambda: list(self.inner.list(prefix, start_after))))

    def delete(self, path: str) -> None:
        self._call("delete", path, lambda: self.inner.delete(path))

    def delete_prefix(self, prefix: str) -> None:
        self._call("delete_prefix", prefix, lambda: self.inner.delete_prefix(prefix))

    @contextmanager
    def writer(self, path: str, buffer_bytes: int = 1 << 20) -> Iterator[ObjectSink]:
        kind = self._begin("writer", path)
        if kind == "fail":
            raise _failure(path)
        with self.inner.writer(path, buffer_bytes) as sink:
            yield sink
            if kind == "shorten":
                raise _failure(path)
        if kind == "lose":
            raise _failure(path)

    def open_input(self, path: str) -> pa.NativeFile:
        size = self.head(path).size_bytes
        return RangeFile(size, lambda offset, length: self.get_range(path, offset, length)).as_arrow()

    def _arm(self, kind: str, operation: str, name: str, nth: int, times: int) -> None:
        assert operation in (*OPERATIONS, "any")
        with self._lock:
            self._faults.append(_Fault(kind, operation, name, nth - 1, times))

    def _begin(self, operation: str, path: str) -> str:
        """Count a call; return what is to become of it."""
        if self._is_paused:
            return ""
        if self.before_call is not None:
            self.before_call(operation, path)
        if self._delay_seconds:
            time.sleep(self._delay_seconds)
        if self._gate is not None:
            assert self._gate.wait(30)
        with self._lock:
            self.calls[operation] += 1
            for fault in self._faults:
                if fault.strikes(operation, path):
                    return fault.kind
        return ""

    def _call(self, operation: str, path: str, call: Callable[[], T]) -> T:
        kind = self._begin(operation, path)
        if kind == "fail":
            raise _failure(path)
        if kind in ("later", "twice"):
            self.under_way.append(call)
        if kind == "later":
            raise _failure(path)
        found = call()
        if kind == "lose":
            raise _failure(path)
        if kind == "shorten" and isinstance(found, bytes):
            return found[: len(found) // 2]  # type: ignore[return-value]
        return found


def _failure(path: str) -> StoreError:
    return StoreError("the service answered 500", path=path)

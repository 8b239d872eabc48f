"""A service that fails on demand: an operator of opendal in memory, under the layer that repeats requests."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import opendal
from opendal import exceptions

from tests.store.services import PATIENT
from tsdb.clock import Clock
from tsdb.store.remote import BucketSettings, RemoteStore, RemoteTuning

T = TypeVar("T")

SETTINGS = BucketSettings("memory", "memory://bucket", "memory", {})


def server_error(status: int = 500) -> Exception:
    """Return what opendal raises for an answer of the service that it failed."""
    return exceptions.Unexpected(
        'Unexpected (temporary) at write => S3Error { code: "InternalError", message: "We encountered an error" }\n\n'
        f"Context:\n   response: Parts {{ status: {status}, version: HTTP/1.1, headers: {{}} }}\n"
    )


def lost_reply() -> Exception:
    """Return what opendal raises when no answer came in time."""
    return exceptions.Unexpected("Unexpected (temporary) at write => operation timeout reached\n")


class FaultyOperator:
    """An operator whose next calls fail, before or after they took effect."""

    def __init__(self) -> None:
        self._real = opendal.Operator("memory")
        self._faults: dict[str, deque[tuple[str, Callable[[], Exception]]]] = {}
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.on_call: Callable[[str], None] = lambda _: None
        self.cut: Callable[[bytes], bytes] | None = None
        """Changes what a read returns."""
        self.ignores_conditions = False
        self.is_down = False
        """Nothing is answered."""
        self.parts: list[int] = []

    def fail(self, operation: str, *, times: int = 1, error: Callable[[], Exception] = server_error) -> None:
        """Let the next calls of an operation fail without effect."""
        self._faults.setdefault(operation, deque()).extend([("fail", error)] * times)

    def lose_reply(self, operation: str, *, times: int = 1) -> None:
        """Let the next calls of an operation take effect and then fail."""
        self._faults.setdefault(operation, deque()).extend([("lose", lost_reply)] * times)

    def heal(self) -> None:
        self._faults.clear()

    def read(self, path: str, **options: Any) -> bytes:
        data = self._call("read", lambda: self._real.read(path, **options))
        return data if self.cut is None else self.cut(data)

    def write(self, path: str, bs: bytes, *, if_not_exists: bool | None = None) -> None:
        condition = None if self.ignores_conditions else if_not_exists
        self._call("write", lambda: self._real.write(path, bs, if_not_exists=condition))

    def stat(self, path: str) -> Any:
        return self._call("stat", lambda: self._real.stat(path))

    def list(self, path: str, **options: Any) -> Iterable[Any]:
        return self._call("list", lambda: iter(sorted(self._real.list(path, **options), key=lambda each: each.path)))

    def delete(self, path: str) -> None:
        self._call("delete", lambda: self._real.delete(path))

    def open_parts(self, path: str, part_bytes: int) -> Any:
        return _Upload(self, path)

    def _call(self, operation: str, call: Callable[[], T]) -> T:
        with self._lock:
            self.calls[operation] += 1
            faults = self._faults.get(operation)
            fault = faults.popleft() if faults else None
        self.on_call(operation)
        if self.is_down:
            raise lost_reply()
        if fault is None:
            return call()
        kind, error = fault
        if kind == "lose":
            with suppress(exceptions.ConditionNotMatch):
                call()
        raise error()


class _Upload:
    """An upload in parts of which only sizes are kept."""

    def __init__(self, operator: FaultyOperator, path: str) -> None:
        self._operator = operator
        self._path = path

    def write(self, bs: bytes) -> int:
        self._operator._call("part", lambda: self._operator.parts.append(len(bs)))
        return len(bs)

    def close(self) -> None:
        self._operator._call("complete", lambda: None)


def faulty_store(
    tuning: RemoteTuning = PATIENT, *, name: str = SETTINGS.name, clock: Clock | None = None
) -> tuple[RemoteStore, FaultyOperator]:
    """Return a store and its service."""
    operator = FaultyOperator()
    settings = replace(SETTINGS, name=name)
    return RemoteStore(settings, operator=operator, tuning=tuning, clock=clock, wait=lambda _: None), operator

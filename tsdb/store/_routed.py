"""Several stores behind one: tables choose where their regions are, and the engine does not care.

A path that begins with `@name/` lies in the store of that name, under the rest of the path; every other path lies in
the default store. A name that nobody knows is an error of the path, not of the whole: what lies elsewhere stays usable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from heapq import merge
from typing import NamedTuple

import pyarrow as pa

from tsdb.store._errors import StoreMisconfigured
from tsdb.store._local import LocalStore
from tsdb.store._protocol import (
    DEFAULT_BUFFER_BYTES,
    ObjectData,
    ObjectMeta,
    ObjectSink,
    ObjectStore,
    check_prefix,
)

_MARK = "@"


class _Route(NamedTuple):
    store: ObjectStore
    start: str
    """What stands in front of paths of this store."""
    path: str


class RoutedStore:
    """An `ObjectStore` over a default store and others by name."""

    def __init__(self, default: ObjectStore, others: Mapping[str, ObjectStore]) -> None:
        self.default = default
        self.others = dict(others)

    def put(self, path: str, data: ObjectData) -> None:
        route = self._route(path)
        route.store.put(route.path, data)

    def put_if_absent(self, path: str, data: ObjectData) -> None:
        route = self._route(path)
        route.store.put_if_absent(route.path, data)

    def get(self, path: str) -> bytes:
        route = self._route(path)
        return route.store.get(route.path)

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        route = self._route(path)
        return route.store.get_range(route.path, offset, length)

    def head(self, path: str) -> ObjectMeta:
        route = self._route(path)
        return replace(route.store.head(route.path), path=path)

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        prefix = check_prefix(prefix)
        if prefix:
            return self._below(self._route(f"{prefix}/x"), prefix, start_after or "")
        routes = [self._route(path) for path in ("x", *(f"{_MARK}{name}/x" for name in self.others))]
        return merge(*(self._below(route, "", start_after or "") for route in routes), key=lambda found: found.path)

    def delete(self, path: str) -> None:
        route = self._route(path)
        route.store.delete(route.path)

    def delete_prefix(self, prefix: str) -> None:
        for found in list(self.list(prefix)):
            self.delete(found.path)

    @contextmanager
    def writer(self, path: str, buffer_bytes: int = DEFAULT_BUFFER_BYTES) -> Iterator[ObjectSink]:
        route = self._route(path)
        with route.store.writer(route.path, buffer_bytes) as sink:
            yield sink

    def open_input(self, path: str) -> pa.NativeFile:
        route = self._route(path)
        return route.store.open_input(route.path)

    def inner(self, path: str) -> tuple[ObjectStore, str]:
        """Return the store that a path lies in, and the path there."""
        route = self._route(path)
        return route.store, route.path

    def _route(self, path: str) -> _Route:
        if not path.startswith(_MARK):
            return _Route(self.default, "", path)
        name, _, rest = path.removeprefix(_MARK).partition("/")
        store = self.others.get(name)
        if store is None:
            known = ", ".join(self.others) or "none"
            raise StoreMisconfigured(
                f"the storage {name!r} is not configured",
                hint=f"add it to [[storage.providers]] again and restart; there are: {known}",
            )
        return _Route(store, f"{_MARK}{name}/", rest)

    def _below(self, route: _Route, prefix: str, start_after: str) -> Iterator[ObjectMeta]:
        start = route.start
        if not start_after.startswith(start):
            if start_after > start:
                return
            start_after = ""
        inner = f"{prefix}/".removeprefix(start).removesuffix("/")
        for found in route.store.list(inner, start_after.removeprefix(start) or None):
            yield replace(found, path=f"{start}{found.path}")


def routed_path(storage: str | None, path: str) -> str:
    """Return a path in the store of a name; None is the default store."""
    return path if storage is None else f"{_MARK}{storage.lower()}/{path}"


def is_routed(path: str) -> bool:
    """Whether a path lies in a store that has a name."""
    return path.startswith(_MARK)


def unrouted(path: str) -> str:
    """Return a path as it is in the store it lies in."""
    return path.partition("/")[2] if path.startswith(_MARK) else path


def local_store_of(store: ObjectStore, path: str) -> LocalStore | None:
    """Return the local store that a path lies in; None if it is not local, or not configured."""
    try:
        found = store.inner(path)[0] if isinstance(store, RoutedStore) else store
    except StoreMisconfigured:
        return None
    return found if isinstance(found, LocalStore) else None


def all_stores(store: ObjectStore) -> list[ObjectStore]:
    """Return the stores behind a store, or the store itself."""
    return [store.default, *store.others.values()] if isinstance(store, RoutedStore) else [store]


def everywhere(store: ObjectStore, prefix: str) -> list[str]:
    """Return a prefix as it is in each of the stores behind a store, sorted."""
    others = store.others if isinstance(store, RoutedStore) else {}
    return sorted([prefix, *(routed_path(name, prefix) for name in others)])


def free_bytes(store: ObjectStore, path: str) -> int | None:
    """Return how much space is left for objects beside `path`; None if that is unknown."""
    local = local_store_of(store, path)
    return None if local is None else local.free_bytes()

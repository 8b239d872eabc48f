"""Which objects of a store are files of this machine.

Files need no cache of their pages in this process, as the system has one, and can be read by other processes.
"""

from __future__ import annotations

from collections.abc import Sequence

from tsdb.store._local import LocalStore
from tsdb.store._overlay import OverlayStore
from tsdb.store._protocol import ObjectStore
from tsdb.store._routed import RoutedStore, all_stores
from tsdb.store.file_cache import CachedStore, FileCache, LocalCopy


def is_local(store: ObjectStore, path: str) -> bool:
    """Whether an object is a file of this machine now."""
    store, path = _inner(store, path)
    if isinstance(store, OverlayStore):
        store = store.holder(path)
    return isinstance(store, LocalStore) or (isinstance(store, CachedStore) and store.has_local(path))


def local_copy(store: ObjectStore, paths: Sequence[str]) -> LocalCopy | None:
    """Return the directory where all of some objects are files; they stay there as long as it is held."""
    inner = [_inner(store, path) for path in paths]
    store = inner[0][0]
    if isinstance(store, LocalStore):
        return LocalCopy(str(store.root))
    return store.local_copy([path for _, path in inner]) if isinstance(store, CachedStore) else None


def distrust(store: ObjectStore, path: str) -> bool:
    """The content of an object is wrong: True if the store may have another copy of it, which the next read is of."""
    store, path = _inner(store, path)
    if not isinstance(store, CachedStore):
        return False
    store.distrust(path)
    return True


def read_once(store: ObjectStore, path: str) -> tuple[ObjectStore, str]:
    """Return the store and the path there by which an object is read without filling the file cache."""
    store, path = _inner(store, path)
    return (store.behind(path) if isinstance(store, CachedStore) else store), path


def file_cache_of(store: ObjectStore) -> FileCache | None:
    """Return the file cache of a store, if it has one."""
    return next((each.cache for each in all_stores(store) if isinstance(each, CachedStore)), None)


def _inner(store: ObjectStore, path: str) -> tuple[ObjectStore, str]:
    return store.inner(path) if isinstance(store, RoutedStore) else (store, path)

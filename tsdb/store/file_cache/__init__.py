"""The file cache: local copies of data and index files of an object store, so that reads do not wait for a network.

`FileCache` is a directory with a number of bytes, for all stores of a process; `CachedStore` is one store with it.
"""

from tsdb.store.file_cache._cache import FREE_BYTES_MIN, FileCache
from tsdb.store.file_cache._cached_store import SMALL_BYTES_MAX, CachedStore
from tsdb.store.file_cache._entries import INDEX_SHARE, CacheEntries, CacheEntry, LocalCopy
from tsdb.store.file_cache._health import SUSPENDED_SECONDS

__all__ = [
    "FREE_BYTES_MIN",
    "INDEX_SHARE",
    "SMALL_BYTES_MAX",
    "SUSPENDED_SECONDS",
    "CacheEntries",
    "CacheEntry",
    "CachedStore",
    "FileCache",
    "LocalCopy",
]

"""Object storage: immutable objects by path, durable when a write returns.

Callers use `ObjectStore`; the configuration chooses the implementation. `Files` and `crash_point` are for code that
keeps its own files durable, such as the write-ahead log.
"""

from tsdb.store._crash import crash_point, on_crash_point
from tsdb.store._errors import (
    NO_SPACE,
    InvalidPath,
    InvalidRange,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    StoreFull,
    StoreMisconfigured,
    StoreUnreachable,
    find_unreachable,
)
from tsdb.store._files import (
    TEMPORARY_SUFFIX,
    Buffer,
    Files,
    make_directories,
    read_all,
    read_exactly,
    replace_file,
    write_all,
)
from tsdb.store._local import LocalStore
from tsdb.store._locality import distrust, file_cache_of, is_local, local_copy, read_once
from tsdb.store._lock import DirectoryInUse, DirectoryLock
from tsdb.store._memory import MemoryStore
from tsdb.store._overlay import OverlayStore
from tsdb.store._protocol import ObjectData, ObjectMeta, ObjectSink, ObjectStore, check_path
from tsdb.store._range_file import RangeFile
from tsdb.store._routed import (
    RoutedStore,
    all_stores,
    everywhere,
    free_bytes,
    is_routed,
    local_store_of,
    routed_path,
    unrouted,
)
from tsdb.store._usage import (
    Operation,
    Purpose,
    RequestFacts,
    RequestPrices,
    StoreState,
    request_facts,
    requests_for,
)
from tsdb.store.file_cache import CachedStore, FileCache, LocalCopy

__all__ = [
    "NO_SPACE",
    "TEMPORARY_SUFFIX",
    "Buffer",
    "CachedStore",
    "DirectoryInUse",
    "DirectoryLock",
    "FileCache",
    "Files",
    "InvalidPath",
    "InvalidRange",
    "LocalCopy",
    "LocalStore",
    "MemoryStore",
    "ObjectData",
    "ObjectExists",
    "ObjectMeta",
    "ObjectNotFound",
    "ObjectSink",
    "ObjectStore",
    "Operation",
    "OverlayStore",
    "Purpose",
    "RangeFile",
    "RequestFacts",
    "RequestPrices",
    "RoutedStore",
    "StoreError",
    "StoreFull",
    "StoreMisconfigured",
    "StoreState",
    "StoreUnreachable",
    "all_stores",
    "check_path",
    "crash_point",
    "distrust",
    "everywhere",
    "file_cache_of",
    "find_unreachable",
    "free_bytes",
    "is_local",
    "is_routed",
    "local_copy",
    "local_store_of",
    "make_directories",
    "on_crash_point",
    "read_all",
    "read_exactly",
    "read_once",
    "replace_file",
    "request_facts",
    "requests_for",
    "routed_path",
    "unrouted",
    "write_all",
]

"""Reading parts of stored files."""

from __future__ import annotations

from tsdb.engine.errors import StorageUnavailable
from tsdb.store import ObjectStore


def read_range(store: ObjectStore, path: str, offset: int, length: int) -> bytes:
    """Read a range of an object; a reply that was cut off is no damage of the file, and can be tried again."""
    found = store.get_range(path, offset, length)
    if len(found) != length:
        raise StorageUnavailable(
            "a data file cannot be read", file=path, reason=f"the store returned {len(found)} of {length} bytes"
        )
    return found

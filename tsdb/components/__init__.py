"""The four components and the embedded database: the only place where concrete objects are made and put together.

What runs a server is in `tsdb.components.run`, which an embedded database does not import.
"""

from tsdb.components._local import (
    SCRATCH_DIRECTORY,
    LocalDatabase,
    LocalOptions,
    open_directory,
    open_local,
    open_memory,
    open_read_only,
)
from tsdb.components._scratch import ScratchDatabases

__all__ = [
    "SCRATCH_DIRECTORY",
    "LocalDatabase",
    "LocalOptions",
    "ScratchDatabases",
    "open_directory",
    "open_local",
    "open_memory",
    "open_read_only",
]

"""How a process of the server imports what it needs, and settles what pyarrow settles once.

- pyarrow imports pandas, if it is installed, before it converts the first Python value: values might be frames. Nobody
  hands a frame to a server, and pandas would take half a second and 27 MB, again in the process that workers are forked
  from.
- pyarrow allocates with mimalloc unless it is told otherwise. That keeps free memory per thread: a thread that waits
  keeps what it once needed, and no other thread can give it back. jemalloc gives it back within a second.

An embedded database leaves pyarrow as it is: the program around it may have frames, and its own choice of allocator.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import without garbage collections: next to nothing of what is imported becomes garbage."""
    gc.disable()
    try:
        if sys.platform == "linux":  # elsewhere pyarrow may come without jemalloc, and would warn
            os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
        _settle_without_pandas()
        yield
    finally:
        gc.enable()


class _NoPandas:
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None, /) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is not used here", name=name)


def _settle_without_pandas() -> None:
    """Let pyarrow look for pandas, which it does once, and not find it."""
    import pyarrow as pa

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.scalar(True)
    finally:
        sys.meta_path.remove(finder)

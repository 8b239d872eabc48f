"""Arrays, looked at without giving the interpreter lock away.

pyarrow gives the lock away in calls that take less than a microsecond, such as `Array.nbytes`, the import of an array
and `Array.to_numpy`. Threads that write then wait for each other longer than they work: half of all times that the
lock changed hands during a load were of this kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels


def as_numpy(array: _kernels.ArrowArray) -> npt.NDArray[Any]:
    """View plain numbers that a kernel has returned; they cannot be written to."""
    return np.frombuffer(memoryview(array), array.dtype)


def array_bytes(values: pa.Array) -> int:
    """Return what the values of an array take; of a part of an array, its part."""
    kind = values.type
    if pa.types.is_primitive(kind):
        return int(len(values) * (kind.bit_width + bool(values.null_count)) + 7) // 8
    # Strings and the like have to be looked at.
    return int(values.nbytes)

"""Functions that make large values, with a bound on what they make of one batch of rows.

The query engine counts the memory of its operators, not of expressions: without a bound, `repeat('x', n)` over a
thousand rows takes as much as `n` says. The size of a result is computed before it is made.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tsdb.query.functions._define import STRING, FunctionError, function
from tsdb.sql.rewrite import BOUNDED

RESULT_BYTES_MAX = 64 * 1024 * 1024
"""How large the values are that one of these functions makes of one batch of rows."""


def check_result(name: str, size: int) -> None:
    """Refuse to make values of this size."""
    if size > RESULT_BYTES_MAX:
        raise FunctionError(
            f"the result of {name}() would take {size >> 20} MiB for some rows, more than {RESULT_BYTES_MAX >> 20} MiB"
        )


@function("repeat", [STRING, pa.int64()], STRING)
def repeat(text: pa.Array, count: pa.Array) -> pa.Array:
    counts = pc.max_element_wise(count, pa.scalar(0, pa.int64()), skip_nulls=False)
    # As doubles: the product of two large numbers has no room in 64 bits.
    sizes = pc.multiply(pc.binary_length(text).cast(pa.float64()), counts.cast(pa.float64()))
    check_result("repeat", int(pc.sum(sizes).as_py() or 0))
    return pc.binary_repeat(text, counts)


@function(BOUNDED, [pa.int64()], pa.int64())
def bounded(count: pa.Array) -> pa.Array:
    """Hand on how large values are to become, if they are not too large together."""
    total = pc.sum(pc.max_element_wise(count, 0).cast(pa.float64())).as_py() or 0
    check_result("lpad, rpad, array_repeat", int(total))
    return count


FUNCTIONS = [repeat, bounded]

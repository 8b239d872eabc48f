"""Several requests to the store at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def in_parallel(call: Callable[[A], B], items: Sequence[A], parallelism: int) -> Iterator[B]:
    """Call a function for each item, several at a time, and yield the results in order."""
    if len(items) < 2 or parallelism == 1:
        yield from map(call, items)
        return
    with ThreadPoolExecutor(min(parallelism, len(items)), thread_name_prefix="tsdb-requests") as executor:
        for start in range(0, len(items), 8 * parallelism):
            some = items[start : start + 8 * parallelism]
            # The purpose of requests belongs to the context of a thread.
            yield from [each.result() for each in [executor.submit(copy_context().run, call, item) for item in some]]

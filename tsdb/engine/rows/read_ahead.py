"""Working one step ahead: the next item is made on another thread while this one is used."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


def one_ahead(items: Iterator[T], executor: Executor) -> Iterator[T]:
    """Yield the items while the next one is being made on the executor."""
    pending = executor.submit(next, items, None)
    while (item := pending.result()) is not None:
        pending = executor.submit(next, items, None)
        yield item

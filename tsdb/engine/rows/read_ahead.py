"""Working one step ahead: the next item is made on another thread while this one is used."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def one_ahead(items: Iterator[T], executor: Executor) -> Iterator[T]:
    """Yield the items while the next one is being made on the executor."""
    # Requests to the store are counted for what this thread is doing.
    context = copy_context()

    def take() -> T | None:
        return next(items, None)

    pending = executor.submit(context.run, take)
    while (item := pending.result()) is not None:
        pending = executor.submit(context.run, take)
        yield item

"""Copying objects in pieces, several at a time, with a checksum of every byte."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from tsdb.backup._progress import BackupProgress
from tsdb.store import ObjectSink

PARALLELISM = 4
"""How many objects are copied at a time."""
_AHEAD = 4 * PARALLELISM
"""How many are queued beyond the oldest that is not done."""

_A = TypeVar("_A")
_B = TypeVar("_B")


def each_in_parallel(call: Callable[[_A], _B], items: Iterable[_A]) -> Generator[_B, None, None]:
    """Call a function for each item, several at a time, and yield the results in order; the first error ends it."""
    pending: deque[Future[_B]] = deque()
    with ThreadPoolExecutor(PARALLELISM, thread_name_prefix="tsdb-backup") as executor:
        try:
            for item in items:
                # The purpose of requests belongs to the context of a thread.
                pending.append(executor.submit(copy_context().run, call, item))
                if len(pending) >= _AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            executor.shutdown(wait=True, cancel_futures=True)


def copy_pieces(pieces: Iterable[bytes], sink: ObjectSink, progress: BackupProgress) -> str:
    """Write pieces to a sink; return the SHA-256 of all of them."""
    digest = hashlib.sha256()
    for piece in pieces:
        progress.add_bytes(len(piece), is_copied=True)
        digest.update(piece)
        sink.write(piece)
    return digest.hexdigest()


def hash_pieces(pieces: Iterable[bytes], progress: BackupProgress) -> str:
    """Return the SHA-256 of pieces."""
    digest = hashlib.sha256()
    for piece in pieces:
        progress.add_bytes(len(piece), is_copied=False)
        digest.update(piece)
    return digest.hexdigest()

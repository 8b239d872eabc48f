"""Work that is done step by step: what goes ahead makes one chunk more than was asked for, and ends when it is left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.engine.lives import wait_until
from tsdb.servers._work import Work

CHUNK = b"x" * 10


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


class Pieces:
    """Makes chunks of one piece, and knows how many."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self._count = count
        self._error = error
        self.made = 0
        self.is_closed = threading.Event()

    def make(self) -> Generator[bytes, None, None]:
        try:
            for _ in range(self._count):
                self.made += 1
                yield CHUNK
            if self._error is not None:
                raise self._error
        finally:
            self.is_closed.set()


def begin(pool: ThreadPoolExecutor, pieces: Pieces, cancel: Callable[[], None], *, goes_ahead: bool) -> Work:
    return Work(pool, pieces.make(), cancel, chunk_bytes=len(CHUNK), goes_ahead=goes_ahead)


@pytest.mark.parametrize("goes_ahead", [False, True])
async def test_all_chunks_come_in_order(pool: ThreadPoolExecutor, goes_ahead: bool) -> None:
    pieces = Pieces(5)
    work = begin(pool, pieces, lambda: None, goes_ahead=goes_ahead)
    chunks = []
    while chunk := await work.next_chunk():
        chunks.append(chunk)
    assert chunks == [CHUNK] * 5
    assert work.is_over
    assert pieces.is_closed.is_set()


@pytest.mark.parametrize(("goes_ahead", "made"), [(False, 1), (True, 2)])
async def test_one_chunk_is_made_ahead_and_no_more(pool: ThreadPoolExecutor, goes_ahead: bool, made: int) -> None:
    pieces = Pieces(5)
    work = begin(pool, pieces, lambda: None, goes_ahead=goes_ahead)
    await work.next_chunk()
    wait_until(lambda: pieces.made == made)
    await asyncio.sleep(0.05)
    assert pieces.made == made
    work.abandon()
    assert pieces.is_closed.wait(10)


async def test_an_error_ahead_comes_when_its_chunk_is_asked_for(pool: ThreadPoolExecutor) -> None:
    work = begin(pool, Pieces(1, ValueError("no more")), lambda: None, goes_ahead=True)
    assert await work.next_chunk() == CHUNK
    with pytest.raises(ValueError, match="no more"):
        await work.next_chunk()
    assert work.is_over


async def test_what_runs_ahead_is_cancelled_when_the_work_is_given_up(pool: ThreadPoolExecutor) -> None:
    is_cancelled, is_closed = threading.Event(), threading.Event()

    def make() -> Generator[bytes, None, None]:
        try:
            yield CHUNK
            is_cancelled.wait(30)
            yield CHUNK
        finally:
            is_closed.set()

    work = Work(pool, make(), is_cancelled.set, chunk_bytes=len(CHUNK), goes_ahead=True)
    await work.next_chunk()
    work.abandon()
    assert is_cancelled.is_set()
    assert is_closed.wait(10)


async def test_a_pool_that_is_shut_down_with_a_step_in_its_queue_closes_the_work() -> None:
    pool, is_busy, pieces = ThreadPoolExecutor(1), threading.Event(), Pieces(5)
    work = begin(pool, pieces, lambda: None, goes_ahead=True)
    asking = asyncio.ensure_future(work.next_chunk())
    await asyncio.sleep(0)
    assert await asking == CHUNK
    wait_until(lambda: pieces.made == 2)
    pool.submit(is_busy.wait, 30)
    assert await work.next_chunk() == CHUNK
    work.abandon()
    pool.shutdown(wait=False, cancel_futures=True)
    is_busy.set()
    await asyncio.sleep(0)
    assert pieces.is_closed.wait(10)

"""The runner of steps: chunks in order, one chunk of read-ahead, cancellation, inline execution."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Generator, Iterator

import pytest

from tests.engine.lives import wait_until
from tsdb.errors import Busy, Cancelled
from tsdb.query import WriteToken
from tsdb.query._checkpoint import before_long_step
from tsdb.servers._inline import InlineLimits, InlinePolicy
from tsdb.servers._steps import StepPool, Steps

CHUNK = b"x" * 10


@pytest.fixture
def pool() -> Iterator[StepPool]:
    threads = StepPool("test", 2)
    yield threads
    threads.close()


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


def begin(pool: StepPool, pieces: Pieces, cancel: Callable[[], None], *, reads_ahead: bool) -> Steps:
    return Steps(pool, pieces.make, cancel, chunk_bytes=len(CHUNK), reads_ahead=reads_ahead)


@pytest.mark.parametrize("reads_ahead", [False, True])
async def test_all_chunks_come_in_order(pool: StepPool, reads_ahead: bool) -> None:
    pieces = Pieces(5)
    work = begin(pool, pieces, lambda: None, reads_ahead=reads_ahead)
    chunks = []
    while chunk := await work.next_chunk():
        chunks.append(chunk)
    assert chunks == [CHUNK] * 5
    assert work.is_over
    assert pieces.is_closed.is_set()


@pytest.mark.parametrize(("reads_ahead", "made"), [(False, 1), (True, 2)])
async def test_one_chunk_is_made_ahead_and_no_more(pool: StepPool, reads_ahead: bool, made: int) -> None:
    pieces = Pieces(5)
    work = begin(pool, pieces, lambda: None, reads_ahead=reads_ahead)
    await work.next_chunk()
    wait_until(lambda: pieces.made == made)
    await asyncio.sleep(0.05)
    assert pieces.made == made
    work.abandon()
    assert pieces.is_closed.wait(10)


async def test_an_error_ahead_comes_when_its_chunk_is_asked_for(pool: StepPool) -> None:
    work = begin(pool, Pieces(1, ValueError("no more")), lambda: None, reads_ahead=True)
    assert await work.next_chunk() == CHUNK
    with pytest.raises(ValueError, match="no more"):
        await work.next_chunk()
    assert work.is_over


async def test_what_runs_ahead_is_cancelled_when_the_work_is_given_up(pool: StepPool) -> None:
    is_cancelled, is_closed = threading.Event(), threading.Event()

    def make() -> Generator[bytes, None, None]:
        try:
            yield CHUNK
            is_cancelled.wait(30)
            yield CHUNK
        finally:
            is_closed.set()

    work = Steps(pool, make, is_cancelled.set, chunk_bytes=len(CHUNK), reads_ahead=True)
    await work.next_chunk()
    work.abandon()
    assert is_cancelled.is_set()
    assert is_closed.wait(10)


async def test_a_pool_that_is_shut_down_with_a_step_in_its_queue_closes_the_work() -> None:
    pool, is_busy, pieces = StepPool("test", 1), threading.Event(), Pieces(5)
    work = begin(pool, pieces, lambda: None, reads_ahead=True)
    asking = asyncio.ensure_future(work.next_chunk())
    await asyncio.sleep(0)
    assert await asking == CHUNK
    wait_until(lambda: pieces.made == 2)
    pool.submit(lambda work: work(), lambda: is_busy.wait(30))
    assert await work.next_chunk() == CHUNK
    work.abandon()
    pool.close()
    is_busy.set()
    await asyncio.sleep(0)
    assert pieces.is_closed.wait(10)


async def test_an_empty_piece_ends_a_step_of_work_that_pauses(pool: StepPool) -> None:
    def make() -> Generator[bytes, None, None]:
        yield b""
        yield b"a"
        yield b"b"

    steps, chunks = Steps(pool, make, lambda: None, chunk_bytes=100, pauses=True), []
    while not steps.is_over:
        chunks.append(await steps.next_chunk())
    assert chunks == [b"", b"ab"]


async def test_closing_waits_until_the_generator_has_released_everything(pool: StepPool) -> None:
    cancelled, released = threading.Event(), []

    def make() -> Generator[bytes, None, None]:
        try:
            yield CHUNK
            cancelled.wait(30)
            yield CHUNK
        finally:
            released.append(threading.current_thread() is not threading.main_thread())

    steps = Steps(pool, make, cancelled.set, chunk_bytes=1, reads_ahead=True)
    await steps.next_chunk()
    await steps.close()
    assert released == [True]
    await steps.close()


async def test_a_client_that_leaves_during_a_step_has_it_cancelled(pool: StepPool) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    def make() -> Generator[bytes, None, None]:
        begun.set()
        cancelled.wait(30)
        yield CHUNK

    steps = Steps(pool, make, cancelled.set, chunk_bytes=1)
    asking = asyncio.ensure_future(steps.next_chunk())
    await asyncio.to_thread(begun.wait, 30)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await steps.close()
    assert cancelled.is_set()


# One step


async def test_a_step_runs_on_a_thread_in_the_context_of_its_caller(pool: StepPool) -> None:
    variable = contextvars.ContextVar("variable", default="")
    variable.set("here")
    thread, found = await pool.run(lambda: (threading.current_thread(), variable.get()))
    assert thread is not threading.main_thread()
    assert found == "here"


async def test_a_step_is_cancelled_until_it_ends() -> None:
    pool = StepPool("test", 2, cancel_seconds=0.001)
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()
    calls = 0

    def cancel() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            may_end.set()

    def work() -> None:
        begun.set()
        may_end.wait(30)
        ended.set()

    running = asyncio.ensure_future(pool.run(work, cancel=cancel))
    await asyncio.to_thread(begun.wait, 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await asyncio.to_thread(ended.wait, 30)
    assert calls >= 3


async def test_a_step_that_waits_for_a_thread_never_begins_once_it_is_cancelled() -> None:
    pool, may_end, begun = StepPool("test", 1), threading.Event(), []
    first = asyncio.ensure_future(pool.run(lambda: may_end.wait(30)))
    second = asyncio.ensure_future(pool.run(lambda: begun.append(1)))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    may_end.set()
    await first
    await pool.run(lambda: None)
    assert not begun
    pool.close()


async def test_further_steps_are_refused_while_too_many_wait() -> None:
    pool, may_end = StepPool("test", 1, waiting_max=1, setting="grpc.runtime_size"), threading.Event()
    steps = [asyncio.ensure_future(pool.run(lambda: may_end.wait(30))) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="too many requests wait for a thread; try again later, or raise grpc"):
        await pool.run(lambda: None)
    may_end.set()
    assert await asyncio.gather(*steps) == [True, True]
    await pool.run(lambda: None)
    pool.close()


async def test_a_write_that_is_interrupted_tells_how_it_ended(pool: StepPool) -> None:
    token, begun, may_end = WriteToken(), threading.Event(), threading.Event()

    def write(outcome: Exception | None) -> str:
        token.enter()
        begun.set()
        may_end.wait(30)
        if outcome is not None:
            raise outcome
        return "written"

    running = asyncio.ensure_future(pool.run(lambda: write(None), token=token))
    await asyncio.to_thread(begun.wait, 30)
    running.cancel()
    await asyncio.sleep(0)
    may_end.set()
    assert await running == "written"

    token, begun, may_end = WriteToken(), threading.Event(), threading.Event()
    running = asyncio.ensure_future(pool.run(lambda: write(Cancelled("stopped")), token=token))
    await asyncio.to_thread(begun.wait, 30)
    running.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await running


# Inline


@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_fast_query_runs_inline_if_it_is_alone(pool: StepPool, is_alone: bool) -> None:
    policy = InlinePolicy(InlineLimits(fast_seconds=60, soft_deadline_seconds=60, runs_min=1))
    threads = [await pool.run(threading.current_thread, candidate=policy.candidate(is_alone, "q")) for _ in range(3)]
    assert [thread is threading.main_thread() for thread in threads] == [False, is_alone, is_alone]


async def test_an_abandoned_query_runs_again_on_a_thread(pool: StepPool) -> None:
    policy = InlinePolicy(InlineLimits(fast_seconds=60, soft_deadline_seconds=60, runs_min=0))
    threads = []

    def work() -> str:
        threads.append(threading.current_thread() is threading.main_thread())
        before_long_step()
        return "answer"

    assert await pool.run(work, candidate=policy.candidate(True, "q")) == "answer"
    assert threads == [True, False]
    assert await pool.run(work, candidate=policy.candidate(True, "q")) == "answer"
    assert threads == [True, False, False], "it has to be fast on threads first"


async def test_the_pieces_of_an_abandoned_query_are_made_again(pool: StepPool) -> None:
    policy = InlinePolicy(InlineLimits(fast_seconds=60, soft_deadline_seconds=60, runs_min=0))
    begun = []

    def make() -> Generator[bytes, None, None]:
        begun.append(threading.current_thread() is threading.main_thread())
        yield b"a"
        before_long_step()
        yield b"b"

    steps = Steps(pool, make, lambda: None, chunk_bytes=100, candidate=policy.candidate(True, "q"))
    assert await steps.next_chunk() == b"ab"
    assert steps.is_over
    assert begun == [True, False]


async def test_an_answer_that_begins_inline_goes_on_without_a_soft_deadline(pool: StepPool) -> None:
    policy = InlinePolicy(InlineLimits(fast_seconds=60, soft_deadline_seconds=60, runs_min=0))
    threads = []

    def make() -> Generator[bytes, None, None]:
        for _ in range(3):
            threads.append(threading.current_thread() is threading.main_thread())
            yield CHUNK
            if len(threads) == 1:
                continue
            before_long_step()

    steps = Steps(pool, make, lambda: None, chunk_bytes=1, candidate=policy.candidate(True, "q"))
    chunks = []
    while chunk := await steps.next_chunk():
        chunks.append(chunk)
    assert chunks == [CHUNK] * 3
    assert threads == [True, False, False]


async def test_an_error_inline_is_an_error(pool: StepPool) -> None:
    policy = InlinePolicy(InlineLimits(runs_min=0))

    def make() -> Generator[bytes, None, None]:
        yield b"a"
        raise ValueError("no")

    steps = Steps(pool, make, lambda: None, chunk_bytes=100, candidate=policy.candidate(True, "q"))
    with pytest.raises(ValueError, match="no"):
        await steps.next_chunk()
    assert steps.is_over

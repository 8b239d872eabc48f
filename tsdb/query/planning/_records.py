"""The rows of a query as DataFusion returns them, until they are closed or the deadline is reached.

There are two ways to get the next batch. A query of one table runs in the thread that reads its rows, which is fastest:
its scan checks for cancellation before every batch, and little happens in between. Any other query may compute for long
between two batches of a scan, or scan none of our tables. It runs on DataFusion's own threads, and one thread of ours
runs an event loop that waits for it, so that the wait can be abandoned: cancelling the wait drops the work.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from datafusion import RecordBatch, lit

from tsdb.errors import Cancelled, TsdbError
from tsdb.query.errors import OutOfMemory, execution_error, is_panic
from tsdb.query.lifetime import QueryLife, Unfinished

LOOK_SECONDS_MIN, LOOK_SECONDS_MAX = 0.01, 1.0
"""How often it is looked whether work that was given up has ended: less often the longer it goes on."""


class Waiter:
    """The event loop that waits for all queries of a server; started when first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def submit(self, stream: Any, work: Work) -> concurrent.futures.Future[Any]:
        """Request the next batch of a stream; the future gives None at its end. `work` follows what DataFusion does."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="query-waiter", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(_next_batch(stream, work), self._loop)

    def see_end(self, work: Work) -> None:
        """Have the end of work noticed that was given up."""
        with self._lock:
            if self._loop is not None:
                asyncio.run_coroutine_threadsafe(_see_end(work), self._loop)

    def close(self) -> None:
        """Give up every wait and stop the thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel_others() -> None:
    """End every other task of the loop; what was submitted before has become a task by now."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _next_batch(stream: Any, work: Work) -> Any:
    try:
        return RecordBatch(await work.follow(stream.rbs.__anext__()))
    except StopAsyncIteration:
        return None


async def _see_end(work: Work) -> None:
    seconds = LOOK_SECONDS_MIN
    while not work.is_over:
        await asyncio.sleep(seconds)
        # A task that ends on a thread of DataFusion may leave its future behind until the next call of its library.
        lit(0)
        seconds = min(2 * seconds, LOOK_SECONDS_MAX)


class Work:
    """What DataFusion does for the next batch of a query, as long as it does it.

    Its task holds the future that waits for it, so that the end of that future is the end of the task: cancelling the
    future is a wish that the task obeys when it comes to a place where it can stop.
    """

    def __init__(self) -> None:
        self._future: weakref.ref[Any] | None = None

    @property
    def is_over(self) -> bool:
        return self._future is None or self._future() is None

    def follow(self, future: Any) -> Any:
        self._future = weakref.ref(future)
        return future

    def on_end(self, call: Callable[[], None]) -> bool:
        """Have something called when the task ends; False if it has ended."""
        future = None if self._future is None else self._future()
        if future is None:
            return False
        weakref.finalize(future, call).atexit = False
        return True


class QueryRecords:
    """The rows of one query."""

    def __init__(
        self,
        stream: Any,
        schema: pa.Schema,
        life: QueryLife,
        waiter: Waiter | None,
        unfinished: Unfinished | None = None,
    ) -> None:
        """Without a waiter, the thread that wants rows computes them."""
        self._unfinished = unfinished
        self._work = Work()
        self._schema = schema
        self._life = life
        self._waiter = waiter
        self._lock = threading.Lock()
        self._stream: Any = stream
        self._pending: concurrent.futures.Future[Any] | None = None
        self._is_closed = False
        self._is_read_to_end = False
        self._ask()
        life.on_cancel(_weak_close(weakref.ref(self)))

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def scans(self) -> Sequence[Any]:
        """The tables that it reads, for EXPLAIN ANALYZE."""
        return self._life.scans

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            while (batch := self._next()) is not None:
                self._ask()
                found = batch.to_pyarrow()
                if found.num_rows:
                    yield self._convert(found)
            self._is_read_to_end = True
        finally:
            self.close()

    def _convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return convert_batch(batch, self._schema)
        except pa.ArrowException as error:
            raise execution_error(error) from error

    def close(self) -> None:
        """Stop the work and let go of snapshots; from any thread, any number of times."""
        with self._lock:
            pending, self._pending, self._stream = self._pending, None, None
            was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            return
        if self._is_read_to_end:
            self._life.end()
            return
        self._life.cancel()
        if pending is not None and not pending.done():
            self._give_up(pending)
        self._life.end()

    def _give_up(self, pending: concurrent.futures.Future[Any]) -> None:
        """Stop waiting for a batch; what DataFusion still does for it is counted until it ends."""
        if self._unfinished is not None:
            end = self._unfinished.add(self._life)
            if not self._work.on_end(end):
                end()
            elif self._waiter is not None:
                self._waiter.see_end(self._work)
        pending.cancel()

    def __del__(self) -> None:
        self.close()

    def _ask(self) -> None:
        if self._waiter is None:
            return
        with self._lock:
            if not self._is_closed:
                self._pending = self._waiter.submit(self._stream, self._work)

    def _next(self) -> Any:
        """Return the next batch, None at the end."""
        with self._lock:
            stream, pending = self._stream, self._pending
        if stream is None:
            raise self._cancelled()
        try:
            self._life.check()
            return next(stream, None) if pending is None else self._wait(pending)
        except TsdbError:
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            raise self._error(error) from error

    def _wait(self, pending: concurrent.futures.Future[Any]) -> Any:
        try:
            return self._life.wait_for(pending)
        except concurrent.futures.CancelledError:
            raise self._cancelled() from None
        except TimeoutError:
            if pending.done() and not pending.cancelled():
                raise  # the work itself met a timeout
            raise self._life.expired() from None

    def _cancelled(self) -> TsdbError:
        failure = self._life.failure
        return failure if isinstance(failure, OutOfMemory) else Cancelled("the query was cancelled")

    def _error(self, error: BaseException | None) -> TsdbError:
        failure = self._life.failure
        if isinstance(failure, TsdbError):
            return failure
        return execution_error(failure or error or RuntimeError("unknown error"))


def _weak_close(found: weakref.ref[QueryRecords]) -> Callable[[], None]:
    """Close rows unless they are gone: what is registered with a query must not keep them."""

    def close() -> None:
        records = found()
        if records is not None:
            records.close()

    return close


def result_schema(schema: pa.Schema) -> pa.Schema:
    """Return the types a client gets: views of strings as strings, times of UTC without the zone."""
    fields = [field.with_type(kind) if (kind := _plain(field.type)) is not field.type else field for field in schema]
    return pa.schema(fields)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pt.is_string_view(kind) or pt.is_large_string(kind):
        return pa.string()
    if pt.is_binary_view(kind) or pt.is_large_binary(kind):
        return pa.binary()
    if pt.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit)
    return _plain(kind.value_type) if pt.is_dictionary(kind) else kind


def convert_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give a batch the names and types of the result."""
    if not schema.names:
        return batch
    columns = [
        column if column.type == field.type else _cast(column, field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    # The quotient of a signed and an unsigned integer is announced as a decimal without a fraction and has one.
    is_quotient = pt.is_decimal(column.type) and pt.is_decimal(kind)
    return column.cast(kind, safe=not is_quotient)

"""Batches of an answer are read ahead: in order, one at most, and nothing goes on when the answer is given up."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from tsdb.servers.http.sql._formats import AHEAD_ROWS_MIN, read_ahead

LARGE = AHEAD_ROWS_MIN


def batch(number: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([number] * rows)], ["n"])


class Reading:
    """Records that know who reads them."""

    schema = pa.schema([("n", pa.int64())])

    def __init__(self, rows: list[int], error: Exception | None = None, stops_at: int | None = None) -> None:
        self._rows = rows
        self._error = error
        self._stops_at = stops_at
        self.readers: list[threading.Thread] = []
        self.is_reached = threading.Event()
        self.is_closed = threading.Event()
        self.has_ended = threading.Event()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for number, rows in enumerate(self._rows):
                self.readers.append(threading.current_thread())
                if number == self._stops_at:
                    self.is_reached.set()
                    assert self.is_closed.wait(30)
                yield batch(number, rows)
            if self._error is not None:
                raise self._error
        finally:
            self.has_ended.set()

    def close(self) -> None:
        self.is_closed.set()


def test_the_batch_behind_a_large_one_is_read_by_another_thread_meanwhile() -> None:
    records = Reading([LARGE, LARGE, 5, 5])
    batches = read_ahead(records, None)
    assert next(batches) == batch(0, LARGE)
    assert [each.num_rows for each in batches] == [LARGE, 5, 5]
    here = threading.current_thread()
    assert [reader is here for reader in records.readers] == [True, False, False, True]
    assert records.is_closed.is_set()


def test_a_limit_ends_the_reading() -> None:
    records = Reading([LARGE, LARGE, LARGE])
    assert [each.num_rows for each in read_ahead(records, LARGE + 7)] == [LARGE, 7]
    assert len(records.readers) == 2


def test_an_error_behind_a_large_batch_is_raised_where_the_next_one_is_asked_for() -> None:
    batches = read_ahead(Reading([LARGE], ValueError("the disk is gone")), None)
    next(batches)
    with pytest.raises(ValueError, match="the disk is gone"):
        next(batches)


def test_giving_up_stops_what_is_being_read() -> None:
    records = Reading([LARGE, LARGE], stops_at=1)
    batches = read_ahead(records, None)
    next(batches)
    assert records.is_reached.wait(30)
    batches.close()
    assert records.has_ended.is_set()

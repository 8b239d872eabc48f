"""Sending: what was sent is waited for, whatever becomes of the others, and counted."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from tsdb.clock import SystemClock
from tsdb.database.writing.request import Again
from tsdb.database.writing.send import RegionBatch, Retry, Sender
from tsdb.engine import Regions
from tsdb.errors import Cancelled, Unsupported
from tsdb.model import Batch, RegionId, RegionSchema, Semantic, SeriesTable
from tsdb.query import WriteToken
from tsdb.units import Duration

SCHEMA = RegionSchema.create([("ts", pa.timestamp("ms"), Semantic.TIMESTAMP)])


def part(region: int, rows: int = 2) -> RegionBatch:
    series = SeriesTable.of_tags(SCHEMA, [], 1)
    batch = Batch(series, np.zeros(rows, np.uint32), np.arange(rows, dtype=np.int64), {})
    return RegionBatch(RegionId(region), batch, 0)


class FakeRegions:
    """Takes batches; some regions refuse them at once, others when their turn comes."""

    def __init__(self, *, at_once: int = -1, late: int = -1, cancels: tuple[int, WriteToken] | None = None) -> None:
        self._at_once, self._late, self._cancels = at_once, late, cancels
        self.sent: list[int] = []

    def write(self, region: RegionId, batch: Batch, **_: Any) -> Future[int]:
        self.sent.append(region)
        if self._cancels is not None and region == self._cancels[0]:
            self._cancels[1].cancel()
        if region == self._at_once:
            raise Unsupported("at once")
        done: Future[int] = Future()
        if region == self._late:
            done.set_exception(Unsupported("late"))
        else:
            done.set_result(batch.rows)
        return done


def sender(regions: FakeRegions) -> Sender:
    return Sender(cast(Regions, regions), SystemClock(), Duration.of_seconds(30))


def test_all_parts_are_sent_and_counted_whichever_fail() -> None:
    regions, token = FakeRegions(at_once=1, late=2), WriteToken()
    sent = sender(regions).send([part(number) for number in range(4)], token)
    assert regions.sent == [0, 1, 2, 3]
    assert [each.rows for each in sent] == [2, 0, 0, 2]
    assert [str(each.error) for each in sent if each.error] == ["at once", "late"]
    assert token.rows == 4


def test_a_log_that_does_not_answer_holds_up_no_thread_for_ever() -> None:
    class Silent(FakeRegions):
        def write(self, region: RegionId, batch: Batch, **_: Any) -> Future[int]:
            return Future()

    instant = Duration.of_seconds(0.01)
    silent = Sender(cast(Regions, Silent()), SystemClock(), instant, log_timeout=instant)
    token = WriteToken()
    (sent,) = silent.send([part(0)], token)
    assert "the log did not answer within 0.02 s, the write may still take effect" in str(sent.error)
    assert token.rows == 0


def test_nothing_is_sent_after_a_cancellation_and_what_was_sent_is_counted() -> None:
    token = WriteToken()
    regions = FakeRegions(cancels=(1, token))
    sent = sender(regions).send([part(number) for number in range(4)], token)
    assert regions.sent == [0, 1]
    assert token.rows == 4
    assert [isinstance(each.error, Cancelled) for each in sent] == [False, False, True, True]


def test_a_part_that_is_begun_is_counted_when_it_is_written() -> None:
    token = WriteToken()
    assert sender(FakeRegions()).begin(part(0), token).result() == 2
    assert token.rows == 2
    with pytest.raises(Unsupported):
        sender(FakeRegions(late=0)).begin(part(0), token).result()
    assert token.rows == 2


def test_a_write_is_tried_again_until_its_time_is_over() -> None:
    again = Again(Unsupported("changed"))
    Retry(SystemClock(), Duration.of_seconds(30)).wait(again)
    with pytest.raises(Unsupported, match="changed"):
        Retry(SystemClock(), Duration(-1)).wait(again)

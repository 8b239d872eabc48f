"""Rows that come with the plan of a scan: the same rows, in fewer messages, and no stream is kept for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.remote.world import REGION, World, wait_until
from tsdb.engine.reading import RowsAhead, ScanRequest
from tsdb.errors import Busy
from tsdb.remote import _serve_rows
from tsdb.remote._errors import lower_error
from tsdb.remote._link import CallStream, Link
from tsdb.remote._serve_calls import CallsEnd
from tsdb.units import Duration

ROWS = [{"host": f"h{at % 5}", "ts": at, "a": float(at)} for at in range(100)]
AHEAD = RowsAhead(["a"], ["a"])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a datanode was asked for something."""
    counts: Counter[str] = Counter()
    ask = CallStream.ask

    def count(self: CallStream, head: dict[str, Any], *rest: Any) -> None:
        counts[head["op"]] += 1
        ask(self, head, *rest)

    monkeypatch.setattr(CallStream, "ask", count)
    return counts


def give(patch: pytest.MonkeyPatch, world: World, sizes: Sequence[int], error: Exception | None = None) -> None:
    """Let a scan give batches of these sizes, and an error."""

    def scan(self: Any, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        start = 0
        for size in sizes:
            yield pa.record_batch({"a": [float(at) for at in range(start, start + size)]})
            start += size
        if error is not None:
            raise error

    patch.setattr(type(world.engine.open_reader(REGION)), "scan", scan)


def test_a_small_scan_is_one_request(world: World, asked: Counter[str]) -> None:
    world.put(ROWS)
    asked.clear()
    for _ in range(3):
        reader = world.regions.open_reader(REGION)
        planned = reader.plan_scan(None, AHEAD)
        batches = list(reader.scan(ScanRequest(planned.number, 0, ["a"])))
        assert sorted(value for batch in batches for value in batch["a"].to_pylist()) == [
            float(at) for at in range(100)
        ]
        reader.release()
    assert asked == {"plan_scan": 3}
    wait_until(lambda: len(world.server.readers) == 0)


def test_the_rows_can_be_read_again_and_with_other_columns(world: World, asked: Counter[str]) -> None:
    world.put(ROWS)
    asked.clear()
    reader = world.regions.open_reader(REGION)
    planned = reader.plan_scan(None, AHEAD)
    for columns in (["host", "a"], ["a"], ["a"]):
        batches = list(reader.scan(ScanRequest(planned.number, 0, columns)))
        assert batches[0].schema.names == columns
        assert sum(batch.num_rows for batch in batches) == 100
    assert asked == {"plan_scan": 1, "scan": 3}, "rows of other columns than those that are wanted are dropped"
    reader.release()


def test_no_more_rows_are_sent_than_are_wanted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    lower_rows = _serve_rows.lower_rows
    monkeypatch.setattr(
        _serve_rows, "lower_rows", lambda batch, **how: sent.append(batch.num_rows) or lower_rows(batch, **how)
    )
    world.put(ROWS)
    reader = world.regions.open_reader(REGION)
    planned = reader.plan_scan(None, RowsAhead(["host", "a"], ["a"], 25))
    for rows, others in ((25, []), (7, [7]), (200, [7, 100])):
        batches = list(reader.scan(ScanRequest(planned.number, 0, ["host", "a"], rows)))
        found = [row for batch in batches for row in batch.to_pylist()]
        expected = sorted(({"host": row["host"], "a": row["a"]} for row in ROWS), key=lambda row: row["host"])
        assert found == expected[:rows]
        assert sent == [25, *others]
    reader.release()


@pytest.mark.parametrize("sizes", [[], [1], [1, 0, 2], [5000], [3, 5000, 3], [4000, 97, 4000], [1] * 40, [5000] * 9])
def test_every_row_arrives_in_order(world: World, monkeypatch: pytest.MonkeyPatch, sizes: list[int]) -> None:
    give(monkeypatch, world, sizes)
    for ahead in (AHEAD, None):
        reader = world.regions.open_reader(REGION)
        planned = reader.plan_scan(None, ahead)
        found = [
            value for batch in reader.scan(ScanRequest(planned.number, 0, ["a"])) for value in batch["a"].to_pylist()
        ]
        assert found == [float(at) for at in range(sum(sizes))]
        reader.release()


def test_an_error_comes_after_the_rows_before_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, world, [2], Busy("for once"))
    reader = world.regions.open_reader(REGION)
    batches = reader.scan(ScanRequest(reader.plan_scan(None, AHEAD).number, 0, ["a"]))
    assert next(batches).num_rows == 2
    with pytest.raises(Busy, match="for once"):
        next(batches)
    reader.release()


def test_an_error_before_the_first_row_is_that_of_the_plan(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, world, [], Busy("for once"))
    reader = world.regions.open_reader(REGION)
    with pytest.raises(Busy, match="for once"):
        reader.plan_scan(None, AHEAD)
    reader.release()
    wait_until(lambda: len(world.server.readers) == 0)


def test_a_query_that_ends_while_its_datanode_stands_still_leaves_nothing_on_its_stream(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = CallsEnd._send

    def send_and_wait(self: CallsEnd, call: Any, lowered: Any, also: dict[str, Any] | None = None) -> None:
        send(self, call, lowered, also)
        if also is not None and "reader" in also:
            # The client has read everything and says on another stream that it does not need the reader any more.
            self._readers.release(also["reader"], self._session)

    monkeypatch.setattr(CallsEnd, "_send", send_and_wait)
    world.put(ROWS)
    for column in ["a", "host", "a", "ts", "host"]:
        reader = world.regions.open_reader(REGION)
        planned = reader.plan_scan(None, RowsAhead([column], [column]))
        (batch,) = reader.scan(ScanRequest(planned.number, 0, [column]))
        assert (batch.schema.names, batch.num_rows) == ([column], 100)
        reader.release()


def test_what_still_arrives_of_an_earlier_request_is_ignored(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = CallsEnd._answer

    def answer_and_fail(self: CallsEnd, head: dict[str, Any], buffers: Any) -> None:
        answer(self, head, buffers)
        self._tell({"error": lower_error(Busy("too late"))})

    monkeypatch.setattr(CallsEnd, "_answer", answer_and_fail)
    world.put(ROWS)
    for column in ["a", "host", "ts"]:
        reader = world.regions.open_reader(REGION)
        planned = reader.plan_scan(None, RowsAhead([column], [column]))
        (batch,) = reader.scan(ScanRequest(planned.number, 0, [column]))
        assert (batch.schema.names, batch.num_rows) == ([column], 100)
        assert world.regions.stat(REGION).memtable_rows == 100
        reader.release()


def test_rows_that_nobody_reads_free_their_stream(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, world, [5000] * 50)
    for _ in range(40):
        reader = world.regions.open_reader(REGION)
        reader.plan_scan(None, AHEAD)
        reader.release()
    wait_until(lambda: len(world.server.readers) == 0)
    assert world.regions.stat(REGION).files == 0


def test_a_caller_that_has_enough_leaves_the_stream_to_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put(ROWS)
    discarded: list[CallStream] = []
    monkeypatch.setattr(_serve_rows, "GATHER_MAX", Duration.of_seconds(60))
    monkeypatch.setattr(Link, "discard", lambda link, call: discarded.append(call))
    for _ in range(5):
        reader = world.regions.open_reader(REGION)
        batches = reader.scan(ScanRequest(reader.plan_scan(None, AHEAD).number, 0, ["a"]))
        assert next(batches).num_rows == 100
        del batches
        reader.release()
    assert not discarded

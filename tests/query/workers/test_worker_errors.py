"""Errors on their way from a worker to the server."""

from __future__ import annotations

import pickle
import socket
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tsdb.clock import ManualClock
from tsdb.errors import Cancelled, DeadlineExceeded
from tsdb.processes.messages import MessageKind, packed_error, unpacked_error
from tsdb.query.errors import QueryPanic
from tsdb.query.lifetime import QueryLife
from tsdb.query.workers import Lease, _records
from tsdb.query.workers._worker import _told
from tsdb.units import Duration


def test_an_error_of_the_query_engine_arrives_with_its_cause() -> None:
    told = _told(Exception("DataFusion error: Internal error: an index is out of bounds"))
    arrived = unpacked_error(packed_error(told))
    assert isinstance(arrived, QueryPanic)
    assert "an index is out of bounds" in arrived.__notes__[0]
    assert "out of bounds" not in str(arrived)


def test_a_mistake_in_a_query_arrives_without_a_traceback() -> None:
    arrived = unpacked_error(packed_error(_told(Exception("DataFusion error: Arrow error: Divide by zero error"))))
    assert not hasattr(arrived, "__notes__")


def test_an_error_that_arrives_after_the_deadline_is_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan that met the deadline reaches the worker first, which knows it by its text alone."""
    clock = ManualClock()
    ours, theirs = socket.socketpair()
    worker: Any = SimpleNamespace(control=ours, service=SimpleNamespace(tables=None))
    pool: Any = SimpleNamespace(take=lambda _: worker, give_back=lambda _: None)
    tables: Any = SimpleNamespace(close=lambda: None)

    def receive(_: socket.socket) -> tuple[MessageKind, pa.Buffer]:
        clock.advance(seconds=2)
        return MessageKind.ERROR, pa.py_buffer(pickle.dumps(packed_error(QueryPanic("it failed"))))

    monkeypatch.setattr(_records, "receive", receive)
    with ours, theirs, pytest.raises(DeadlineExceeded):
        Lease(pool, QueryLife(clock, Duration.parse("1s")), tables).receive()


def test_a_scan_that_ends_with_the_query_does_not_hide_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions of other nodes are let go of as soon as the query is over; what reads them then was cancelled."""
    life = QueryLife(ManualClock(), None)
    ours, theirs = socket.socketpair()
    worker: Any = SimpleNamespace(control=ours, service=SimpleNamespace(tables=None))
    pool: Any = SimpleNamespace(take=lambda _: worker, give_back=lambda _: None)
    tables: Any = SimpleNamespace(close=lambda: life.fail(Cancelled("the query was cancelled")))
    failed = MessageKind.ERROR, pa.py_buffer(pickle.dumps(packed_error(QueryPanic("it failed"))))
    monkeypatch.setattr(_records, "receive", lambda _: failed)
    with ours, theirs:
        assert Lease(pool, life, tables).receive() == failed

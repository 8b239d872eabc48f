"""A database that answers what it was told, and remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from tsdb.errors import Cancelled
from tsdb.query import Affected, Output, Session, TableRecords

Answer: TypeAlias = Output | Exception | Callable[[], Output]


@dataclass
class ScriptedDatabase:
    """Every statement of a text has its answer in `answers`; an exception is raised."""

    answers: dict[str, list[Answer]] = field(default_factory=dict)
    databases: tuple[str, ...] = ("public", "metrics", "my-db")
    sessions: list[Session] = field(default_factory=list)
    cancelled: list[Session] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)
    has_finished: bool = False

    def execute(self, text: str, session: Session) -> Iterator[Output]:
        self.sessions.append(session)
        self.begun.set()
        try:
            for answer in self.answers[text]:
                if isinstance(answer, Exception):
                    raise answer
                yield answer() if callable(answer) else answer
        finally:
            self.has_finished = True

    def cancel(self, session: Session) -> None:
        self.cancelled.append(session)
        self.stopped.set()

    def has_database(self, name: str) -> bool:
        return name in self.databases

    def block(self) -> Output:
        """Answer when somebody cancels: with an error."""
        self.stopped.wait(10)
        raise Cancelled("the query was cancelled")


def rows(**columns: Any) -> TableRecords:
    return TableRecords(pa.table(columns))


class MadeRecords:
    """Many rows that are made when they are asked for; counts what was made."""

    def __init__(self, batch: pa.RecordBatch, batches: int, error: Exception | None = None) -> None:
        self.batch = batch
        self.batches = batches
        self.error = error
        self.made = 0
        self.closed = threading.Event()

    @property
    def schema(self) -> pa.Schema:
        return self.batch.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for _ in range(self.batches):
            self.made += 1
            yield self.batch
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.closed.set()


__all__ = ["Affected", "MadeRecords", "ScriptedDatabase", "rows"]

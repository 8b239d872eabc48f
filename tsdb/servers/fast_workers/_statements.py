"""Queries of sessions that fast workers compute: for protocols whose connections have a session and a task each.

A query of a known shape needs no parser and no thread: the worker computes it and encodes the answer in the client's
protocol. Rights, the table and its snapshot are looked up for each query, and it is in the process list.
"""

from __future__ import annotations

import asyncio

from tsdb.database import DatabasePort, RepeatedQuery
from tsdb.engine.lending import Lender
from tsdb.errors import Busy, TsdbError
from tsdb.query import Session
from tsdb.servers._inline import TEXT_CHARS_MAX
from tsdb.servers._scheduler import waited_until_deadline
from tsdb.servers.fast_workers._pool import FastWorkers
from tsdb.servers.fast_workers._process import Encode, Lent
from tsdb.servers.fast_workers._worker import FastAnswer
from tsdb.telemetry import is_tracing

_SELECT = "select"


def single_query(text: str) -> str | None:
    """Return the query of a text without blanks and the semicolon; None for a long text, and for anything else."""
    if len(text) > TEXT_CHARS_MAX:
        return None
    found = text.strip().removesuffix(";").rstrip()
    return found if found[: len(_SELECT)].lower() == _SELECT and ";" not in found else None


class FastStatements:
    """The fast workers as a protocol with sessions sees them. Used on the event loop alone."""

    def __init__(self, database: DatabasePort, workers: FastWorkers | None) -> None:
        self._database = database
        self._workers = workers

    @property
    def are_wanted(self) -> bool:
        """Whether queries should be tried at all: not while they are traced, which the usual way does."""
        return self._workers is not None and not is_tracing()

    async def answer(self, text: str, session: Session, encode: Encode) -> bytes | None:
        """Return the encoded answer to a `single_query`; None if it has to be run as any other statement.

        Raises if the query was killed meanwhile, or cannot be answered within the timeout of its session.
        """
        assert self._workers is not None, "they are wanted"
        try:
            query = self._database.find_repeated(text, session)
        except TsdbError:
            # Whatever it is, the usual way meets it too, and reports it.
            return None
        if query is None:
            return None
        waiting = _Waiting(self._database, query, encode)
        seconds_max = session.timeout.seconds if session.timeout else None
        try:
            if not self._workers.submit(query.key, waiting, seconds_max):
                waiting.answered(None)
        except Busy:
            waiting.answered(None)
            raise
        answer = await waiting.wait(seconds_max)
        if answer is None:
            return None
        session.warnings.clear()
        return answer.body


class _Waiting:
    """One query, from its turn to its answer."""

    def __init__(self, database: DatabasePort, query: RepeatedQuery, encode: Encode) -> None:
        self.encode = encode
        self._database = database
        self._query = query
        self.outcome: asyncio.Future[FastAnswer | None] = asyncio.get_running_loop().create_future()

    @property
    def is_wanted(self) -> bool:
        return not self.outcome.done()

    async def wait(self, seconds_max: float | None) -> FastAnswer | None:
        """Return the answer, None if it has to be found in another way; raises at the deadline at the latest."""
        if self.outcome.done() or seconds_max is None:
            return await self.outcome
        timer = asyncio.get_running_loop().call_later(seconds_max, self._expire)
        try:
            return await self.outcome
        finally:
            timer.cancel()

    def _expire(self) -> None:
        """Tell that the time is up. If a worker computes the query, what it reads is kept until it has."""
        if not self.outcome.done():
            self.outcome.set_exception(waited_until_deadline())

    def lend(self, lender: Lender) -> Lent | None:
        return self._query.lend(lender)

    def answered(self, answer: FastAnswer | None) -> None:
        try:
            self._database.end_repeated(self._query, is_answered=answer is not None and not self.outcome.done())
        except TsdbError as error:
            if not self.outcome.done():
                self.outcome.set_exception(error)
            return
        if not self.outcome.done():  # its client may have gone
            self.outcome.set_result(answer)

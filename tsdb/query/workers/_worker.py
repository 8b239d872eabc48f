"""A worker process: takes one query after the other, plans it, runs it and sends its rows."""

from __future__ import annotations

import os
import shutil
import socket
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tsdb.clock import SystemClock
from tsdb.errors import TsdbError, is_fault
from tsdb.processes.fork_server import name_process
from tsdb.processes.messages import Gone, receive_object, send_batch, send_end, send_object
from tsdb.query.errors import execution_error, is_panic
from tsdb.query.lifetime import QueryLife
from tsdb.query.pg_catalog import pg_functions
from tsdb.query.planning import Contexts, Plans, QueryDescription, QueryEngineOptions, convert_batch
from tsdb.query.session import Session
from tsdb.query.workers._requests import DescribeRequest, RunRequest
from tsdb.query.workers._tables import RemoteSource, Server
from tsdb.sql.statements import Dialect
from tsdb.units import Size

NICENESS = 10
"""Threads of workers come after those of the server, which answer everybody else: there are many of them, and a query
may keep them busy until its deadline. On a machine with a free core it makes no difference."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What a worker may take."""

    memory_bytes: Size
    """Of one worker, beyond what it has when it is idle; 0 leaves it without a limit. Half of it is for operators."""
    spill_dir: Path
    parallelism: int

    def run(self, *connections: socket.socket) -> None:
        """Be a worker: answer until the server closes the connection."""
        name_process("tsdb-worker")
        os.nice(NICENESS)
        control, calls = connections
        os.environ["TOKIO_WORKER_THREADS"] = str(max(4, 2 * self.parallelism))
        try:
            worker = _Worker(control, Server(calls), self)
            with suppress(Gone):
                while True:
                    worker.answer(receive_object(control)[0])
        finally:
            shutil.rmtree(self.spill_dir, ignore_errors=True)


class _Worker:
    def __init__(self, control: socket.socket, server: Server, options: WorkerOptions) -> None:
        self._control = control
        self._server = server
        query = QueryEngineOptions(
            memory_bytes=Size(int(options.memory_bytes) // 2),
            spill_dir=options.spill_dir,
            parallelism=options.parallelism,
        )
        self._plans = Plans(Contexts(query), self._server_functions, can_be_ended=True)
        self._pg_functions = {each.name: each for each in pg_functions()}

    def answer(self, request: RunRequest | DescribeRequest) -> None:
        try:
            if isinstance(request, DescribeRequest):
                send_object(self._control, self._describe(request))
            else:
                self._run(request)
        except Gone:
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            send_end(self._control, _told(error))

    def _describe(self, request: DescribeRequest) -> QueryDescription:
        life, source = self._begin(request)
        planned = self._plans.plan(request.job, source, life)
        return QueryDescription(planned.schema, planned.coerced.logical_plan().display_indent_schema())

    def _run(self, request: RunRequest) -> None:
        life, source = self._begin(request)
        planned, stream = self._plans.start(request.job, source, life)
        send_object(self._control, planned.schema)
        for batch in _batches(stream):
            send_batch(self._control, convert_batch(batch, planned.schema))
        send_end(self._control)

    def _begin(self, request: RunRequest | DescribeRequest) -> tuple[QueryLife, RemoteSource]:
        life = QueryLife(SystemClock(), None)
        return life, RemoteSource(self._server, life, self._plans.plan_view, request.tables)

    def _server_functions(self, session: Session, words: set[str]) -> list[Any]:
        if session.dialect is not Dialect.POSTGRESQL:
            return []
        named = [each for name, each in self._pg_functions.items() if name in words]
        return [each.make() if each.volatility == "immutable" else self._server.function(each) for each in named]


def _told(error: BaseException) -> TsdbError:
    """Return an error as the server gets it: with its traceback, for the log, if it is one of the query engine."""
    told = execution_error(error)
    if is_fault(told):
        told.add_note("".join(traceback.format_exception(error)))
    return told


def _batches(stream: Any) -> Iterator[pa.RecordBatch]:
    for batch in stream:
        rows = batch.to_pyarrow()
        if rows.num_rows:
            yield rows

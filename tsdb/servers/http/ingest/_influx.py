"""`/v1/influxdb/…`: line protocol from clients of InfluxDB 1, 2 and 3, and of QuestDB.

A request is written or refused as a whole. InfluxDB's query languages are not supported; `ping` and `health` answer
what clients request before they write.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tsdb import __version__
from tsdb.clock import Clock, SystemClock
from tsdb.database import DatabaseGate, DatabasePort, NotReady
from tsdb.engine.errors import RegionNotFound, SchemaOutdated
from tsdb.errors import BodyTooLarge, Cancelled, InvalidArguments, TsdbError
from tsdb.ingest import NewTable, Rejection, TableRows
from tsdb.ingest.influx import parse_lines
from tsdb.query import Session, WriteToken
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http._errors import short_error_body
from tsdb.servers.http.ingest._dry_run import dry_lines_response, is_dry_run, read_dry_lines
from tsdb.servers.http.ingest._gather import Begun, Gathering
from tsdb.servers.http.ingest._request import (
    GATHERED_BYTES_MAX,
    GROUPS_AT_ONCE,
    INGEST,
    IngestPool,
    IngestTuning,
    gathering_key,
    make_ingest_session,
    read_hints,
    unpack_body,
)
from tsdb.servers.http.wire import Request, Response

PROTOCOL = "influxdb"

NEW_TABLE = NewTable(time_unit="ns", options={"merge_mode": "last_non_null"})
"""Lines with the same tags and time are parts of one row: their fields are put together."""

AUTO = "auto"
"""The unit of a time is inferred from its magnitude, as in InfluxDB 3."""

PRECISIONS = {
    "": "ns",
    "n": "ns",
    "ns": "ns",
    "u": "us",
    "us": "us",
    "µ": "us",
    "ms": "ms",
    "s": "s",
    "m": "m",
    "h": "h",
    "nanosecond": "ns",
    "microsecond": "us",
    "millisecond": "ms",
    "second": "s",
    AUTO: AUTO,
}

_SPOKEN_VERSION = "1.8.10"
"""Clients of InfluxDB 1 insist on a version; this is the one whose writes are understood."""


_DONE: Future[int] = Future()
"""The end of work that is over."""
_DONE.set_result(0)


class ParseLines(Protocol):
    """How bytes become rows."""

    def __call__(self, body: bytes, *, precision: str, now_ns: int) -> list[TableRows]: ...


class _Write(NamedTuple):
    """A request to write, for the database that its route names."""

    request: Request
    body: bytes
    database: str | None


class InfluxRoutes:
    """The state of the routes. `close` it when the server has stopped."""

    def __init__(self, gate: DatabaseGate, *, parse: ParseLines, clock: Clock, tuning: IngestTuning) -> None:
        self._bytes_max = tuning.unpacked_bytes_max
        self._gate = gate
        self._parse = parse
        self._clock = clock
        self._pool = IngestPool("http-influxdb", tuning)
        self._gathering = Gathering(
            "http-influxdb-write",
            self._write_group,
            self._write_again,
            threads=GROUPS_AT_ONCE,
            settle_seconds_max=tuning.settle_seconds_max,
        )

    @property
    def _database(self) -> DatabasePort:
        return self._gate.database

    def close(self) -> None:
        self._gathering.close()
        self._pool.close()

    async def write_v1(self, request: Request) -> Response:
        """Take lines for the database `db`."""
        return await self._take(request, request.query.get("db"))

    async def write_v2(self, request: Request) -> Response:
        """Take lines for the database `bucket`; there are no organisations."""
        return await self._take(request, request.query.get("bucket") or request.query.get("db"))

    async def write_v3(self, request: Request) -> Response:
        """Take lines for the database `db`. A request is written as a whole, whatever `accept_partial` says."""
        return await self._take(request, request.query.get("db"))

    async def ping(self, request: Request) -> Response:
        """Say that there is a server."""
        return Response(status=204, headers=[("x-influxdb-version", _SPOKEN_VERSION), ("x-influxdb-build", "tsdb")])

    async def health(self, request: Request) -> Response:
        """Say whether lines can be written."""
        facts = {"name": "tsdb", "version": __version__}
        try:
            self._gate.check()
        except NotReady as error:
            return Response.json({**facts, "status": "fail", "message": str(error)}, status=503)
        return Response.json({**facts, "status": "pass", "message": "ready for queries and writes"})

    async def _take(self, request: Request, database: str | None) -> Response:
        body = await request.body()
        if len(body) <= GATHERED_BYTES_MAX and not is_dry_run(request):
            request.token = token = WriteToken()
            return await self._gathering.run(gathering_key(request), _Write(request, body, database), len(body), token)
        return await self._pool.write(request, partial(self._write, request, body, database))

    def _write_group(self, group: Sequence[_Write]) -> list[Response | Exception] | Begun[Response]:
        """Write requests that say the same beside their lines, as one if that goes well."""
        token = WriteToken.shared([each.request.token or WriteToken() for each in group])
        try:
            begun = self._write_as_one(group, token)
        except (InvalidArguments, BodyTooLarge):
            # Nothing is written yet. Each request gets its own error.
            pass
        except Cancelled as error:
            if token.has_begun:
                return [error] * len(group)
            # Some requests were cancelled: the others are written without them.
        except TsdbError as error:
            return [error] * len(group)
        else:
            if begun is not None:
                return begun
        return self._write_each(group)

    def _write_again(self, group: Sequence[_Write], error: Exception) -> list[Response | Exception]:
        """Write requests whose table is not what it was when their rows were sent."""
        if isinstance(error, SchemaOutdated | RegionNotFound):
            return self._write_each(group)
        return [error] * len(group)

    def _write_each(self, group: Sequence[_Write]) -> list[Response | Exception]:
        return [self._try_write(each) for each in group]

    def _try_write(self, each: _Write) -> Response | Exception:
        try:
            return self._write(each.request, each.body, each.database)
        except TsdbError as error:
            return error

    def _write_as_one(self, group: Sequence[_Write], token: WriteToken) -> Begun[Response] | None:
        """Write all lines together; None, and nothing is written, if the time of their arrival matters."""
        request, now_ns = group[0].request, self._clock.now_ns()
        session = make_ingest_session(request, self._database, group[0].database, token=token)
        encoding = request.headers.get("content-encoding")
        lines = b"\n".join(unpack_body(each.body, encoding, self._bytes_max) for each in group)
        rows = self._read(lines, _read_precision(request), now_ns)
        if len(group) > 1 and any((table.times == now_ns).any() for table in rows):
            return None
        hints = read_hints(request)
        done = self._database.begin_ingest(
            rows, session, NEW_TABLE, hints=hints, protocol=PROTOCOL, notes_rejections=False
        )
        return Begun(done or _DONE, [Response(status=204)] * len(group))

    def _read(self, lines: bytes, precision: str, now_ns: int) -> list[TableRows]:
        if precision != AUTO:
            return self._parse(lines, precision=precision, now_ns=now_ns)
        return [replace(rows, times=guess_ns(rows.times)) for rows in self._parse(lines, precision="ns", now_ns=now_ns)]

    def _write(self, request: Request, body: bytes, database: str | None) -> Response:
        precision = _read_precision(request)
        session = make_ingest_session(request, self._database, database)
        lines = unpack_body(body, request.headers.get("content-encoding"), self._bytes_max)
        if is_dry_run(request):
            return self._try_lines(request, lines, session)
        try:
            rows = self._read(lines, precision, self._clock.now_ns())
        except InvalidArguments as error:
            self._database.reject([_unreadable(error)], session, protocol=PROTOCOL)
            raise
        self._database.ingest(rows, session, NEW_TABLE, hints=read_hints(request), protocol=PROTOCOL)
        return Response(status=204)

    def _try_lines(self, request: Request, lines: bytes, session: Session) -> Response:
        precision, now_ns = _read_precision(request), self._clock.now_ns()
        read = read_dry_lines(lines, lambda some: self._read(some, precision, now_ns))
        outcome = self._database.ingest(
            read.rows, session, NEW_TABLE, dry_run=True, hints=read_hints(request), protocol=PROTOCOL
        )
        return dry_lines_response(read, outcome, now_ns=now_ns)


def influx_routes(
    app: HttpApp,
    gate: DatabaseGate,
    *,
    parse: ParseLines = parse_lines,
    clock: Clock | None = None,
    tuning: IngestTuning = INGEST,
) -> InfluxRoutes:
    """Add `/v1/influxdb/…`. The result is to be closed after the server has stopped."""
    routes = InfluxRoutes(gate, parse=parse, clock=clock or SystemClock(), tuning=tuning)
    app.add("/v1/influxdb/write", routes.write_v1, methods=("POST",), error_body=short_error_body)
    app.add("/v1/influxdb/api/v2/write", routes.write_v2, methods=("POST",), error_body=short_error_body)
    app.add("/v1/influxdb/api/v3/write_lp", routes.write_v3, methods=("POST",), error_body=short_error_body)
    app.add("/v1/influxdb/ping", routes.ping, methods=("GET",), error_body=short_error_body)
    app.add("/v1/influxdb/health", routes.health, methods=("GET",), error_body=short_error_body)
    return routes


def guess_ns(times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return times in nanoseconds, whatever they count: numbers below five billion are seconds, and so on by thousands.

    So every unit reaches from 1970 to 2128, and they do not overlap.
    """
    sizes = np.abs(times)
    factors = np.select(
        [sizes < 5_000_000_000, sizes < 5_000_000_000_000, sizes < 5_000_000_000_000_000],
        [1_000_000_000, 1_000_000, 1_000],
        default=1,
    )
    return times * factors.astype(np.int64)


def _read_precision(request: Request) -> str:
    said = request.query.get("precision") or ""
    precision = PRECISIONS.get(said)
    if precision is None:
        known = ", ".join(name for name in PRECISIONS if name.isascii() and name)
        raise InvalidArguments(f"the parameter precision is one of {known}; received {said!r}")
    return precision


def _unreadable(error: InvalidArguments) -> Rejection:
    line = error.fields.get("line")
    return Rejection("", str(error), place=line if isinstance(line, int) else None, kind="syntax")

"""`/v1/opentsdb/api/put`: points as JSON.

Without a flag a request is written or refused as a whole: 204, or an error. With `summary` or `details` points are
judged one by one: those that fit are written, and the response counts the others, or lists them with their reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import orjson

from tsdb import __version__
from tsdb.database import DatabaseGate
from tsdb.ingest import Rejection, TableRows, WriteOutcome
from tsdb.ingest.opentsdb import CHECK_POINTS, NEW_TABLE, InvalidPoint, Point, make_rows, parse_body, parse_point
from tsdb.query import WriteToken
from tsdb.servers._partial_write import write_what_fits
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http._errors import short_error_body
from tsdb.servers.http.ingest._dry_run import dry_run_response, is_dry_run
from tsdb.servers.http.ingest._request import (
    IngestPool,
    make_ingest_session,
    read_hints,
    unpack_body,
)
from tsdb.servers.http.wire import Request, Response

PROTOCOL = "opentsdb"


class OpentsdbRoutes:
    """The state of the routes. `close` it when the server has stopped."""

    def __init__(self, gate: DatabaseGate) -> None:
        self._gate = gate
        self._pool = IngestPool("http-opentsdb")

    def close(self) -> None:
        self._pool.close()

    async def put(self, request: Request) -> Response:
        """Take points."""
        body = await request.body()
        return await self._pool.write(request, partial(self._put, request, body))

    async def version(self, request: Request) -> Response:
        """Answer which version this is; clients ask before they send."""
        return Response.json({"version": __version__, "repo": "tsdb"})

    def _put(self, request: Request, body: bytes) -> Response:
        database, hints, dry_run = self._gate.database, read_hints(request), is_dry_run(request)
        session = make_ingest_session(request, database)
        found = parse_body(unpack_body(body, request.headers.get("content-encoding")))

        def write(rows: Sequence[TableRows]) -> WriteOutcome:
            return database.ingest(rows, session, NEW_TABLE, dry_run=dry_run, hints=hints, protocol=PROTOCOL)

        has_flag = "summary" in request.query or "details" in request.query
        points, errors = _parse_points(found, request.token or WriteToken())
        if errors and not dry_run:
            rejections = [Rejection("", reason, place, kind="syntax") for place, reason in errors.items()]
            database.reject(rejections, session, protocol=PROTOCOL)
        if errors and not has_flag:
            place = min(errors)
            raise InvalidPoint(f"point {place}: {errors[place]}")
        if has_flag and not dry_run:
            return _answer_each(found, points, errors, write, is_detailed="details" in request.query)
        outcome = write(make_rows(points))
        return dry_run_response(outcome) if dry_run else Response(status=204)


def _parse_points(found: list[object], token: WriteToken) -> tuple[list[tuple[int, Point]], dict[int, str]]:
    points: list[tuple[int, Point]] = []
    errors: dict[int, str] = {}
    for place, each in enumerate(found):
        if not place % CHECK_POINTS:
            token.check()
        try:
            points.append((place, parse_point(each)))
        except InvalidPoint as error:
            errors[place] = str(error)
    return points, errors


def _answer_each(
    found: list[object],
    points: list[tuple[int, Point]],
    errors: dict[int, str],
    write: Callable[[Sequence[TableRows]], WriteOutcome],
    *,
    is_detailed: bool,
) -> Response:
    errors = errors | write_what_fits(make_rows(points), write)[2]
    answer: dict[str, object] = {"success": len(found) - len(errors), "failed": len(errors)}
    if is_detailed:
        answer["errors"] = [{"datapoint": _echo(found[place]), "error": errors[place]} for place in sorted(errors)]
    return Response.json(answer)


def _echo(found: object) -> object:
    """A point as it came; null for what was nested too deep to be said again."""
    try:
        return orjson.Fragment(orjson.dumps(found))
    except orjson.JSONEncodeError:
        return None


def opentsdb_routes(app: HttpApp, gate: DatabaseGate) -> OpentsdbRoutes:
    """Add `/v1/opentsdb/api/…`. The result is to be closed after the server has stopped."""
    routes = OpentsdbRoutes(gate)
    app.add("/v1/opentsdb/api/put", routes.put, methods=("POST",), error_body=short_error_body)
    app.add("/v1/opentsdb/api/version", routes.version, methods=("GET", "POST"), error_body=short_error_body)
    return routes

"""`/v1/opentsdb/api/put`: points as JSON.

Without a flag a request is written as a whole or refused as a whole: 204, or an error. With `summary` or `details`
every point is judged alone: what fits is written, and the answer counts the others, or lists them with their reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tsdb import __version__
from tsdb.ingest import TableRows, WriteOutcome
from tsdb.ingest.opentsdb import NEW_TABLE, InvalidPoint, Point, make_rows, parse_body, parse_point
from tsdb.servers._partial_write import REFUSED, write_what_fits
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http._errors import short_error_body
from tsdb.servers.http._ingest import (
    IngestDatabase,
    IngestPool,
    dry_run_response,
    is_dry_run,
    make_ingest_session,
    read_hints,
    unpack_body,
)
from tsdb.servers.http._messages import Request, Response


class OpentsdbRoutes:
    """What the routes share. `close` it when the server has stopped."""

    def __init__(self, database: IngestDatabase) -> None:
        self._database = database
        self._pool = IngestPool("http-opentsdb")

    def close(self) -> None:
        self._pool.close()

    async def put(self, request: Request) -> Response:
        """Take points."""
        body = await request.body()
        return await self._pool.run(partial(self._put, request, body))

    async def version(self, request: Request) -> Response:
        """Answer which version this is; clients ask before they send."""
        return Response.json({"version": __version__, "short_revision": "", "repo": "tsdb"})

    def _put(self, request: Request, body: bytes) -> Response:
        found = parse_body(unpack_body(body, request.headers.get("content-encoding")))
        session, hints, dry_run = make_ingest_session(request, self._database), read_hints(request), is_dry_run(request)

        def write(rows: Sequence[TableRows]) -> WriteOutcome:
            return self._database.ingest(rows, session, NEW_TABLE, dry_run=dry_run, hints=hints)

        if dry_run:
            points = [_parse_at(place, each) for place, each in enumerate(found)]
            outcome, rejections, _ = write_what_fits(make_rows(enumerate(points)), write)
            return dry_run_response(replace(outcome, rejections=tuple(rejections)))
        if "summary" in request.query or "details" in request.query:
            return self._put_each(found, write, is_detailed="details" in request.query)
        points = [_parse_at(place, each) for place, each in enumerate(found)]
        write(make_rows(enumerate(points)))
        return Response(status=204)

    def _put_each(
        self, found: list[object], write: Callable[[Sequence[TableRows]], WriteOutcome], *, is_detailed: bool
    ) -> Response:
        points: list[tuple[int, Point]] = []
        errors: dict[int, str] = {}
        for place, each in enumerate(found):
            try:
                points.append((place, parse_point(each)))
            except InvalidPoint as error:
                errors[place] = str(error)
        rows = make_rows(points)
        REFUSED.labels("opentsdb").inc(len(errors))
        errors |= write_what_fits(rows, write)[2]
        answer: dict[str, object] = {"success": len(found) - len(errors), "failed": len(errors)}
        if is_detailed:
            answer["errors"] = [{"datapoint": found[place], "error": errors[place]} for place in sorted(errors)]
        return Response.json(answer)


def _parse_at(place: int, found: object) -> Point:
    try:
        return parse_point(found)
    except InvalidPoint as error:
        REFUSED.labels("opentsdb").inc()
        raise InvalidPoint(error.message, hint=error.hint, point=place) from None


def opentsdb_routes(app: HttpApp, database: IngestDatabase) -> OpentsdbRoutes:
    """Add `/v1/opentsdb/api/…`. The result is to be closed after the server has stopped."""
    routes = OpentsdbRoutes(database)
    app.add("/v1/opentsdb/api/put", routes.put, methods=("POST",), error_body=short_error_body)
    app.add("/v1/opentsdb/api/version", routes.version, methods=("GET", "POST"), error_body=short_error_body)
    return routes

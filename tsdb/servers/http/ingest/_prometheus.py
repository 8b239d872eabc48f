"""`/v1/prometheus/write` and `/v1/prometheus/read`: Prometheus remote write and remote read.

A request is one protobuf message, compressed as a snappy block or with zstd; the compression is detected, whatever the
header says. Remote write versions 1 and 2 are accepted; the response to version 2 has the number of samples written,
also when it is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from tsdb.clock import SystemClock
from tsdb.database import DatabaseGate, DatabasePort
from tsdb.engine.errors import RegionNotFound, SchemaOutdated
from tsdb.errors import Cancelled, InvalidArguments, TsdbError
from tsdb.ingest import Rejection, WriteOutcome
from tsdb.ingest.descriptions import DescriptionReader
from tsdb.ingest.prometheus import NEW_TABLE, SERIES_BYTES_MAX, RemoteWriteReader, Samples, unpack
from tsdb.ingest.prometheus_read import encode_read_response, parse_read_request
from tsdb.memory import MemoryOwner
from tsdb.query import Session, WriteToken
from tsdb.servers._scheduler import QueryScheduler
from tsdb.servers._steps import StepPool
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http._errors import error_response, short_error_body
from tsdb.servers.http.ingest._dry_run import dry_run_response, is_dry_run
from tsdb.servers.http.ingest._gather import Begun, Gathering
from tsdb.servers.http.ingest._request import (
    GATHERED_BYTES_MAX,
    GROUPS_AT_ONCE,
    UNPACKED_BYTES_MAX,
    IngestPool,
    gathering_key,
    make_ingest_session,
    read_hints,
)
from tsdb.servers.http.wire import Request, Response

PROTOCOL = "prometheus"
READS_AT_ONCE_MAX = 8
"""How many remote reads run at the same time; further ones wait."""

_PROTOBUF = "application/x-protobuf"
_VERSIONS = {"prometheus.WriteRequest": 1, "io.prometheus.write.v2.Request": 2}
_WRITTEN = "x-prometheus-remote-write-{}-written"


class PrometheusRemoteRoutes:
    """The state of the routes. `close` it when the server has stopped."""

    def __init__(
        self,
        gate: DatabaseGate,
        *,
        has_metric_engine: bool,
        is_strict: bool,
        series_bytes_max: int,
        scheduler: QueryScheduler,
    ) -> None:
        self._gate = gate
        self._new_table = replace(NEW_TABLE, is_metric=has_metric_engine)
        self._reader = RemoteWriteReader(is_strict=is_strict, series_bytes_max=series_bytes_max)
        self._descriptions = DescriptionReader(SystemClock())
        self._pool = IngestPool("http-prometheus")
        self._reads = StepPool("http-prometheus-read", READS_AT_ONCE_MAX, scheduler=scheduler)
        self._gathering = Gathering(
            "http-prometheus-write", self._write_group, self._write_again, threads=GROUPS_AT_ONCE
        )

    @property
    def memory(self) -> MemoryOwner:
        """What is kept of series between requests."""
        return self._reader

    @property
    def _database(self) -> DatabasePort:
        return self._gate.database

    def close(self) -> None:
        self._gathering.close()
        self._pool.close()
        self._reads.close()

    async def write(self, request: Request) -> Response:
        """Take samples."""
        if "get_vm_proto_version" in request.query:
            # Agents of VictoriaMetrics ask this before they send zstd.
            return Response.text("1")
        version = _find_version(request)
        if version is None or (version == 2 and not _is_known_encoding(request)):
            return _unsupported_media_type()
        body = await request.body()
        if version == 1 and len(body) <= GATHERED_BYTES_MAX and not is_dry_run(request):
            request.token = token = WriteToken()
            return await self._gathering.run(gathering_key(request), (request, body), len(body), token)
        return await self._pool.write(request, partial(self._write, request, body, version))

    async def read(self, request: Request) -> Response:
        """Answer with samples."""
        body = await request.body()
        return await self._reads.run(partial(self._read, request, body), seconds_max=request.seconds_max)

    def _write(self, request: Request, body: bytes, version: int) -> Response:
        try:
            outcome, histograms = self._take(request, body, version)
        except TsdbError as error:
            if version == 1:
                raise
            response = error_response(error, 0, short_error_body)
            response.raw_headers += Response(headers=_written_headers(0, 0)).raw_headers
            return response
        if is_dry_run(request):
            return dry_run_response(outcome)
        headers = _written_headers(outcome.rows - histograms, histograms) if version == 2 else ()
        return Response(status=204, headers=headers)

    def _write_group(self, group: Sequence[tuple[Request, bytes]]) -> list[Response | Exception] | Begun[Response]:
        """Write requests that say the same beside their samples, as one if that goes well."""
        samples = self._read_group(group)
        if samples is None:
            return self._write_each(group)
        if not samples.metadata:
            request, token = group[0][0], _shared_token(group)
            try:
                done = self._database.begin_samples(
                    samples, self._session(request, token), self._new_table, hints=_hints(request), protocol=PROTOCOL
                )
            except Cancelled:
                # Some requests were cancelled: the others are written without them.
                return self._write_each(group)
            if done is not None:
                return Begun(done, [Response(status=204) for _ in group])
        return self._write_samples(group, samples)

    def _write_again(self, group: Sequence[tuple[Request, bytes]], error: Exception) -> Sequence[Response | Exception]:
        """Write requests whose tables are not what they were when their samples were sent."""
        samples = self._read_group(group) if isinstance(error, SchemaOutdated | RegionNotFound) else None
        return [error] * len(group) if samples is None else self._write_samples(group, samples)

    def _write_samples(self, group: Sequence[tuple[Request, bytes]], samples: Samples) -> list[Response | Exception]:
        request, token = group[0][0], _shared_token(group)
        try:
            self._ingest(request, samples, self._session(request, token), version=1, is_alone=len(group) == 1)
            return [Response(status=204) for _ in group]
        except TsdbError as error:
            # If their content is refused, nothing is written yet, and each request gets its own error.
            is_unwritten = isinstance(error, InvalidArguments) or (isinstance(error, Cancelled) and not token.has_begun)
            if len(group) == 1 or not is_unwritten:
                return [error] * len(group)
        return self._write_each(group)

    def _write_each(self, group: Sequence[tuple[Request, bytes]]) -> list[Response | Exception]:
        return [self._try_write(request, body) for request, body in group]

    def _try_write(self, request: Request, body: bytes) -> Response | Exception:
        try:
            return self._write(request, body, 1)
        except TsdbError as error:
            return error

    def _read_group(self, group: Sequence[tuple[Request, bytes]]) -> Samples | None:
        """Return the samples of requests as they mostly are; None if they have to be looked at one by one."""
        if _is_zstd(group[0][0]):
            return None
        return self._reader.read_packed([body for _, body in group], bytes_max=UNPACKED_BYTES_MAX)

    def _session(self, request: Request, token: WriteToken | None = None) -> Session:
        return make_ingest_session(request, self._database, prefers_parameter=True, token=token)

    def _take(self, request: Request, body: bytes, version: int) -> tuple[WriteOutcome, int]:
        """Write what a request has; what that did, and how many of the rows are native histograms."""
        session = self._session(request)
        try:
            message = unpack(body, request.headers.get("content-encoding"), bytes_max=UNPACKED_BYTES_MAX)
            samples = self._reader.read(message, version=version)
        except InvalidArguments as error:
            self._database.reject([Rejection("", str(error), kind="syntax")], session, protocol=PROTOCOL)
            raise
        return self._ingest(request, samples, session, version=version), samples.histogram_count

    def _ingest(
        self, request: Request, samples: Samples, session: Session, *, version: int, is_alone: bool = True
    ) -> WriteOutcome:
        is_dry = is_dry_run(request)
        outcome = self._database.ingest_samples(
            samples,
            session,
            self._new_table,
            dry_run=is_dry,
            hints=_hints(request),
            protocol=PROTOCOL,
            notes_rejections=is_alone,
        )
        if not is_dry:
            self._database.describe_metrics(self._descriptions.read(samples, version=version), session)
        return outcome

    def _read(self, request: Request, body: bytes) -> Response:
        session = self._session(request)
        message = unpack(body, request.headers.get("content-encoding"), bytes_max=UNPACKED_BYTES_MAX)
        results = self._database.read_remote(parse_read_request(message), session)
        packed = pa.compress(encode_read_response(results), codec="snappy", asbytes=True)
        return Response(packed, content_type=_PROTOBUF, headers=[("content-encoding", "snappy")])


def prometheus_remote_routes(
    app: HttpApp,
    gate: DatabaseGate,
    *,
    has_metric_engine: bool = True,
    is_strict: bool = True,
    series_bytes_max: int = SERIES_BYTES_MAX,
    scheduler: QueryScheduler | None = None,
) -> PrometheusRemoteRoutes:
    """Add `/v1/prometheus/write` and `/read`. The result is to be closed after the server has stopped."""
    routes = PrometheusRemoteRoutes(
        gate,
        has_metric_engine=has_metric_engine,
        is_strict=is_strict,
        series_bytes_max=series_bytes_max,
        scheduler=scheduler or QueryScheduler(),
    )
    app.add("/v1/prometheus/write", routes.write, methods=("POST",), error_body=short_error_body, timeout_status=504)
    app.add("/v1/prometheus/read", routes.read, methods=("POST",), error_body=short_error_body)
    return routes


def _shared_token(group: Sequence[tuple[Request, bytes]]) -> WriteToken:
    return WriteToken.shared([request.token or WriteToken() for request, _ in group])


def _find_version(request: Request) -> int | None:
    """Which version of remote write the Content-Type names: 1 if there is none; None if it names something else."""
    said = request.headers.get("content-type")
    if said is None or said == _PROTOBUF or not said.strip():
        return 1
    kind, *parameters = (part.strip() for part in said.split(";"))
    if kind.lower() != _PROTOBUF:
        return None
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "proto":
            return _VERSIONS.get(value.strip().strip('"'))
    return 1


def _hints(request: Request) -> dict[str, str]:
    hints = read_hints(request)
    physical = request.query.get("physical_table")
    if physical:
        hints["physical_table"] = physical
    return hints


def _is_zstd(request: Request) -> bool:
    return b"zstd" in request.raw_headers.get(b"content-encoding", b"").lower()


def _is_known_encoding(request: Request) -> bool:
    said = (request.headers.get("content-encoding") or "snappy").strip().lower()
    return said in ("snappy", "zstd")


def _unsupported_media_type() -> Response:
    kinds = ", ".join(f"{_PROTOBUF};proto={name}" for name in _VERSIONS)
    return Response.json(
        {"error": f"the Content-Type must be one of {kinds}, and version 2 be compressed with snappy or zstd"},
        status=415,
    )


def _written_headers(samples: int, histograms: int) -> list[tuple[str, str]]:
    counts = (("samples", samples), ("histograms", histograms), ("exemplars", 0))
    return [(_WRITTEN.format(what), str(count)) for what, count in counts]

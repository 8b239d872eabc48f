"""Common to the ingestion endpoints: database, hints, decompression.

The work of a write (decompressing, parsing, writing) runs on a bounded pool of threads, never on the event loop.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from tsdb.database import DatabasePort, resolve_database
from tsdb.errors import BodyTooLarge, InvalidArguments
from tsdb.model import DEFAULT_DATABASE
from tsdb.query import Channel, Session, WriteToken
from tsdb.servers._settle import SETTLE_SECONDS_MAX
from tsdb.servers._steps import StepPool
from tsdb.servers.http.wire import Request, find_header

INGEST_THREADS_MAX = 8
"""How many requests of one protocol are parsed or written at the same time; further ones wait."""
GROUPS_AT_ONCE_MAX = 2
GROUPS_AT_ONCE = max(1, min(GROUPS_AT_ONCE_MAX, (os.cpu_count() or 1) // 2))
"""How many groups of small requests of one protocol are worked on at the same time.

Two that share two cores with the rest of the server take turns at both, and are slower than one with larger groups; so
is reading a group while another one is written.
"""
GATHERED_BYTES_MAX = 256 << 10
"""Requests up to this size are small."""
UNPACKED_BYTES_MAX = 256 << 20
"""How large a compressed body may become."""

_MEANINGFUL = frozenset({b"content-encoding", b"content-type", b"authorization"})
_OWN_PREFIXES = (b"x-tsdb-", b"x-greptime-")
_HINTS = (
    *("auto_create_table", "ttl", "append_mode", "merge_mode", "physical_table", "skip_wal", "read_preference"),
    "trace_table_partitions",
)
_PIECE_BYTES = 1 << 20
_STREAMED = {"zstd": "zstd", "br": "brotli"}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class IngestTuning:
    """Limits of write requests; tests pass smaller ones."""

    unpacked_bytes_max: int = UNPACKED_BYTES_MAX
    settle_seconds_max: float = SETTLE_SECONDS_MAX
    """How long an interrupted write is waited for."""


INGEST = IngestTuning()


class IngestPool(StepPool):
    """The threads of one protocol."""

    def __init__(self, name: str, tuning: IngestTuning = INGEST) -> None:
        super().__init__(name, INGEST_THREADS_MAX, settle_seconds_max=tuning.settle_seconds_max)

    async def write(self, request: Request, work: Callable[[], _T]) -> _T:
        """Run work that writes for a request; see `settle` for what happens when that is interrupted."""
        request.token = token = WriteToken()
        return await self.run(work, token=token)


def make_ingest_session(
    request: Request,
    database: DatabasePort,
    named: str | None = None,
    *,
    prefers_parameter: bool = False,
    token: WriteToken | None = None,
) -> Session:
    """The header names the database, else what the protocol `named`, the parameter `db`, or it is the default one.

    With `prefers_parameter` the parameter wins over the header, as it does on all paths of SQL and of Prometheus.
    """
    header, parameter = find_header(request, "db-name"), request.query.get("db")
    in_order = (parameter, header) if prefers_parameter else (header, named, parameter)
    wanted = next((each for each in in_order if each), DEFAULT_DATABASE)
    return Session(
        channel=Channel.HTTP,
        database=resolve_database(wanted, database),
        user=request.user,
        identity=request.identity,
        client=request.client_host or "",
        token=token or request.token,
    )


def read_hints(request: Request) -> dict[str, str]:
    """Read `k=v,k=v`; without that header, the older ones of one hint each."""
    if not any(name.startswith(_OWN_PREFIXES) for name in request.raw_headers):
        return {}
    said = find_header(request, "hints")
    if said is None:
        found = {name: find_header(request, f"hint-{name}") for name in _HINTS}
        return {name: value.strip() for name, value in found.items() if value is not None}
    hints = {}
    for pair in said.split(","):
        name, equals, value = pair.partition("=")
        if equals and name.strip():
            hints[name.strip()] = value.strip()
    return hints


def gathering_key(request: Request) -> Hashable:
    """Return the key of requests that may be written as one: everything but their rows."""
    said = [
        (name, value)
        for name, value in request.raw_headers.items()
        if name in _MEANINGFUL or name.startswith(_OWN_PREFIXES)
    ]
    return request.path, request.raw_query, tuple(said)


def unpack_body(body: bytes, encoding: str | None, bytes_max: int = UNPACKED_BYTES_MAX) -> bytes:
    """Undo the Content-Encoding, up to `bytes_max`. Unknown encodings are left as they are."""
    name = (encoding or "").strip().lower()
    if name in ("gzip", "x-gzip"):
        return _inflate(body, 31, bytes_max)
    if name == "deflate":
        return _inflate(body, 15, bytes_max)
    if name in _STREAMED:
        return _read_stream(body, _STREAMED[name], bytes_max)
    return body


def _inflate(body: bytes, window: int, bytes_max: int) -> bytes:
    unpacked, rest = bytearray(), body
    while rest:
        inflater = zlib.decompressobj(window)
        try:
            unpacked += inflater.decompress(rest, bytes_max + 1 - len(unpacked))
        except zlib.error as error:
            raise InvalidArguments(f"the body cannot be decompressed: {error}") from None
        if len(unpacked) > bytes_max:
            raise BodyTooLarge(limit_bytes=bytes_max)
        if not inflater.eof:
            raise InvalidArguments("the body cannot be decompressed: it ends too early")
        rest = inflater.unused_data
    return bytes(unpacked)


def _read_stream(body: bytes, codec: str, bytes_max: int) -> bytes:
    unpacked = bytearray()
    try:
        with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
            while piece := stream.read(_PIECE_BYTES):
                unpacked += piece
                if len(unpacked) > bytes_max:
                    raise BodyTooLarge(limit_bytes=bytes_max)
    except OSError as error:
        raise InvalidArguments(f"the body cannot be decompressed: {error}") from None
    return bytes(unpacked)

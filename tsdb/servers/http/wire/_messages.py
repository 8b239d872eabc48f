"""The arguments and results of handlers: `Request`, `Response`, `StreamingResponse`.

A request is cheap to create: headers, query parameters and body are parsed on demand. Its body is never larger than the
limit, whether the client declared its length or not.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    MutableMapping,
)
from functools import lru_cache
from typing import Any, TypeAlias

import orjson

from tsdb._kernels import LimitExceeded, MalformedInput, parse_form
from tsdb.auth import Identity
from tsdb.errors import BodyTooLarge, InvalidArguments
from tsdb.query import WriteToken
from tsdb.servers.http.wire._bodies import SMALL_BYTES_MAX, UNPACKED_FACTOR, BodyMemory

_LARGE_DIGITS = len(str(SMALL_BYTES_MAX))

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

PARAMS_MAX = 10_000
"""How many parameters one query string or form may have."""

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete."""


CERTIFICATE_NAME = "tsdb.certificate_name"
"""In a scope, where it counts: the name that the certificate of the client is in, None if it has none."""
IS_ALONE = "tsdb.is_alone"
"""In a scope: whether no other connection has begun a request recently."""
BEGUN = "tsdb.begun"
"""In a scope: when the request came, on the clock `perf_counter`, if that was not just now."""


class Headers:
    """The headers of a request, by name in any case."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = raw

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the first header of that name."""
        wanted = name.lower().encode("latin-1")
        for key, value in self._raw:
            if key == wanted:
                return value.decode("latin-1")
        return default

    def get_all(self, name: str) -> list[str]:
        wanted = name.lower().encode("latin-1")
        return [value.decode("latin-1") for key, value in self._raw if key == wanted]

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((key.decode("latin-1"), value.decode("latin-1")) for key, value in self._raw)


class Params:
    """Parameters of a query string or of a form; a name may come several times."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    @classmethod
    def parse(cls, encoded: bytes) -> Params:
        """Read `a=1&b=2&a=3`."""
        try:
            return cls(parse_form(encoded, PARAMS_MAX))
        except LimitExceeded as error:
            raise InvalidArguments(f"there are more than {PARAMS_MAX} parameters") from error
        except MalformedInput as error:
            raise InvalidArguments("the parameters are not valid UTF-8") from error

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the first value of that name."""
        for key, value in self._pairs:
            if key == name:
                return value
        return default

    def get_all(self, name: str) -> list[str]:
        return [value for key, value in self._pairs if key == name]

    def __contains__(self, name: str) -> bool:
        return any(key == name for key, _ in self._pairs)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)


_NO_PARAMS = Params([])


class Request:
    """One request. Its body is taken whole (`body`, again and again) or in pieces (`stream`, once)."""

    __slots__ = (
        "_bodies",
        "_body",
        "_body_limit",
        "_has_streamed",
        "_headers",
        "_is_body_complete",
        "_query",
        "_receive",
        "_received_bytes",
        "_reserved_bytes",
        "_scope",
        "identity",
        "method",
        "path",
        "raw_headers",
        "seconds_max",
        "token",
    )

    def __init__(self, scope: Scope, receive: Receive, *, body_limit: int, bodies: BodyMemory | None = None) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        # By name in lower case, the last one of a name: for what the server itself looks up in every request.
        self.raw_headers: dict[bytes, bytes] = dict(scope["headers"])
        self.identity: Identity | None = None
        self.token: WriteToken | None = None
        """Stops what the request writes, and knows how far it got; None if it writes nothing."""
        self.seconds_max: float | None = None
        """The timeout of the request, None without one."""
        self._scope = scope
        self._receive = receive
        self._body_limit = body_limit
        self._bodies = bodies
        self._received_bytes = 0
        self._reserved_bytes = 0
        self._body: bytes | None = None
        self._has_streamed = False
        # HTTP/1.1 announces every body; what announces none has none, and nothing needs to be read.
        self._is_body_complete = _announces_nothing(self.raw_headers)
        self._headers: Headers | None = None
        self._query: Params | None = None

    @property
    def is_alone(self) -> bool:
        """Whether no other connection has begun a request recently."""
        return bool(self._scope.get(IS_ALONE, True))

    @property
    def is_handed_on(self) -> bool:
        """Whether the shortcut had it first, and has used some of its time."""
        return BEGUN in self._scope

    @property
    def headers(self) -> Headers:
        if self._headers is None:
            self._headers = Headers(self._scope["headers"])
        return self._headers

    @property
    def query(self) -> Params:
        if self._query is None:
            encoded = self._scope["query_string"]
            self._query = Params.parse(encoded) if encoded else _NO_PARAMS
        return self._query

    @property
    def raw_query(self) -> bytes:
        """The query string as it was sent."""
        query: bytes = self._scope["query_string"]
        return query

    @property
    def client_host(self) -> str | None:
        """The address of the peer, without its port."""
        client = self._scope.get("client")
        return client[0] if client else None

    def is_certified(self, user: str) -> bool:
        """Whether the certificate of the client is in the name of a user, or need not be."""
        return CERTIFICATE_NAME not in self._scope or self._scope[CERTIFICATE_NAME] == user

    @property
    def user(self) -> str | None:
        """The name of the user; None if authentication is off."""
        return None if self.identity is None else self.identity.name

    @property
    def is_body_complete(self) -> bool:
        """Whether nothing more of the body will come: all of it was taken, or its sender has gone."""
        return self._is_body_complete

    def check_declared_length(self) -> None:
        """Refuse a body that is declared over the limit, before a byte of it is read."""
        declared = self.raw_headers.get(b"content-length")
        if declared is None or not self._body_limit:
            return
        if not declared.isdigit():
            raise InvalidArguments(f"the header Content-Length is not a number: {declared.decode('latin-1')!r}")
        if int(declared) > self._body_limit:
            raise BodyTooLarge(limit_bytes=self._body_limit)

    @property
    def has_large_body(self) -> bool:
        """Whether a length is declared for which there must be memory."""
        return len(self.raw_headers.get(b"content-length", b"")) >= _LARGE_DIGITS

    async def reserve_body(self) -> None:
        """Wait until there is memory for a large body."""
        declared = self.raw_headers.get(b"content-length", b"")
        if self._bodies is None or not declared.isdigit() or int(declared) <= SMALL_BYTES_MAX:
            return
        is_packed = b"content-encoding" in self.raw_headers
        size = int(declared) * (UNPACKED_FACTOR if is_packed else 1)
        await self._bodies.reserve(size)
        self._reserved_bytes = size

    def release_body(self) -> None:
        """Give back the memory of the body."""
        if self._reserved_bytes and self._bodies is not None:
            self._bodies.give_back(self._reserved_bytes)
            self._reserved_bytes = 0

    async def body(self) -> bytes:
        """Return the whole body."""
        if self._body is None:
            self._take()
            chunks = []
            while not self._is_body_complete:
                chunks.append(await self._receive_chunk())
                self._note_received()
            self._body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        return self._body

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, so that a large one is never in memory at once."""
        self._take()
        while not self._is_body_complete:
            if chunk := await self._receive_chunk():
                yield chunk

    async def discard_body(self) -> None:
        """Read and discard the rest of the body, unless the client waits for 100 Continue."""
        if b"expect" in self.raw_headers and not self._received_bytes:
            return
        while not self._is_body_complete:
            message = await self._receive()
            self._is_body_complete = message["type"] == "http.disconnect" or not message.get("more_body", False)

    async def wait_disconnected(self) -> None:
        """Return when the client has disconnected. Only after the body is complete: until then, reading it fails."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def _note_received(self) -> None:
        """Take memory for what has come of a body whose length was not declared."""
        more = self._received_bytes - self._reserved_bytes
        if self._bodies is None or more <= SMALL_BYTES_MAX or b"content-length" in self.raw_headers:
            return
        self._bodies.reserve_now(more, self._reserved_bytes)
        self._reserved_bytes += more

    def _take(self) -> None:
        if self._has_streamed:
            raise RuntimeError("the body of this request was already taken with stream()")
        self._has_streamed = True

    async def _receive_chunk(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._is_body_complete = True
            raise ClientDisconnected
        chunk: bytes = message.get("body", b"")
        self._received_bytes += len(chunk)
        if self._body_limit and self._received_bytes > self._body_limit:
            raise BodyTooLarge(limit_bytes=self._body_limit)
        self._is_body_complete = not message.get("more_body", False)
        return chunk


def _announces_nothing(headers: dict[bytes, bytes]) -> bool:
    """Return whether the headers say that there is no body."""
    return b"transfer-encoding" not in headers and headers.get(b"content-length", b"0") == b"0"


class Response:
    """An answer that is complete before it is sent."""

    __slots__ = ("body", "is_packed", "raw_headers", "status")

    def __init__(
        self,
        body: bytes = b"",
        *,
        status: int = 200,
        content_type: str | None = None,
        headers: Iterable[tuple[str, str]] = (),
        is_packed: bool = False,
    ) -> None:
        """`is_packed` says that the body is compressed in its own format."""
        self.body = body
        self.status = status
        self.is_packed = is_packed
        self.raw_headers = _encode_headers(content_type, headers)

    @classmethod
    def text(cls, text: str, *, status: int = 200, headers: Iterable[tuple[str, str]] = ()) -> Response:
        return cls(text.encode(), status=status, content_type=TEXT, headers=headers)

    @classmethod
    def json(cls, value: object, *, status: int = 200, headers: Iterable[tuple[str, str]] = ()) -> Response:
        return cls(orjson.dumps(value), status=status, content_type=JSON, headers=headers)


class StreamingResponse:
    """An answer that is sent while it is made, at the speed at which the client reads.

    The headers go out with the first chunk, so an error before it is still answered as an error. One after it
    cuts the connection, which the client sees as an incomplete answer. The iterator is closed in any case,
    also when the client goes away.
    """

    __slots__ = ("chunks", "is_packed", "raw_headers", "status")

    def __init__(
        self,
        chunks: AsyncIterable[bytes],
        *,
        status: int = 200,
        content_type: str | None = None,
        headers: Iterable[tuple[str, str]] = (),
        is_packed: bool = False,
    ) -> None:
        """`is_packed` says that the body is compressed in its own format."""
        self.chunks = chunks
        self.status = status
        self.is_packed = is_packed
        self.raw_headers = _encode_headers(content_type, headers)


AnyResponse: TypeAlias = Response | StreamingResponse


async def close_chunks(chunks: AsyncIterator[bytes]) -> None:
    """Close an iterator that can be closed."""
    aclose = getattr(chunks, "aclose", None)
    if aclose is not None:
        await aclose()


def _encode_headers(content_type: str | None, headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    if content_type is not None:
        raw.append(_content_type_header(content_type))
    return raw


@lru_cache(64)
def _content_type_header(content_type: str) -> tuple[bytes, bytes]:
    return b"content-type", content_type.encode("latin-1")


def find_header(request: Request, name: str) -> str | None:
    """Return a header of the product, under its own name or the one of the system whose clients we serve."""
    return request.headers.get(f"x-tsdb-{name}") or request.headers.get(f"x-greptime-{name}")

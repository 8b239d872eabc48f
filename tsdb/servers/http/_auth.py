"""Authentication of requests: credentials in headers, or in the query string as InfluxDB clients send them.

    x-tsdb-auth, x-greptime-auth, Authorization     Basic base64(user:password); the first one present counts
    paths of InfluxDB: Authorization                Token user:password, Bearer user:password, or Basic
                       ?u=user&p=password           without a header

Every path requires them, except those that clients use to find out whether there is a server, and the operational ones
in `http.public_endpoints`. They are checked before the body is read. A password that was correct before is accepted at
once; others are checked on separate threads, because some secret formats are slow by design. With `http.tls.mode =
verify_full`, the client certificate must also name the user.
"""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import NamedTuple

from tsdb.auth import (
    Authenticator,
    AuthError,
    AuthHeaderMissing,
    BlankCredentials,
    Identity,
    InvalidAuthHeader,
    PasswordMismatch,
    UnsupportedPassword,
)
from tsdb.errors import Status, wire
from tsdb.servers._steps import StepPool
from tsdb.servers.http._errors import error_response, full_error_body
from tsdb.servers.http.wire import Request, Response

AUTH_THREADS_MAX = 2
"""How many passwords are checked concurrently, so that guessing cannot use all cores."""

OPEN_PREFIXES = (
    "/v1/health",
    "/v1/influxdb/ping",
    "/v1/influxdb/health",
    "/v1/splunk/services/collector/health",
    "/dashboard",
)
"""Endpoints without login."""
PUBLIC_ENDPOINTS = ("/", "/health", "/ready", "/status", "/metrics")
"""Further endpoints without login, by default."""
ADMIN_PREFIXES = ("/config", "/debug/")
"""Endpoints for administrators, unless they are public."""

_HEADERS = (b"x-tsdb-auth", b"x-greptime-auth", b"authorization")
_UNAUTHORIZED = 401


class _Credentials(NamedTuple):
    user: str
    password: str


class HttpAuth:
    """Checks requests. `close` it when the server has stopped."""

    def __init__(self, authenticator: Authenticator, public: frozenset[str] = frozenset(PUBLIC_ENDPOINTS)) -> None:
        self._authenticator = authenticator
        self._public = public
        self._pool = StepPool("http-auth", AUTH_THREADS_MAX)

    def close(self) -> None:
        self._pool.close()

    async def identify(self, request: Request) -> Identity | None:
        """Return the user of a request, None if it needs none; AuthError if authentication fails."""
        if not self._authenticator.is_enabled or not is_protected(request.path, self._public):
            return None
        user, password = read_credentials(request)
        if not user or not password:
            raise BlankCredentials
        if not request.is_certified(user):
            raise PasswordMismatch(user)
        client = request.client_host or ""
        known = self._authenticator.recall_password(user, password, client=client)
        if known is not None:
            return known
        check = partial(self._authenticator.check_password, user, password, client=client)
        return await self._pool.run(check)


def check_rights(request: Request) -> None:
    """Refuse what only administrators may ask; PermissionDenied."""
    if request.identity is not None and request.path.startswith(ADMIN_PREFIXES):
        request.identity.check_admin()


def is_protected(path: str, public: frozenset[str]) -> bool:
    return path not in public and not path.startswith(OPEN_PREFIXES)


def auth_error_response(error: AuthError, elapsed_ms: int) -> Response:
    """The response to a failed login: 401, or 429 after too many."""
    response = error_response(error, elapsed_ms, full_error_body)
    if error.status is Status.RATE_LIMITED:
        seconds = getattr(error, "retry_after_seconds", 1)
        response.raw_headers.append((b"retry-after", str(seconds).encode("ascii")))
        response.status = wire(error.status).http
        return response
    response.status = _UNAUTHORIZED
    response.raw_headers.append((b"www-authenticate", b'Basic realm="tsdb", charset="UTF-8"'))
    return response


def read_credentials(request: Request) -> _Credentials:
    """Return user and password; AuthHeaderMissing if there are none, InvalidAuthHeader if they cannot be read."""
    if "influxdb" in request.path:
        return _read_influx(request)
    for name in _HEADERS:
        value = request.raw_headers.get(name)
        if value is not None:
            return _read_header(value, takes_token=False)
    raise AuthHeaderMissing("the request has no credentials", hint="send Authorization: Basic …")


def _read_influx(request: Request) -> _Credentials:
    value = request.raw_headers.get(b"authorization")
    if value is not None:
        return _read_header(value, takes_token=True)
    user, password = request.query.get("u"), request.query.get("p")
    if user is None and password is None:
        raise AuthHeaderMissing(
            "the request has no credentials", hint="send Authorization: Token user:password, or the parameters u and p"
        )
    if user is None or password is None:
        raise InvalidAuthHeader("of the parameters u and p only one is there", hint="send both")
    return _Credentials(user, password)


def _read_header(value: bytes, *, takes_token: bool) -> _Credentials:
    scheme, _, rest = value.strip().partition(b" ")
    kind, rest = scheme.lower(), rest.strip()
    if kind == b"basic":
        return _split(_decode(rest))
    if takes_token and (kind == b"token" or (kind == b"bearer" and b":" in rest)):
        return _split(rest)
    if kind == b"bearer":
        raise UnsupportedPassword("users of this server have passwords, not bearer tokens", hint="send Basic")
    raise InvalidAuthHeader("the scheme of the credentials is not supported", hint="send Authorization: Basic …")


def _decode(encoded: bytes) -> bytes:
    try:
        # Some clients leave the padding out.
        return base64.b64decode(encoded + b"=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidAuthHeader("the credentials are not in base64") from None


def _split(pair: bytes) -> _Credentials:
    user, colon, password = pair.partition(b":")
    if not colon:
        raise InvalidAuthHeader("expected user:password in the credentials")
    try:
        return _Credentials(user.decode("utf-8"), password.decode("utf-8"))
    except UnicodeDecodeError:
        raise InvalidAuthHeader("the credentials are not in UTF-8") from None

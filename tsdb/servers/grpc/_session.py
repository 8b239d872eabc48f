"""The session of a call: user, database, time zone.

Credentials, the first ones present:

    RequestHeader.authorization                     in the messages of `greptime.v1`
    x-tsdb-auth, x-greptime-auth, authorization     metadata: Basic base64(user:password), Bearer user:password, or
                                                    Bearer with a token issued by this server

Database: `dbname` of the header, its catalog and schema, the metadata `x-tsdb-db-name`; else `public`. A name with a
dash is a catalog and a database, unless a database has that whole name.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tsdb.auth import (
    Authenticator,
    AuthHeaderMissing,
    BlankCredentials,
    Identity,
    InvalidAuthHeader,
    PasswordMismatch,
    UnsupportedPassword,
)
from tsdb.config import TlsMode
from tsdb.database import DatabasePort, resolve_database
from tsdb.errors import InvalidArguments
from tsdb.model import CATALOG, CATALOG_NAMES, DEFAULT_DATABASE, InvalidTimeZone, canonical_zone
from tsdb.query import Channel, Session, WriteToken
from tsdb.servers._steps import StepPool
from tsdb.servers._tls import Tls
from tsdb.servers.grpc._calls import GrpcCall
from tsdb.servers.grpc.proto.greptime_pb2 import AuthHeader, RequestHeader
from tsdb.units import Duration

AUTH_THREADS_MAX = 2
"""How many passwords are checked concurrently, so that guessing cannot use all cores."""

_AUTH_KEYS = ("x-tsdb-auth", "x-greptime-auth", "authorization")

FindToken = Callable[[str], Identity | None]


class Credentials(NamedTuple):
    """The credentials of a client."""

    user: str
    password: str


class Sessions:
    """Makes the sessions of calls. `close` it when the server has stopped."""

    def __init__(
        self,
        database: DatabasePort,
        authenticator: Authenticator | None = None,
        *,
        tls: Tls | None = None,
        default_timezone: str = "UTC",
    ) -> None:
        self._database = database
        self._authenticator = authenticator or Authenticator()
        self._tls = tls or Tls(TlsMode.DISABLE)
        self._default_zone = canonical_zone(default_timezone)
        self._find_token: FindToken | None = None
        self._pool = StepPool("grpc-auth", AUTH_THREADS_MAX)

    def close(self) -> None:
        self._pool.close()

    def accept_tokens(self, find: FindToken) -> None:
        """Accept `Bearer` tokens; `find` returns the owner without blocking, None if the token is invalid."""
        self._find_token = find

    async def open(self, call: GrpcCall, header: RequestHeader | None = None) -> Session:
        """Return the session of a call; AuthError if who sent it is not proved."""
        identity = await self.identify(call, header)
        left = call.seconds_left
        return Session(
            channel=Channel.GRPC,
            database=self._choose_database(call, header),
            time_zone=self._choose_zone(call, header),
            user=None if identity is None else identity.name,
            identity=identity,
            client=call.client,
            timeout=None if left is None else Duration(max(1, round(left * 1e9))),
            token=WriteToken(),
        )

    async def identify(self, call: GrpcCall, header: RequestHeader | None = None) -> Identity | None:
        """Return the user of a call; None if it has none and needs none. AuthError if authentication fails."""
        found = self._read_credentials(call, header)
        if found is None:
            if self._authenticator.is_enabled:
                raise AuthHeaderMissing("the request has no credentials", hint="send authorization: Basic …")
            return None
        if isinstance(found, Identity):
            return self._authenticator.refresh(found)
        return await self.check(call, found)

    async def check(self, call: GrpcCall, credentials: Credentials) -> Identity:
        """Check a user and a password."""
        user, password = credentials
        if self._authenticator.is_enabled and (not user or not password):
            raise BlankCredentials
        if self._tls.verifies_user and _common_name(call) != user:
            raise PasswordMismatch(user)
        known = self._authenticator.recall_password(user, password, client=call.client)
        if known is not None:
            return known
        check = partial(self._authenticator.check_password, user, password, client=call.client)
        return await self._pool.run(check)

    def _read_credentials(self, call: GrpcCall, header: RequestHeader | None) -> Credentials | Identity | None:
        if header is not None and header.HasField("authorization"):
            return _read_auth_header(header.authorization)
        for key in _AUTH_KEYS:
            value = call.metadata.get(key)
            if value is not None:
                return self._read_metadata(value)
        return None

    def _read_metadata(self, value: str | bytes) -> Credentials | Identity | None:
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        scheme, _, rest = text.strip().partition(" ")
        kind, rest = scheme.lower(), rest.strip()
        if kind == "basic":
            return parse_basic(rest)
        if kind == "bearer":
            return self._read_token(rest)
        if not self._authenticator.is_enabled:
            return None
        raise InvalidAuthHeader("the scheme of the credentials is not supported", hint="send authorization: Basic …")

    def _read_token(self, token: str) -> Credentials | Identity | None:
        found = None if self._find_token is None else self._find_token(token)
        if found is None and self._authenticator.is_enabled:
            user, colon, password = token.partition(":")
            if colon:
                # Clients of InfluxDB have a token and nothing else: it is user:password here.
                return Credentials(user, password)
            raise UnsupportedPassword("the bearer token is not one of this server, or has expired", hint="log in anew")
        return found

    def _choose_database(self, call: GrpcCall, header: RequestHeader | None) -> str:
        if header is not None and not header.dbname and header.schema:
            if header.catalog and header.catalog not in CATALOG_NAMES:
                raise InvalidArguments(f"no catalog {header.catalog!r}", hint=f"the catalog is {CATALOG}")
            return header.schema
        wanted = (header.dbname if header is not None else "") or call.find("db-name") or DEFAULT_DATABASE
        return resolve_database(wanted, self._database)

    def _choose_zone(self, call: GrpcCall, header: RequestHeader | None) -> str:
        said = (header.timezone if header is not None else "") or call.find("timezone")
        if not said:
            return self._default_zone
        try:
            return canonical_zone(said)
        except InvalidTimeZone as error:
            raise InvalidArguments(str(error)) from None


def parse_basic(encoded: str) -> Credentials:
    """Parse base64(user:password); InvalidAuthHeader if it is not that."""
    try:
        # Some clients leave the padding out.
        pair = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise InvalidAuthHeader("the credentials are not base64 of UTF-8") from None
    user, colon, password = pair.partition(":")
    if not colon:
        raise InvalidAuthHeader("expected user:password in the credentials")
    return Credentials(user, password)


def _read_auth_header(header: AuthHeader) -> Credentials:
    kind = header.WhichOneof("auth_scheme")
    if kind == "basic":
        return Credentials(header.basic.username, header.basic.password)
    if kind == "token":
        raise UnsupportedPassword("users of this server have passwords, not tokens", hint="send basic")
    raise AuthHeaderMissing("the header has no credentials", hint="send basic credentials")


def _common_name(call: GrpcCall) -> str | None:
    """Return the name that the client's certificate is in."""
    names = (call.context.auth_context() or {}).get("x509_common_name", ())
    return next((name.decode("utf-8", "replace") for name in names), None)

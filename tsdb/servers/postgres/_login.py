"""From the first byte of a connection to ReadyForQuery: TLS, start-up message, password, settings.

    SSLRequest ─▶ S, handshake | N        GSSENCRequest ─▶ N        CancelRequest ─▶ cancel a statement, close
    start-up message ─▶ SCRAM-SHA-256, or the plain password where a user's secret needs it ─▶ settings ─▶ ready

A plain password is requested only inside TLS; without TLS, the login is refused before anything secret is sent. The
whole login has one deadline.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from tsdb.auth import Authenticator, AuthError, Identity
from tsdb.database import DatabasePort, resolve_database
from tsdb.errors import TsdbError, wire
from tsdb.model import CATALOG_NAMES, DEFAULT_DATABASE
from tsdb.query import Channel, Session
from tsdb.servers._steps import StepPool
from tsdb.servers._tls import Tls, common_name
from tsdb.servers.postgres import _messages as m
from tsdb.servers.postgres._connection import PostgresConnection
from tsdb.servers.postgres._errors import PgError, ProtocolViolation
from tsdb.servers.postgres._scram import MECHANISM, ScramExchange
from tsdb.servers.postgres._settings import SessionSettings

STARTUP_BYTES_MAX = 10_000
"""As in PostgreSQL: a start-up message is a few names."""
PASSWORD_BYTES_MAX = 64 << 10
_STAND_INS = frozenset({*CATALOG_NAMES, "postgres"})
"""Databases that tools connect to before they know of any; here that is the default one."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LoginRules:
    """The context of all logins of a server."""

    database: DatabasePort
    authenticator: Authenticator
    tls: Tls
    version: str
    threads: StepPool
    """Where passwords are checked: that takes milliseconds."""
    default_timezone: str
    cancel: Callable[[int, bytes], None]

    async def on_thread(self, function: Callable[..., _T], *arguments: object) -> _T:
        return await self.threads.run(partial(function, *arguments))


@dataclass(frozen=True, slots=True)
class PostgresLogin:
    """A successful login."""

    session: Session
    settings: SessionSettings
    greeting: bytes
    """Messages to send before BackendKeyData and ReadyForQuery."""


async def log_in(channel: PostgresConnection, rules: LoginRules) -> PostgresLogin | None:
    """Log a client in; None if it only requested a cancellation or disconnected. PgError or AuthError on failure."""
    parameters = await _read_startup(channel, rules)
    if parameters is None:
        return None
    _check_encryption(channel, rules)
    user = parameters.get("user", "")
    if not user:
        raise PgError("28000", "no PostgreSQL user name specified in startup packet")
    if parameters.get("replication", "false").lower() not in ("false", "off", "no", "0"):
        raise PgError("0A000", "replication is not supported")
    _check_certificate(channel, rules, user)
    identity = await _authenticate(channel, rules, user)
    if identity is None:
        return None
    return await rules.on_thread(_begin_session, channel.client, rules, parameters, user, identity)


async def _read_startup(channel: PostgresConnection, rules: LoginRules) -> dict[str, str] | None:
    """Answer the requests before the start-up message and return its parameters."""
    has_asked_tls = has_asked_gss = False
    while True:
        body = await channel.read_startup(STARTUP_BYTES_MAX)
        if not body:
            return None
        if len(body) < 4:
            raise ProtocolViolation("invalid length of startup packet")
        version = struct.unpack_from("!I", body)[0]
        if version == m.CANCEL_REQUEST and len(body) == 12:
            rules.cancel(struct.unpack_from("!I", body, 4)[0], body[8:12])
            return None
        if version == m.SSL_REQUEST and not has_asked_tls:
            has_asked_tls = True
            await _answer_tls(channel, rules)
        elif version == m.GSSENC_REQUEST and not has_asked_gss:
            has_asked_gss = True
            channel.write(b"N")
        elif version >> 16 == m.PROTOCOL_MAJOR:
            parameters = m.parse_startup(body[4:])
            _negotiate(channel, version & 0xFFFF, parameters)
            return parameters
        else:
            raise PgError(
                "0A000", f"unsupported frontend protocol {version >> 16}.{version & 0xFFFF}: server supports 3.0"
            )


def _negotiate(channel: PostgresConnection, minor: int, parameters: dict[str, str]) -> None:
    unknown = [name for name in parameters if name.startswith("_pq_.")]
    if minor or unknown:
        channel.write(m.negotiate_version(0, unknown))


async def _answer_tls(channel: PostgresConnection, rules: LoginRules) -> None:
    if not rules.tls.is_offered or channel.is_encrypted:
        channel.write(b"N")
        return
    await channel.start_tls(rules.tls)


def _check_encryption(channel: PostgresConnection, rules: LoginRules) -> None:
    if rules.tls.is_required and not channel.is_encrypted:
        raise PgError("28000", "No encryption", hint="this server requires TLS: connect with sslmode=require")


def _check_certificate(channel: PostgresConnection, rules: LoginRules, user: str) -> None:
    if rules.tls.verifies_user and common_name(channel.peer_certificate()) != user:
        raise PgError("28000", f'certificate authentication failed for user "{user}"')


async def _authenticate(channel: PostgresConnection, rules: LoginRules, user: str) -> Identity | None:
    authenticator = rules.authenticator
    if not authenticator.is_enabled:
        return await rules.on_thread(lambda: authenticator.check_password(user, "", client=channel.client))
    try:
        if authenticator.offers_scram:
            return await _scram(channel, rules, user)
        return await _cleartext(channel, rules, user)
    except AuthError as error:
        if wire(error.status).sqlstate == "54000":
            raise PgError("28000", error.message, hint=error.hint) from error
        raise PgError("28P01", f'password authentication failed for user "{user}"') from error


async def _scram(channel: PostgresConnection, rules: LoginRules, user: str) -> Identity | None:
    authenticator = rules.authenticator
    channel.write(m.authentication_sasl([MECHANISM]))
    message = await _read_answer(channel)
    if message is None:
        return None
    fields = m.Fields(message)
    mechanism, length = fields.text(), fields.int32()
    first = fields.take(length)
    fields.finish()
    if mechanism != MECHANISM:
        raise ProtocolViolation(f"client selected an invalid SASL authentication mechanism: {mechanism[:40]!r}")
    exchange = ScramExchange(await rules.on_thread(authenticator.scram_verifier, user))
    channel.write(m.authentication_sasl_continue(exchange.challenge(first)))
    final = await _read_answer(channel)
    if final is None:
        return None
    signature = exchange.verify(final)
    identity = await rules.on_thread(
        lambda: authenticator.confirm_scram(user, succeeded=signature is not None, client=channel.client)
    )
    assert signature is not None, "a login without the right proof is never confirmed"
    channel.write(m.authentication_sasl_final(signature))
    return identity


async def _cleartext(channel: PostgresConnection, rules: LoginRules, user: str) -> Identity | None:
    if rules.tls.is_offered and not channel.is_encrypted:
        raise PgError("28000", "No encryption", hint="this login sends a password: connect with sslmode=require")
    channel.write(m.AUTHENTICATION_CLEARTEXT)
    message = await _read_answer(channel)
    if message is None:
        return None
    password = message.removesuffix(b"\0")
    return await rules.on_thread(lambda: rules.authenticator.check_password(user, password, client=channel.client))


async def _read_answer(channel: PostgresConnection) -> bytes | None:
    message = await channel.read_message(PASSWORD_BYTES_MAX)
    if message is None:
        return None
    if message.tag != ord("p"):
        raise ProtocolViolation(f"expected a password, received a message of type {message.tag}")
    return message.body


def _begin_session(
    client: str, rules: LoginRules, parameters: dict[str, str], user: str, identity: Identity
) -> PostgresLogin:
    session = Session(
        channel=Channel.POSTGRES,
        database=_choose_database(parameters.get("database") or user, user, identity, rules.database),
        time_zone=rules.default_timezone,
        user=user,
        identity=identity,
        client=client,
    )
    settings = SessionSettings(rules.version)
    try:
        reported = b"".join(settings.begin(session, parameters, rules.database))
    except PgError:
        raise
    except TsdbError as error:
        raise PgError(wire(error.status).sqlstate, str(error)) from error
    return PostgresLogin(session, settings, m.AUTHENTICATION_OK + reported)


def _choose_database(wanted: str, user: str, identity: Identity, database: DatabasePort) -> str:
    """Read `database` or `catalog-database`; a client that names none sends the name of the user."""
    wanted = resolve_database(wanted, database)
    if not database.has_database(wanted):
        if wanted != user and wanted not in _STAND_INS:
            raise PgError("3D000", f"Database not found: {wanted}")
        wanted = DEFAULT_DATABASE
    if not identity.may_see(wanted):
        raise PgError("42501", f'permission denied for database "{wanted}"')
    return wanted

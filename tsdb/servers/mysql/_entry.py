"""How a client gets in: the greeting, TLS, who it is, and the database it chooses first."""

from __future__ import annotations

from tsdb.auth import AccessDenied
from tsdb.database import Session, resolve_database
from tsdb.errors import Status, TsdbError, wire
from tsdb.servers._tls import common_name
from tsdb.servers.mysql._answers import error_payload, ok_payload
from tsdb.servers.mysql._channel import PacketChannel
from tsdb.servers.mysql._handshake import (
    CACHING_SHA2,
    LoginRequest,
    encode_greeting,
    make_challenge,
    parse_answer,
    wants_tls,
)
from tsdb.servers.mysql._login import ANSWER_BYTES_MAX, LoginFailed
from tsdb.servers.mysql._protocol import OFFERED, Capability, WireError
from tsdb.servers.mysql._shared import Shared

_PLUGIN = CACHING_SHA2


class UnknownDatabase(WireError):
    """The client names a database that does not exist."""

    def __init__(self, name: str) -> None:
        code = wire(Status.DATABASE_NOT_FOUND)
        super().__init__(code.mysql_errno, code.mysql_state, f"Unknown database '{name[:128]}'")


class MysqlEntry:
    """Lets one client in."""

    def __init__(self, channel: PacketChannel, shared: Shared, client: str) -> None:
        self._channel = channel
        self._shared = shared
        self._client = client

    async def log_in(self, session: Session) -> Capability | None:
        """Greet a client and log it in; returns what it is capable of, None if it was refused."""
        challenge, tls, number = make_challenge(), self._shared.tls, session.connection_id
        offered = OFFERED | Capability.SSL if tls.is_offered else OFFERED
        greeting = encode_greeting(connection_id=number, challenge=challenge, capabilities=offered, plugin=_PLUGIN)
        await self._channel.send(greeting)
        packet = await self._channel.read(
            bytes_max=ANSWER_BYTES_MAX, wait_seconds=self._shared.limits.login_seconds_max
        )
        if tls.is_offered and wants_tls(packet):
            context = await self._shared.logins.run(tls.context)
            await self._channel.open_stream(context)
            packet = await self._channel.read(
                bytes_max=ANSWER_BYTES_MAX, wait_seconds=self._shared.limits.login_seconds_max
            )
        else:
            await self._channel.open_stream(None)
        login = parse_answer(packet)
        if tls.is_required and not self._channel.is_encrypted:
            refusal = "Connections using insecure transport are prohibited: the server requires TLS"
            await self._channel.send(error_payload(WireError(3159, "HY000", refusal)))
            return None
        return login.capabilities & offered if await self.admit(session, login, challenge) else None

    async def admit(self, session: Session, login: LoginRequest, challenge: bytes | None) -> bool:
        """Log a client in, or send it the error."""
        try:
            await self._identify(session, login, challenge)
            await self._shared.logins.run(lambda: self._choose_first_database(session, login.database))
        except (TsdbError, LoginFailed, UnknownDatabase) as error:
            await self._channel.send(error_payload(error))
            return False
        await self._channel.send(ok_payload(session))
        return True

    async def _identify(self, session: Session, login: LoginRequest, challenge: bytes | None) -> None:
        if self._shared.tls.verifies_user and common_name(self._channel.certificate) != login.user:
            raise LoginFailed(login)
        identity = await self._shared.desk.log_in(
            self._channel, login, challenge=challenge, greeted_with=_PLUGIN, client=self._client
        )
        session.user = login.user
        session.identity = identity

    def _choose_first_database(self, session: Session, name: str) -> None:
        if name:
            self.use(session, name)
        elif self._shared.requires_database:
            raise WireError(1046, "3D000", "No database selected")

    def use(self, session: Session, wanted: str) -> None:
        """Choose `database` or `catalog-database`; a database whose own name looks like that comes first."""
        database = self._shared.database
        name = resolve_database(wanted, database)
        identity = session.identity
        if not database.has_database(name):
            raise UnknownDatabase(wanted)
        if name.lower() == "information_schema":
            name = name.lower()
        if identity is not None and name != "information_schema" and not identity.may_see(name):
            raise AccessDenied(identity.name, name)
        session.database = name

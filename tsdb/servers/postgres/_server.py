"""The server that listens for PostgreSQL's clients.

Connections are served by the event loop; statements run on `threads_max` worker threads, logins on two of their own, so
that a client can always come in, or cancel, while statements run. Connections, threads, messages and waits are bounded.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from tsdb.auth import Authenticator
from tsdb.config import TlsMode
from tsdb.database import DatabaseGate, DatabasePort
from tsdb.errors import TsdbError
from tsdb.query import Session
from tsdb.query.advisory_locks import AdvisoryLocks, SessionLocks
from tsdb.servers._listening import set_keep_alive, take_address, written_address
from tsdb.servers._tls import Tls
from tsdb.servers.postgres._backend import Backend
from tsdb.servers.postgres._connection import ClientGone, Connection, shutdown_error
from tsdb.servers.postgres._errors import PgError, error_fields
from tsdb.servers.postgres._login import Login, LoginRules, log_in
from tsdb.servers.postgres._messages import Message, backend_key_data, error, ready_for_query
from tsdb.telemetry import counter, gauge, get_logger
from tsdb.units import Duration

CONNECTIONS_MAX = 4096
LOGIN_SECONDS_MAX = 30.0
"""From the first byte to the end of the login."""
LOGIN_THREADS = 2
LOGINS_OVER_MAX = 64
"""How many connections over the limit are heard: to be told why not, or because all they want is to cancel."""
_NS_PER_SECOND = 1e9
_KEEP_ALIVE_PROBES = 3
_BACKLOG = 512

_log = get_logger("tsdb.postgres")
_CONNECTIONS = gauge("tsdb_servers_postgres_connections", "Open connections of the PostgreSQL server.")
_REFUSED = counter(
    "tsdb_servers_postgres_refused_total",
    "Connections that were refused or cut, by reason: limit, login, protocol, idle.",
    labels=("reason",),
)


class PostgresServer:
    """Listens on an address; at most `threads_max` statements run at the same time."""

    name = "Postgres"

    def __init__(
        self,
        gate: DatabaseGate,
        *,
        host: str,
        port: int,
        threads_max: int,
        authenticator: Authenticator | None = None,
        tls: Tls | None = None,
        version: str = "",
        default_timezone: str = "UTC",
        connections_max: int = CONNECTIONS_MAX,
        idle_timeout: Duration | None = None,
        keep_alive: Duration | None = None,
    ) -> None:
        self._gate = gate
        self._database: DatabasePort
        self._host, self._port = host, port
        self._threads_max = threads_max
        self._authenticator = authenticator or Authenticator()
        self._tls = tls or Tls(TlsMode.DISABLE)
        self._version = version
        self._default_timezone = default_timezone
        self._connections_max = connections_max
        self._idle_seconds = idle_timeout / _NS_PER_SECOND if idle_timeout else None
        self._keep_alive_seconds = int(keep_alive / _NS_PER_SECOND) if keep_alive else 0
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._logins: ThreadPoolExecutor | None = None
        self._connections: set[Connection] = set()
        self._keys: dict[int, tuple[bytes, Session]] = {}
        self._locks = AdvisoryLocks()
        self._is_stopping = False

    @property
    def address(self) -> str:
        return written_address(self._host, self._port)

    @property
    def facts(self) -> Mapping[str, str]:
        """For the start-up summary."""
        return {self.name: self.address}

    def probe(self) -> None:
        """Read the certificate and take the address, or raise a StartError that says why that cannot be."""
        if self._socket is not None:
            return
        self._tls.load()
        hint = "change postgres.addr, or set postgres.enable = false"
        taken = take_address(self._host, self._port, protocol="PostgreSQL", hint=hint, backlog=_BACKLOG)
        self._port = taken.getsockname()[1]
        self._socket = taken

    async def start(self) -> None:
        """Begin to accept connections."""
        self.probe()
        assert self._socket is not None
        self._database = self._gate.database
        self._pool = ThreadPoolExecutor(self._threads_max, thread_name_prefix="tsdb-postgres")
        self._logins = ThreadPoolExecutor(LOGIN_THREADS, thread_name_prefix="tsdb-postgres-login")
        self._server = await asyncio.get_running_loop().create_server(self._accept, sock=self._socket)

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more, let statements under way finish within the grace period, close every connection."""
        self._is_stopping = True
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.end_soon()
        tasks = {each.task for each in self._connections if each.task is not None}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=1.0)
        for pool in (self._pool, self._logins):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)
        if self._socket is not None:
            self._socket.close()

    def _accept(self) -> Connection:
        connection = _Accepted(self)
        self._connections.add(connection)
        _CONNECTIONS.set(len(self._connections))
        return connection

    def begin(self, connection: Connection, transport: asyncio.BaseTransport) -> None:
        """Serve a connection that was made."""
        found = transport.get_extra_info("socket")
        if found is not None:
            self._set_options(found)
        connection.task = asyncio.get_running_loop().create_task(self._serve(connection))

    def _set_options(self, opened: socket.socket) -> None:
        with suppress(OSError):
            set_keep_alive(opened, self._keep_alive_seconds, probes=_KEEP_ALIVE_PROBES)

    async def _serve(self, connection: Connection) -> None:
        """One connection from its beginning to its end."""
        try:
            await self._converse(connection)
        except (ClientGone, ConnectionError):
            _log.debug("a client went away", server=self.name)
        except TimeoutError:
            _REFUSED.labels("idle").inc()
            _log.debug("a client does not read its answer", client=connection.client)
            connection.abort()
        except asyncio.CancelledError:
            # The client went away or the server stops: that a connection ends is all that was wanted of its task.
            _log.debug("a connection was closed", client=connection.client)
        except TsdbError as failure:
            self._refuse(connection, failure)
        except Exception as failure:  # noqa: BLE001 - a bug met by one client must not go unseen
            _log.error("a connection failed unexpectedly", client=connection.client, exc_info=failure)
        finally:
            self._connections.discard(connection)
            _CONNECTIONS.set(len(self._connections))
            await connection.close()

    def _refuse(self, connection: Connection, failure: TsdbError) -> None:
        """Say why a connection ends."""
        state = failure.sqlstate if isinstance(failure, PgError) else ""
        reason = {"57P05": "idle", "53300": "limit", "08P01": "protocol"}.get(state, "login")
        if state != "57P01":
            _REFUSED.labels(reason).inc()
            _log.debug("a connection was refused or cut", client=connection.client, error=failure)
        connection.write(error(error_fields(failure, is_fatal=True)))

    async def _converse(self, connection: Connection) -> None:
        login = await self._log_in(connection)
        if login is None:
            return
        assert self._pool is not None
        session, secret = login.session, secrets.token_bytes(4)
        process = session.connection_id & 0x7FFFFFFF
        self._keys[process] = (secret, session)
        session.locks = SessionLocks(self._locks)
        backend = Backend(self._database, session, login.settings)
        self._database.connect(session)
        try:
            connection.write(login.greeting + backend_key_data(process, secret) + ready_for_query("I"))
            await self._answer_all(connection, backend, session, self._pool)
        finally:
            del self._keys[process]
            self._database.disconnect(session)
            # Rows may still be computed for what is open; closing it waits for nothing.
            backend.close()

    async def _answer_all(
        self, connection: Connection, backend: Backend, session: Session, pool: ThreadPoolExecutor
    ) -> None:
        while True:
            batch = await connection.read_batch(self._idle_allowed(session))
            is_last = batch[-1].tag == ord("X")
            messages: list[Message] = batch[:-1] if is_last else batch
            if messages:
                await connection.answer(messages, backend, pool)
            if is_last:
                return
            if self._is_stopping:
                raise shutdown_error()

    def _idle_allowed(self, session: Session) -> float | None:
        """How long a connection may say nothing: what it asked for, at most what the server allows."""
        asked = session.variables.get("idle_session_timeout", "0")
        seconds = int(asked) / 1000 if asked.isdigit() and len(asked) < 12 else 0.0
        if not seconds:
            return self._idle_seconds
        return seconds if self._idle_seconds is None else min(seconds, self._idle_seconds)

    async def _log_in(self, connection: Connection) -> Login | None:
        if len(self._connections) > self._connections_max + LOGINS_OVER_MAX:
            connection.abort()
            raise ClientGone
        try:
            async with asyncio.timeout(LOGIN_SECONDS_MAX):
                login = await log_in(connection, self._rules())
        except TimeoutError:
            raise PgError("08P01", "the login took too long") from None
        if login is not None and len(self._keys) >= self._connections_max:
            raise PgError("53300", "sorry, too many clients already", hint="raise postgres.max_connections")
        return login

    def _rules(self) -> LoginRules:
        assert self._logins is not None
        return LoginRules(
            database=self._database,
            authenticator=self._authenticator,
            tls=self._tls,
            version=self._version,
            threads=self._logins,
            default_timezone=self._default_timezone,
            cancel=self._cancel,
        )

    def _cancel(self, process: int, secret: bytes) -> None:
        """Stop what a connection runs, for somebody who knows its secret; nobody is told whether it worked."""
        known = self._keys.get(process)
        if known is not None and hmac.compare_digest(known[0], secret):
            if known[1].locks is not None:
                known[1].locks.is_cancelled = True
            self._database.cancel(known[1])


class _Accepted(Connection):
    """A connection that tells its server when it is made."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__()
        self._owner = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._owner.begin(self, transport)

"""The PostgreSQL server.

The event loop serves connections; at most `threads_max` statements run at a time, on the threads of the scheduler, and
logins on two others (the login pool), so that clients can log in or cancel while statements run. Connections, threads,
messages and waits are bounded.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
from functools import partial

from tsdb.auth import Authenticator
from tsdb.config import TlsMode
from tsdb.database import DatabaseGate, DatabasePort
from tsdb.errors import TsdbError
from tsdb.query import Session
from tsdb.query.advisory_locks import AdvisoryLocks, SessionLocks
from tsdb.servers._scheduler import QueryScheduler
from tsdb.servers._steps import StepPool
from tsdb.servers._tcp import KeepAlive, TcpServer, TcpService
from tsdb.servers._tls import Tls
from tsdb.servers.fast_workers import FastStatements, FastWorkers
from tsdb.servers.postgres._backend import Backend
from tsdb.servers.postgres._connection import PostgresConnection, shutdown_error
from tsdb.servers.postgres._errors import PgError, error_fields
from tsdb.servers.postgres._login import LoginRules, PostgresLogin, log_in
from tsdb.servers.postgres._messages import Message, backend_key_data, error, ready_for_query
from tsdb.servers.postgres._tuning import TUNING, PostgresTuning
from tsdb.telemetry import counter, gauge, get_logger
from tsdb.units import Duration

CONNECTIONS_MAX = 4096
LOGIN_THREADS = 2
LOGINS_OVER_MAX = 64
"""How many connections over the limit are read: they get an error, or only want to cancel a statement."""
_NS_PER_SECOND = 1e9
_KEEP_ALIVE_PROBES = 3

_log = get_logger("tsdb.postgres")
_CONNECTIONS = gauge("tsdb_servers_postgres_connections", "Open connections of the PostgreSQL server.")
_REFUSED = counter(
    "tsdb_servers_postgres_refused_total",
    "Connections refused or closed, by reason: limit, login, protocol, idle.",
    labels=("reason",),
)


class PostgresServer(TcpService):
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
        tuning: PostgresTuning = TUNING,
        scheduler: QueryScheduler | None = None,
        fast_workers: FastWorkers | None = None,
    ) -> None:
        self._scheduler = scheduler or QueryScheduler()
        self._fast_workers = fast_workers
        self.tuning = tuning
        self._gate = gate
        self._database: DatabasePort
        self._threads_max = threads_max
        self._authenticator = authenticator or Authenticator()
        self._tls = tls or Tls(TlsMode.DISABLE)
        self._version = version
        self._default_timezone = default_timezone
        self._connections_max = connections_max
        self._idle_seconds = idle_timeout / _NS_PER_SECOND if idle_timeout else None
        self._pool: StepPool | None = None
        self._logins: StepPool | None = None
        self._keys: dict[int, tuple[bytes, Session]] = {}
        self._locks = AdvisoryLocks()
        self._is_stopping = False
        self._tcp = TcpServer(
            "PostgreSQL",
            section="postgres",
            host=host,
            port=port,
            connections_max=connections_max + LOGINS_OVER_MAX,
            accept=partial(_Accepted, self),
            refuse=lambda accepted: None,
            open_connections=_CONNECTIONS,
            log=_log,
            tls=self._tls,
            keep_alive=KeepAlive(int(keep_alive / _NS_PER_SECOND) if keep_alive else 0, _KEEP_ALIVE_PROBES),
        )

    async def start(self) -> None:
        """Begin to accept connections."""
        self._database = self._gate.database
        self._pool = StepPool("postgres", self._threads_max, scheduler=self._scheduler)
        self._logins = StepPool("postgres-login", LOGIN_THREADS)
        self._tcp.start()

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more, let statements under way finish within the grace period, close every connection."""
        self._is_stopping = True
        await self._tcp.stop(grace_seconds)
        for pool in (self._pool, self._logins):
            if pool is not None:
                pool.close()

    async def converse(self, connection: PostgresConnection) -> None:
        """Log a client in and answer it until it leaves."""
        login = await self._log_in(connection)
        if login is None:
            return
        assert self._pool is not None
        session, secret = login.session, secrets.token_bytes(4)
        process = session.connection_id & 0x7FFFFFFF
        self._keys[process] = (secret, session)
        session.locks = SessionLocks(self._locks)
        backend = Backend(self._database, session, login.settings, self.tuning)
        self._database.connect(session)
        try:
            connection.write(login.greeting + backend_key_data(process, secret) + ready_for_query("I"))
            fast = FastStatements(self._database, self._fast_workers)
            await self._answer_all(connection, backend, session, self._pool, fast)
        finally:
            del self._keys[process]
            self._database.disconnect(session)
            # Rows may still be computed for what is open; closing it waits for nothing.
            backend.close()

    async def _answer_all(
        self,
        connection: PostgresConnection,
        backend: Backend,
        session: Session,
        pool: StepPool,
        fast: FastStatements,
    ) -> None:
        while True:
            batch = await connection.read_batch(self._idle_allowed(session))
            is_last = batch[-1].tag == ord("X")
            messages: list[Message] = batch[:-1] if is_last else batch
            if messages:
                await connection.answer(messages, backend, pool, fast)
            if is_last:
                return
            if self._is_stopping:
                raise shutdown_error()

    def _idle_allowed(self, session: Session) -> float | None:
        """The idle timeout of a connection: its own, at most that of the server."""
        wanted = session.variables.get("idle_session_timeout", "0")
        seconds = int(wanted) / 1000 if wanted.isdigit() and len(wanted) < 12 else 0.0
        if not seconds:
            return self._idle_seconds
        return seconds if self._idle_seconds is None else min(seconds, self._idle_seconds)

    async def _log_in(self, connection: PostgresConnection) -> PostgresLogin | None:
        try:
            async with asyncio.timeout(self.tuning.login_seconds_max):
                login = await log_in(connection, self._rules())
        except TimeoutError:
            raise PgError("08P01", "the login took too long") from None
        if login is not None and len(self._keys) >= self._connections_max:
            raise PgError(
                "53300", "sorry, too many clients already", hint="try again later, or raise postgres.max_connections"
            )
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
        """Stop what a connection runs, for a client that knows its secret; the client gets no answer."""
        known = self._keys.get(process)
        if known is not None and hmac.compare_digest(known[0], secret):
            if known[1].locks is not None:
                known[1].locks.is_cancelled = True
            self._database.cancel(known[1])


class _Accepted(PostgresConnection):
    """A connection of a server."""

    def __init__(self, server: PostgresServer, accepted: socket.socket, client: str) -> None:
        super().__init__(client, server.tuning.message_seconds)
        self._server = server
        self._socket = accepted

    async def serve(self) -> None:
        self.task = asyncio.current_task()
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: self, self._socket)
            await self._server.converse(self)
        except ConnectionError:
            _log.debug("a client disconnected", client=self.client)
        except TimeoutError:
            _REFUSED.labels("idle").inc()
            _log.debug("a client does not read its response", client=self.client)
            self.abort()
        except TsdbError as failure:
            self._refuse(failure)

    def _refuse(self, failure: TsdbError) -> None:
        """Say why a connection ends."""
        state = failure.sqlstate if isinstance(failure, PgError) else ""
        reason = {"57P05": "idle", "53300": "limit", "08P01": "protocol"}.get(state, "login")
        if state != "57P01":
            _REFUSED.labels(reason).inc()
            _log.debug("a connection was refused or cut", client=self.client, error=failure)
        self.write(error(error_fields(failure, is_fatal=True)))

    async def close(self) -> None:
        await super().close()
        if not self.is_made:
            self._socket.close()

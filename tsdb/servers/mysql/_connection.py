"""One client: its login, then its commands one after the other.

A command that fails is answered with an error, and the connection continues; malformed packets end it. Statements run
on the threads of the server, and their rows are streamed. Meanwhile the connection is watched: a disconnect cancels
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import ClassVar, TypeVar

from tsdb.errors import TsdbError
from tsdb.query import Channel as Protocol
from tsdb.query import Session
from tsdb.servers._failures import log_failure
from tsdb.servers._steps import Steps
from tsdb.servers._tcp import ClientGone
from tsdb.servers._tracing import trace_texts
from tsdb.servers.mysql._answers import PacketEncoder, error_payload, ok_payload
from tsdb.servers.mysql._channel import PacketChannel
from tsdb.servers.mysql._entry import MysqlEntry
from tsdb.servers.mysql._fast import answer_fast
from tsdb.servers.mysql._handshake import parse_change_user
from tsdb.servers.mysql._prepared import MysqlStatements
from tsdb.servers.mysql._protocol import BadPacket, Capability, Command, Reader, WireError, decode_text
from tsdb.servers.mysql._shared import Shared
from tsdb.servers.mysql._statements import Packets, Statements, ending_in_error, note_answered
from tsdb.servers.mysql._texts import is_urgent, read_text
from tsdb.telemetry import get_logger

GATHERED_BYTES = 256 << 10
"""The size of a chunk of an answer."""
_log = get_logger("tsdb.mysql")
_MULTI_STATEMENTS_ON, _MULTI_STATEMENTS_OFF = 0, 1
_DIGITS_MAX = 10

T = TypeVar("T")


class IdleTooLong(WireError):
    """The client has sent nothing for too long."""

    def __init__(self) -> None:
        super().__init__(
            4031, "HY000", "The client was disconnected by the server because of inactivity. See mysql.idle_timeout"
        )


class UnknownCommand(WireError):
    """An unsupported command."""

    def __init__(self) -> None:
        super().__init__(1047, "08S01", "Unknown command")


class MysqlConnection:
    """One client's connection, from its greeting to its end."""

    def __init__(self, channel: PacketChannel, shared: Shared, client: str) -> None:
        self._channel = channel
        self._shared = shared
        self._client = client
        self._session = Session(
            channel=Protocol.MYSQL, client=client, time_zone=shared.time_zone, variables=shared.variables()
        )
        self._entry = MysqlEntry(channel, shared, client)
        self._capabilities = Capability(0)
        self._prepared = MysqlStatements(shared.limits.prepared_max)
        self._statements = Statements(shared.database, shared.close_connection)
        self._task: asyncio.Task[None] | None = None
        self._is_idle = True
        """Whether it waits for a command."""
        self._is_stopping = False

    @property
    def number(self) -> int:
        return self._session.connection_id

    def end_soon(self) -> None:
        """The server stops: end now if the client has sent no command, else after its answer."""
        self._is_stopping = True
        if self._is_idle and self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        await self._channel.close()

    def close_soon(self) -> None:
        """Stop what runs, and close."""
        self._shared.database.cancel(self._session)
        self._channel.abort()

    async def serve(self) -> None:
        """Serve the client until it goes."""
        self._task = asyncio.current_task()
        try:
            capabilities = await self._entry.log_in(self._session)
            if capabilities is not None:
                self._capabilities = capabilities
                self._shared.database.connect(self._session)
                await self._serve_commands()
        except ClientGone as gone:
            _log.debug("a client disconnected", client=self._client, reason=str(gone))
        except WireError as error:
            # The stream is out of step, and the client may be gone.
            with suppress(ClientGone):
                await self._send_error(error)
        except TimeoutError:
            _log.debug("a client took too long to log in", client=self._client)
        finally:
            self._shared.database.disconnect(self._session)

    # The commands ---------------------------------------------------------------------------------------------------

    async def _serve_commands(self) -> None:
        while not self._is_stopping:
            self._channel.begin_command()
            self._is_idle = True
            try:
                packet = await self._channel.read(
                    bytes_max=self._shared.limits.packet_bytes_max, wait_seconds=self._idle_seconds()
                )
            except TimeoutError:
                self._channel.begin_command()
                raise IdleTooLong from None
            self._is_idle = False
            if not packet:
                raise BadPacket("a command without a byte")
            if packet[0] == Command.QUIT:
                return
            await self._serve_command(packet)

    async def _serve_command(self, packet: bytes) -> None:
        handler = self._HANDLERS.get(packet[0])
        try:
            if handler is None:
                raise UnknownCommand
            await handler(self, packet)
        except (TsdbError, WireError) as error:
            self._log_fault(error)
            await self._send_error(error)

    async def _quick(self, packet: bytes) -> None:
        """COM_PING and what else changes nothing."""
        await self._ok()

    async def _init_db(self, packet: bytes) -> None:
        name = decode_text(packet[1:])
        await self._on_login_thread(lambda: self._entry.use(self._session, name))
        await self._ok()

    async def _query(self, packet: bytes) -> None:
        await self._run(read_text(packet[1:]))

    async def _run(self, text: str, *, is_binary: bool = False) -> None:
        with trace_texts("mysql.query", "mysql", (text,)):
            await self._run_text(text, is_binary=is_binary)

    async def _run_text(self, text: str, *, is_binary: bool) -> None:
        begun = perf_counter()
        if await self._run_fast(text, is_binary=is_binary):
            return
        answer = self._answer()
        allows_many = bool(self._capabilities & Capability.MULTI_STATEMENTS) and not is_binary
        pieces = self._statements.run(text, self._session, answer, allows_many=allows_many, is_binary=is_binary)
        await self._send_pieces(pieces, answer, is_urgent=is_urgent(text), begun=begun)

    async def _run_fast(self, text: str, *, is_binary: bool) -> bool:
        """Have a fast worker answer a query; False if it cannot."""
        started, task = perf_counter(), asyncio.current_task()
        assert task is not None
        with self._channel.watched(task.cancel):
            packets = await answer_fast(
                self._shared.fast,
                text,
                self._session,
                capabilities=self._capabilities,
                sequence=self._channel.sequence,
                is_binary=is_binary,
            )
            if packets is not None:
                await self._channel.send_raw(packets)
        if packets is None:
            return False
        note_answered(perf_counter() - started, is_binary=is_binary)
        return True

    async def _field_list(self, packet: bytes) -> None:
        answer, table = self._answer(), decode_text(Reader(packet, 1).until_zero())
        await self._send_pieces(self._statements.list_fields(table, self._session, answer), answer)

    async def _statistics(self, packet: bytes) -> None:
        await self._channel.send(self._shared.statistics().encode())

    async def _process_info(self, packet: bytes) -> None:
        await self._run("SHOW PROCESSLIST")

    async def _process_kill(self, packet: bytes) -> None:
        await self._run(f"KILL {Reader(packet, 1).integer(4)}")

    async def _change_user(self, packet: bytes) -> None:
        login = parse_change_user(packet, self._capabilities)
        self._reset_session()
        # The answer in the packet is one to the challenge of the greeting, which must not serve twice.
        if not await self._entry.admit(self._session, login, None):
            raise ClientGone("a change of user was refused")

    async def _reset_connection(self, packet: bytes) -> None:
        self._reset_session()
        await self._ok()

    async def _set_option(self, packet: bytes) -> None:
        option = Reader(packet, 1).integer(2)
        if option == _MULTI_STATEMENTS_ON:
            self._capabilities |= Capability.MULTI_STATEMENTS
        elif option == _MULTI_STATEMENTS_OFF:
            self._capabilities &= ~Capability.MULTI_STATEMENTS
        else:
            raise UnknownCommand
        await self._channel.send_raw(self._answer().end())

    async def _prepare(self, packet: bytes) -> None:
        answer, text = self._answer(), read_text(packet[1:])
        await self._send_pieces(self._statements.prepare(text, self._prepared, self._session, answer), answer)

    async def _execute(self, packet: bytes) -> None:
        reader = Reader(packet, 1)
        prepared = self._prepared.get(reader.integer(4), "mysqld_stmt_execute")
        reader.take(1 + 4)  # the kind of cursor, which is not needed, and a count that is always 1
        await self._run(prepared.bind(reader), is_binary=True)

    async def _send_long_data(self, packet: bytes) -> None:
        self._prepared.append_long_data(packet)

    async def _close_statement(self, packet: bytes) -> None:
        if len(packet) >= 5:
            self._prepared.close(Reader(packet, 1).integer(4))

    async def _reset_statement(self, packet: bytes) -> None:
        self._prepared.get(Reader(packet, 1).integer(4), "mysqld_stmt_reset").long_data.clear()
        await self._ok()

    async def _fetch(self, packet: bytes) -> None:
        raise WireError(1421, "HY000", "The statement has no open cursor: its rows were all sent")

    _HANDLERS: ClassVar[dict[int, Callable[[MysqlConnection, bytes], Awaitable[None]]]] = {
        Command.INIT_DB: _init_db,
        Command.QUERY: _query,
        Command.FIELD_LIST: _field_list,
        Command.STATISTICS: _statistics,
        Command.PROCESS_INFO: _process_info,
        Command.PROCESS_KILL: _process_kill,
        Command.DEBUG: _quick,
        Command.PING: _quick,
        Command.CHANGE_USER: _change_user,
        Command.STMT_PREPARE: _prepare,
        Command.STMT_EXECUTE: _execute,
        Command.STMT_SEND_LONG_DATA: _send_long_data,
        Command.STMT_CLOSE: _close_statement,
        Command.STMT_RESET: _reset_statement,
        Command.SET_OPTION: _set_option,
        Command.STMT_FETCH: _fetch,
        Command.RESET_CONNECTION: _reset_connection,
    }

    # What they share ------------------------------------------------------------------------------------------------

    def _answer(self) -> PacketEncoder:
        return PacketEncoder(self._session, self._capabilities, self._channel.sequence)

    async def _ok(self) -> None:
        await self._channel.send(ok_payload(self._session))

    async def _send_error(self, error: TsdbError | WireError) -> None:
        await self._channel.send(error_payload(error))

    async def _send_pieces(
        self, pieces: Packets, answer: PacketEncoder, *, is_urgent: bool = False, begun: float | None = None
    ) -> None:
        """Run statements and send what they answer as it comes; `begun` is since when the client waits for it."""
        pool = self._shared.logins if is_urgent else self._shared.workers
        packets = ending_in_error(pieces, answer)
        cancel = partial(self._shared.database.cancel, self._session)
        timeout = self._session.timeout
        waited = 0.0 if begun is None else perf_counter() - begun
        seconds_max = max(timeout.seconds - waited, 0.0) if timeout else None
        steps = Steps(pool, lambda: packets, cancel, chunk_bytes=GATHERED_BYTES, seconds_max=seconds_max)
        task = asyncio.current_task()
        assert task is not None
        try:
            with self._channel.watched(task.cancel):
                while chunk := await steps.next_chunk():
                    await self._channel.send_raw(chunk)
        finally:
            steps.abandon()

    async def _on_login_thread(self, work: Callable[[], T]) -> T:
        return await self._shared.logins.run(work)

    def _reset_session(self) -> None:
        """Forget everything the client has chosen, but not who it is."""
        old = self._session
        self._prepared.clear()
        self._session = Session(
            channel=Protocol.MYSQL,
            client=self._client,
            time_zone=self._shared.time_zone,
            connection_id=old.connection_id,
            user=old.user,
            identity=old.identity,
            database=old.database,
            variables=self._shared.variables(),
        )
        self._shared.database.connect(self._session)

    def _idle_seconds(self) -> float | None:
        """How long the client may be silent: what the server allows, or less if the client has said so."""
        wanted, allowed = self._session.variables.get("wait_timeout", ""), self._shared.limits.idle_seconds
        if not (wanted.isascii() and wanted.isdigit() and len(wanted) < _DIGITS_MAX and int(wanted)):
            return allowed
        return float(wanted) if allowed is None else min(float(wanted), allowed)

    def _log_fault(self, error: TsdbError | WireError) -> None:
        if isinstance(error, TsdbError):
            log_failure(_log, error, client=self._client)

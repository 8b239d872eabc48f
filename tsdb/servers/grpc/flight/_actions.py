"""DoAction and ListActions: create and close prepared statements, cancel statements.

Transactions and sessions are not supported; their actions are refused with an alternative.
"""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message

from tsdb.errors import InvalidArguments, Unsupported
from tsdb.query import Session
from tsdb.servers.grpc._calls import GrpcCall, parse_message
from tsdb.servers.grpc._context import GrpcContext
from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
from tsdb.servers.grpc.flight._commands import find_command, no_transactions, pack, parse_command, refuse_transaction
from tsdb.servers.grpc.flight._parameter_types import parameter_schema
from tsdb.servers.grpc.flight._prepared import FlightStatements
from tsdb.servers.grpc.flight._run import describe_prepared
from tsdb.servers.grpc.flight._running import Running
from tsdb.servers.grpc.flight._tickets import StatementTicket
from tsdb.servers.grpc.flight.flight_pb2 import (
    CANCEL_STATUS_CANCELLING,
    CANCEL_STATUS_NOT_CANCELLABLE,
    Action,
    ActionType,
    CancelFlightInfoRequest,
    CancelFlightInfoResult,
    CancelStatus,
    FlightInfo,
    Result,
)
from tsdb.sql.template import StatementTemplate, parse_template

_M = TypeVar("_M", bound=Message)

ACTIONS = {
    "CreatePreparedStatement": "Keep a statement with places for values; answers with its handle and its schemas.",
    "ClosePreparedStatement": "Forget a prepared statement.",
    "CancelFlightInfo": "Stop the statement that a FlightInfo stands for.",
    "CancelQuery": "Stop the statement that a FlightInfo stands for; the older form.",
}
_TRANSACTIONS = frozenset({"BeginTransaction", "BeginSavepoint", "EndTransaction", "EndSavepoint"})
_SESSIONS = frozenset({"SetSessionOptions", "GetSessionOptions", "CloseSession"})


class Actions:
    """Answers DoAction and ListActions."""

    def __init__(self, context: GrpcContext, prepared: FlightStatements, running: Running) -> None:
        self._context = context
        self._database = context.database
        self._prepared = prepared
        self._running = running

    async def list(self, call: GrpcCall) -> None:
        await self._context.sessions.open(call)
        for name, description in ACTIONS.items():
            await call.send(ActionType(type=name, description=description).SerializeToString())

    async def serve(self, call: GrpcCall) -> None:
        """Answer one action."""
        action = parse_message(Action, await call.receive_one())
        session = await self._context.sessions.open(call)
        if action.type == "CreatePreparedStatement":
            answer = await self._create(_body(sql.ActionCreatePreparedStatementRequest, action), session, call)
        elif action.type == "ClosePreparedStatement":
            request = _body(sql.ActionClosePreparedStatementRequest, action)
            self._prepared.close(request.prepared_statement_handle, session)
            return
        elif action.type == "CancelFlightInfo":
            info = parse_message(CancelFlightInfoRequest, action.body).info
            answer = CancelFlightInfoResult(status=self._cancel(info, session)).SerializeToString()
        elif action.type == "CancelQuery":
            info = parse_message(FlightInfo, _body(sql.ActionCancelQueryRequest, action).info)
            status = self._cancel(info, session)
            answer = pack(sql.ActionCancelQueryResult(result=sql.ActionCancelQueryResult.CancelResult.Name(status)))
        else:
            raise _refusal(action.type)
        await call.send(Result(body=answer).SerializeToString())

    async def _create(
        self, request: sql.ActionCreatePreparedStatementRequest, session: Session, call: GrpcCall
    ) -> bytes:
        refuse_transaction(request)
        template, answer = await self._context.queries.run(
            lambda: self._describe(request.query, session),
            cancel=lambda: self._database.cancel(session),
            seconds_max=call.seconds_left,
        )
        answer.prepared_statement_handle = self._prepared.add(template, session)
        return pack(answer)

    def _describe(
        self, text: str, session: Session
    ) -> tuple[StatementTemplate, sql.ActionCreatePreparedStatementResult]:
        template = parse_template(text)
        answer = sql.ActionCreatePreparedStatementResult()
        dataset = describe_prepared(template, self._database, session)
        if dataset is not None:
            answer.dataset_schema = dataset.serialize().to_pybytes()
        parameters = parameter_schema(template, lambda parts: self._database.find_table(parts, session))
        if len(parameters):
            answer.parameter_schema = parameters.serialize().to_pybytes()
        return template, answer

    def _cancel(self, info: FlightInfo, session: Session) -> CancelStatus:
        """Stop what runs by the tickets of an info; only the user's own."""
        sessions = []
        for endpoint in info.endpoint:
            command = find_command(endpoint.ticket.ticket)
            if isinstance(command, sql.TicketStatementQuery):
                ticket = StatementTicket.parse(command.statement_handle)
                sessions += self._running.find(ticket.id, session.user)
        for running in sessions:
            self._database.cancel(running)
        return CANCEL_STATUS_CANCELLING if sessions else CANCEL_STATUS_NOT_CANCELLABLE


def _body(kind: type[_M], action: Action) -> _M:
    command = parse_command(action.body)
    if not isinstance(command, kind):
        raise InvalidArguments(
            f"the action {action.type} takes a {kind.DESCRIPTOR.name}, not a {command.DESCRIPTOR.name}"
        )
    return command


def _refusal(name: str) -> Unsupported:
    if name in _TRANSACTIONS:
        return no_transactions()
    if name in _SESSIONS:
        return Unsupported(
            "there are no sessions: every call says what it needs",
            hint="name the database by the header x-tsdb-db-name",
        )
    return Unsupported(f"there is no action {name[:100]!r}", hint=f"there are {', '.join(ACTIONS)}")

"""`arrow.flight.protocol.FlightService`: Arrow Flight and Flight SQL on the gRPC port."""

from __future__ import annotations

from tsdb.auth import Identity
from tsdb.errors import Unsupported
from tsdb.servers.grpc._calls import GrpcCall, RpcService, streaming_rpc, unary_rpc
from tsdb.servers.grpc._context import GrpcContext
from tsdb.servers.grpc.flight._actions import Actions
from tsdb.servers.grpc.flight._get import Get
from tsdb.servers.grpc.flight._info import Info
from tsdb.servers.grpc.flight._prepared import FlightStatements
from tsdb.servers.grpc.flight._put import DoPut
from tsdb.servers.grpc.flight._running import Running
from tsdb.servers.grpc.flight._tokens import Tokens
from tsdb.servers.grpc.flight.flight_pb2 import HandshakeResponse

SERVICE = "arrow.flight.protocol.FlightService"
_ANYBODY = Identity("tsdb")


class FlightService:
    """The state of the service."""

    def __init__(self, context: GrpcContext) -> None:
        self._context = context
        self._tokens = Tokens()
        context.sessions.accept_tokens(self._tokens.find)
        prepared, running = FlightStatements(), Running()
        self._get = Get(context, running)
        self._put = DoPut(context, prepared)
        self._info = Info(context, prepared)
        self._actions = Actions(context, prepared, running)

    def service(self) -> RpcService:
        return RpcService(
            SERVICE,
            {
                "Handshake": streaming_rpc(self.shake_hands),
                "ListFlights": streaming_rpc(self._info.list_flights),
                "GetFlightInfo": unary_rpc(self._info.flight_info),
                "PollFlightInfo": unary_rpc(self._info.poll_info),
                "GetSchema": unary_rpc(self._info.schema),
                "DoGet": streaming_rpc(self._get.serve),
                "DoPut": streaming_rpc(self._put.serve),
                "DoExchange": streaming_rpc(self.refuse_exchange),
                "DoAction": streaming_rpc(self._actions.serve),
                "ListActions": streaming_rpc(self._actions.list),
            },
        )

    async def shake_hands(self, call: GrpcCall) -> None:
        """Return a token for the password in the metadata, without waiting for a message: some clients send none."""
        identity = await self._context.sessions.identify(call)
        token = self._tokens.issue(identity or _ANYBODY)
        await call.context.send_initial_metadata((("authorization", f"Bearer {token}"),))
        await call.send(HandshakeResponse(payload=token.encode()).SerializeToString())

    async def refuse_exchange(self, call: GrpcCall) -> None:
        await self._context.sessions.open(call)
        raise Unsupported("DoExchange is not supported", hint="read with DoGet, write with DoPut")


def flight_services(context: GrpcContext) -> list[RpcService]:
    return [FlightService(context).service()]

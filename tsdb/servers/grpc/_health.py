"""Health checks: `greptime.v1.HealthCheck`, and `grpc.health.v1.Health` for orchestrators.

They need no login. Watchers are notified when the server stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import grpc
from grpc_health.v1 import health_pb2

from tsdb.servers.grpc._calls import GrpcCall, RpcService, parse_message, streaming_rpc, unary_rpc
from tsdb.servers.grpc.proto import greptime_pb2 as v1

SERVICE = "grpc.health.v1.Health"
OWN_SERVICE = "greptime.v1.HealthCheck"

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class Health:
    """The health of the server."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._stopping = asyncio.Event()

    def serve(self, names: Collection[str]) -> None:
        """Say from now on that these services, and the server as a whole, take calls."""
        self._names = frozenset(("", *names))

    def stop(self) -> None:
        """Say from now on that nothing takes calls."""
        self._stopping.set()

    def services(self) -> list[RpcService]:
        return [
            RpcService(OWN_SERVICE, {"HealthCheck": unary_rpc(self._check_own)}),
            RpcService(SERVICE, {"Check": unary_rpc(self._check), "Watch": streaming_rpc(self._watch)}),
        ]

    async def _check_own(self, raw: bytes, call: GrpcCall) -> bytes:
        parse_message(v1.HealthCheckRequest, raw)
        return v1.HealthCheckResponse().SerializeToString()

    async def _check(self, raw: bytes, call: GrpcCall) -> bytes:
        name = parse_message(health_pb2.HealthCheckRequest, raw).service
        if name not in self._names:
            await call.context.abort(grpc.StatusCode.NOT_FOUND, f"no service {name[:200]!r}")
        return self._answer(name)

    async def _watch(self, call: GrpcCall) -> None:
        name = parse_message(health_pb2.HealthCheckRequest, await call.receive_one()).service
        await call.send(self._answer(name))
        if not self._stopping.is_set():
            await self._stopping.wait()
            await call.send(self._answer(name))

    def _answer(self, name: str) -> bytes:
        known = _NOT_SERVING if self._stopping.is_set() else _SERVING
        status = known if name in self._names else _UNKNOWN
        encoded: bytes = health_pb2.HealthCheckResponse(status=status).SerializeToString()
        return encoded

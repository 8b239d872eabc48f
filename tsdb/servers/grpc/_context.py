"""The context of gRPC services: database, sessions and threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tsdb.database import DatabasePort
from tsdb.servers._steps import StepPool
from tsdb.servers.grpc._calls import RpcService
from tsdb.servers.grpc._session import Sessions


@dataclass(frozen=True, slots=True)
class GrpcContext:
    """The database, sessions and threads of all services."""

    database: DatabasePort
    sessions: Sessions
    queries: StepPool
    writes: StepPool
    """Writes wait for the log, not for queries."""
    version: str = ""


MakeServices: TypeAlias = Callable[[GrpcContext], Sequence[RpcService]]
"""Builds the services of one kind."""

"""What every service of the gRPC server is made of, and what the services need of the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tsdb.database import DatabasePort
from tsdb.servers._steps import StepPool
from tsdb.servers.grpc._calls import RpcService
from tsdb.servers.grpc._session import Sessions


@dataclass(frozen=True, slots=True)
class Frame:
    """What a service is built into."""

    database: DatabasePort
    sessions: Sessions
    workers: StepPool
    version: str = ""


MakeServices: TypeAlias = Callable[[Frame], Sequence[RpcService]]
"""Makes services; the server is given a list of these."""

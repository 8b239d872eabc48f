"""What all connections of a server have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tsdb.database import DatabasePort
from tsdb.servers._steps import StepPool
from tsdb.servers._tls import Tls
from tsdb.servers.fast_workers import FastStatements
from tsdb.servers.mysql._limits import MysqlLimits
from tsdb.servers.mysql._login import LoginDesk


@dataclass(frozen=True, slots=True)
class Shared:
    """The context of all connections."""

    database: DatabasePort
    desk: LoginDesk
    tls: Tls
    workers: StepPool
    """Run statements."""
    fast: FastStatements
    """Has queries of known shapes computed elsewhere."""
    logins: StepPool
    """Run what must not wait behind statements: logins, KILL, the list of processes."""
    limits: MysqlLimits
    requires_database: bool
    time_zone: str
    close_connection: Callable[[int], bool]
    """Close a connection by its number; False if there is none. From any thread."""
    statistics: Callable[[], str]
    """How the server is, in MySQL's words."""

    def variables(self) -> dict[str, str]:
        """The initial variables of a session."""
        if self.limits.idle_seconds is None:
            return {}
        seconds = str(max(1, round(self.limits.idle_seconds)))
        return {"wait_timeout": seconds, "interactive_timeout": seconds}

"""What a process of a cluster is to the metadata servers: how it reaches them, and what it says of itself."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tsdb.clock import Clock
from tsdb.components._build_info import build_info
from tsdb.config import MetaClientOptions
from tsdb.errors import DeadlineExceeded, StartError
from tsdb.ids import SYSTEM_IDS
from tsdb.meta.client import MetaClient, MetaClientSettings, NodeDescription
from tsdb.meta.errors import MetasrvUnreachable
from tsdb.model import NodeRole
from tsdb.processes.resident import resident_bytes
from tsdb.telemetry import get_logger

_START_ID_BYTES = 8
START_TIMEOUTS = 20
"""A start waits for a metadata server for so many times the timeout of one operation."""
_PAUSE_SECONDS = 0.2

T = TypeVar("T")
_log = get_logger("tsdb.process")


def open_meta_client(options: MetaClientOptions) -> MetaClient:
    """The client of `[meta_client]`."""
    settings = MetaClientSettings(
        timeout=options.timeout,
        connect_timeout=options.connect_timeout,
        ddl_timeout=options.ddl_timeout,
        tcp_nodelay=options.tcp_nodelay,
    )
    return MetaClient([str(each) for each in options.metasrv_addrs], settings)


def await_metasrv(options: MetaClientOptions, ask: Callable[[], T]) -> T:
    """Ask until a metadata server answers, since all processes may be started at once; StartError if none does."""
    deadline = time.monotonic() + START_TIMEOUTS * options.timeout.seconds
    while True:
        try:
            return ask()
        except (MetasrvUnreachable, DeadlineExceeded) as error:
            if time.monotonic() > deadline:
                addresses = ", ".join(str(each) for each in options.metasrv_addrs)
                raise StartError(
                    f"no metadata server answers at {addresses}: {error.message}",
                    hint="start `tsdb metasrv start`, or set meta_client.metasrv_addrs",
                ) from error
            _log.warning("waiting for a metadata server", error=error)
            time.sleep(_PAUSE_SECONDS)


def describe_node(
    role: NodeRole,
    node_id: int,
    address: str,
    http: str,
    clock: Clock,
    *,
    log: str = "",
    keeps_log: bool = False,
    has_local_files: bool = False,
) -> NodeDescription:
    """This process, with an id that no other start of it has."""
    build = build_info()
    return NodeDescription(
        role=role,
        node_id=node_id,
        address=address,
        start_id=SYSTEM_IDS.token(_START_ID_BYTES),
        http=http,
        hostname=socket.gethostname(),
        version=build.version,
        commit=build.commit,
        started_ms=clock.now_ns() // 1_000_000,
        log=log,
        keeps_log=keeps_log,
        has_local_files=has_local_files,
    )


class LoadReport:
    """What this process uses, for its heartbeats."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked_ns = clock.monotonic_ns()
        self._cpu_seconds = _cpu_seconds()

    def take(self) -> dict[str, Any]:
        """What was used since the last time."""
        now_ns, cpu = self._clock.monotonic_ns(), _cpu_seconds()
        passed = max(1, now_ns - self._asked_ns)
        usage = int((cpu - self._cpu_seconds) * 1e12 / passed)
        self._asked_ns, self._cpu_seconds = now_ns, cpu
        return {
            "total_cpu_millicores": (os.cpu_count() or 1) * 1000,
            "total_memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "cpu_usage_millicores": usage,
            "memory_usage_bytes": resident_bytes() or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        }


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

"""The metadata of a cluster in one process: its part in the election, the gRPC service, and the admin endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from tsdb.backup.cluster import RESTORE_MARK
from tsdb.components._process import Service
from tsdb.config import MetasrvConfig
from tsdb.errors import InvalidArguments, StartError, TsdbError
from tsdb.kv import CoordinationStore, KvDenied, MemoryKv
from tsdb.kv.etcd import EtcdKv, EtcdSettings
from tsdb.meta import (
    LeaderSettings,
    MetaServer,
    Metasrv,
    MetasrvSettings,
    NodeSelector,
    Supervision,
)
from tsdb.remote import RemoteRegions
from tsdb.servers.http import HttpApp, metasrv_routes
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.metasrv")


class MetasrvParts:
    """The parts of a metadata server."""

    def __init__(self, config: MetasrvConfig) -> None:
        self._config = config
        self._store: CoordinationStore | None = None
        self._metasrv: Metasrv | None = None
        self._service = MetaGrpcService(
            MetaServer(self._opened, host=config.bind_addr.host, port=config.bind_addr.port),
            server_address=str(config.server_addr),
            store="memory" if config.use_memory_store else f"etcd {config.store_addr}",
        )

    def add_routes(self, app: HttpApp) -> None:
        metasrv_routes(app, self._opened)

    def watchers(self) -> list[Service]:
        return []

    def services(self) -> list[Service]:
        return [self._service]

    def open(self) -> None:
        """Connect to the store and read the metadata; StartError if it cannot be read."""
        self._store = open_metadata_store(self._config)
        leader = LeaderSettings(
            selector=NodeSelector(self._config.selector.value),
            supervision=Supervision(is_enabled=self._config.enable_region_failover),
        )
        settings = MetasrvSettings(str(self._config.server_addr), leader=leader)
        try:
            _check_restored(self._store)
            metasrv = Metasrv(self._store, RemoteRegions, settings)
            metasrv.start()
        except StartError:
            self._store.close()
            raise
        except TsdbError as error:
            self._store.close()
            raise StartError(
                f"the metadata cannot be read from etcd at {self._config.store_addr}: {error}", hint=_hint(error)
            ) from error
        self._metasrv = metasrv

    def close(self) -> None:
        metasrv, self._metasrv = self._metasrv, None
        if metasrv is not None:
            metasrv.stop()
        if self._store is not None:
            self._store.close()

    def examples(self, url: str) -> list[str]:
        return [f"curl {url}/admin/leader", f"curl {url}/admin/node-lease"]

    @property
    def trouble(self) -> str | None:
        return None if self._metasrv is None else self._metasrv.problem

    def _opened(self) -> Metasrv:
        if self._metasrv is None:
            raise StartError("the metadata server is starting or stopping", hint="try again")
        return self._metasrv


class MetaGrpcService:
    """The gRPC service, as a part of the process."""

    def __init__(self, server: MetaServer, *, server_address: str, store: str) -> None:
        self._server = server
        self._server_address = server_address
        self._store = store

    @property
    def facts(self) -> Mapping[str, str]:
        return {"gRPC": self._server.address, "clients": self._server_address, "metadata": self._store}

    def probe(self) -> None:
        self._server.listen()

    async def start(self) -> None:
        await asyncio.to_thread(self._server.start)

    async def stop(self, grace_seconds: float) -> None:
        await asyncio.to_thread(self._server.stop, grace_seconds)


def open_metadata_store(config: MetasrvConfig) -> CoordinationStore:
    """Open the store of the metadata; nothing is connected before it is used."""
    if config.use_memory_store:
        _log.warning(
            "the metadata is kept in memory: all tables are lost when this process ends, and there can be no second "
            "metadata server; for tests only",
            key="use_memory_store",
        )
        return MemoryKv()
    tls = config.store_tls
    try:
        settings = EtcdSettings.of(
            str(config.store_addr),
            username=config.store_username,
            password=config.store_password.get_secret_value(),
            ca_path=tls.ca_cert_path,
            cert_path=tls.cert_path,
            key_path=tls.key_path,
        )
    except InvalidArguments as error:
        raise StartError(
            f"etcd cannot be reached with these settings: {error}", hint="check store_addr and the keys of [store_tls]"
        ) from error
    return EtcdKv(settings)


def _hint(error: TsdbError) -> str:
    if isinstance(error, KvDenied):
        return "check store_username and store_password; the user needs read and write access to the prefix tsdb/"
    return (
        "start etcd, or set store_addr (--store-addrs) and, for TLS, [store_tls]; --use-memory-store needs none, "
        "for tests"
    )


def _check_restored(store: CoordinationStore) -> None:
    """Refuse to start while the metadata is not all there."""
    if store.get(RESTORE_MARK) is not None:
        raise StartError(
            "the restore of a backup into this cluster is not complete", hint="run the same tsdb restore again"
        )

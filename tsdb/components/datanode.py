"""The datanode: serves the regions that are assigned to it over Arrow Flight.

    register ─▶ take a term of the log ─▶ open the assigned regions ─▶ listen ─▶ heartbeats

If the log turns out to be fenced, another node has taken over regions. The datanode then reopens everything that is
still assigned to it. This does not depend on clocks. The lease that heartbeats renew decides whether reads may be
answered.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

from tsdb.backup.cluster import BackupVerbs
from tsdb.clock import SystemClock
from tsdb.components._cluster_backup import make_backup_verbs
from tsdb.components._governor import MemoryGovernor
from tsdb.components._late_rows import LateRowsSender
from tsdb.components._local import LocalOptions, open_log
from tsdb.components._missing_regions import MissingRegions
from tsdb.components._node import LoadReport, await_metasrv, describe_node, open_meta_client
from tsdb.components._process import Service
from tsdb.components._read_permit import ReadPermit
from tsdb.components._settings import engine_options, process_caches, shared_log_options, wal_options
from tsdb.components._stores import OpenStores, open_stores
from tsdb.config import DatanodeConfig, FileStorage
from tsdb.engine import Engine
from tsdb.engine.errors import LogFenced
from tsdb.errors import TsdbError
from tsdb.memory import MemoryOwner
from tsdb.meta.client import Heartbeats, LogKind, NodeReport, Registration
from tsdb.meta.errors import NodeSuperseded
from tsdb.model import NodeRole, RegionId, RegionOpening
from tsdb.remote import NodeUnavailable, NodeVerbs, RegionServer, ServedRegions
from tsdb.servers.http import HttpApp
from tsdb.store import file_cache_of
from tsdb.telemetry import get_logger
from tsdb.units import Duration

_CLOSE_TIMEOUT = Duration.of_seconds(60)
_OPEN_AGAIN_SECONDS = 5.0
_ENTRIES_MAX = 1000
"""How many regions a heartbeat reports the last entry of: its size is limited."""
_log = get_logger("tsdb.datanode")


class Datanode:
    """The parts of a datanode."""

    def __init__(self, config: DatanodeConfig) -> None:
        self._config = config
        self._clock = SystemClock()
        address = config.rpc_addr
        self._node = describe_node(
            NodeRole.DATANODE,
            config.node_id,
            f"{config.rpc_hostname or address.host}:{address.port}",
            str(config.http.addr),
            self._clock,
            log=_log_kind(config),
            has_local_files=isinstance(config.storage, FileStorage),
            keeps_log=config.wal.shared.enable is True and bool(config.wal.shared.retention),
        )
        self._meta = open_meta_client(config.meta_client)
        self._load = LoadReport(self._clock)
        self._missing = MissingRegions(self._open_regions, self._clock)
        self._heartbeats = Heartbeats(
            self._meta,
            self._node,
            self._clock,
            report=self._report,
            on_close=self._close_regions,
            on_missing=self._missing.take,
            on_unknown=self._register_again,
            on_superseded=self._give_way,
        )
        self._stores: OpenStores | None = None
        self._engine: Engine | None = None
        self._backups: BackupVerbs | None = None
        self._is_closing = False
        self._late_rows: LateRowsSender | None = None
        self._reopening = threading.Lock()
        self._server = RegionServer(
            _not_open(self._node.address),
            host=address.host,
            port=address.port,
            threads_max=config.rpc_runtime_size,
            node=NodeVerbs(
                self._open_regions,
                self._close_region,
                self._region_ids,
                self._takeovers,
                self._back_up,
                self._check_read,
            ),
            clock=self._clock,
        )
        self._permit = ReadPermit(self._heartbeats.has_lease, self._prove_ownership, self._node.address)
        self._caches = process_caches(config.memory.limit)
        self._engine_memory: MemoryOwner | None = None
        """Known before the log is replayed."""
        self._governor = MemoryGovernor(int(config.memory.limit), self._memory_owners)
        self.trouble: str | None = None

    def add_routes(self, app: HttpApp) -> None:
        """Only those that every component has."""

    def watchers(self) -> list[Service]:
        return [self._governor]

    def services(self) -> list[Service]:
        return [_Listening(self._server, self._heartbeats)]

    def open(self) -> None:
        """Register, and open the regions that are placed here."""
        self._stores = open_stores(self._config.storage)
        self._backups = make_backup_verbs(
            self._meta,
            Path(self._config.storage.data_home),
            self._stores,
            self._present,
            self._check_read,
            self._clock,
            name=f"datanode {self._node.node_id}",
        )
        self._open_engine(await_metasrv(self._config.meta_client, self._register))

    def close(self) -> None:
        """Flush everything, so that the node that opens the regions next has nothing to replay, and say goodbye."""
        if self._backups is not None:
            self._backups.close()
        with self._reopening:
            self._is_closing = True
            engine, self._engine, self._engine_memory = self._engine, None, None
        if engine is not None:
            engine.close()
            file_cache = file_cache_of(engine.context.store)
            if file_cache is not None:
                file_cache.close()
            try:
                self._meta.leave(self._node)
            except TsdbError as error:
                _log.warning("the metadata servers could not be told that this node stops", error=error)
        if self._late_rows is not None:
            self._late_rows.stop()
        self._meta.close()

    def examples(self, url: str) -> list[str]:
        return []

    # The engine

    def _open_engine(self, registered: Registration) -> None:
        """Open what is placed here; the term of the log is taken before a manifest is read."""
        assert self._stores is not None
        config, home = self._config, Path(self._config.storage.data_home)
        options = LocalOptions(
            engine=engine_options(config.mito, config.memory.limit),
            wal=wal_options(config.wal),
            shared_log=shared_log_options(config.wal, self._stores, config.memory.limit, node=config.node_id),
        )
        log = open_log(Path(config.wal.dir) if config.wal.dir else home / "wal", options, self._clock)
        self._engine = Engine.open(
            self._stores.routed,
            log,
            options=options.engine,
            regions=registered.regions,
            clock=self._clock,
            on_fatal=self._fail,
            on_region_lost=self._lose,
            on_memory=self._watch,
        )
        # Before anything is changed. The metadata belongs to the cluster: its leader has changes of it noted.
        self._engine.journal(())
        self._server.regions = self._engine
        for region_id, error in self._engine.refused.items():
            _log.warning("a region that is assigned to this node is not open", region=region_id, error=error)
        self._hand_in(self._engine, registered)

    def _hand_in(self, engine: Engine, registered: Registration) -> None:
        """Hand in rows that others took over regions without; until that is done they stay on the disk."""
        late = engine.late
        if self._late_rows is not None:
            self._late_rows.stop()
        if late is None:
            return
        lost = registered.lost if engine.has_all_late else ()
        is_over = lambda: self._is_closing or self._engine is not engine  # noqa: E731
        self._late_rows = LateRowsSender(self._meta, self._node.node_id, late, lost, self._clock, is_over=is_over)
        if self._late_rows.has_work:
            self._late_rows.start()

    def _register(self) -> Registration:
        sent_ns = self._clock.monotonic_ns()
        registered = self._meta.register(self._node)
        self._heartbeats.lease_from(sent_ns, registered.lease)
        return registered

    def _register_again(self) -> None:
        """The leader does not know this node: it may be a new one."""
        self._register()

    def _fail(self, error: TsdbError) -> None:
        """The log accepts nothing more. If it was fenced, the node continues with what is still assigned to it."""
        if isinstance(error, LogFenced):
            threading.Thread(target=self._open_again, args=(error,), name="tsdb-open-again", daemon=True).start()
            return
        _log.error("writing has stopped; restart the datanode to recover", error=error)
        self.trouble = f"writing has stopped: {error}"

    def _open_again(self, reason: TsdbError) -> None:
        """Close everything, and open what is still placed here, as soon as the metadata servers can be reached."""
        _log.warning("the log was taken over; reopening the regions", reason=reason)
        with self._reopening:
            if self._is_closing:
                return
            engine, self._engine, self._engine_memory = self._engine, None, None
            self._server.regions = _not_open(self._node.address)
            self._server.readers.close()
            if engine is not None:
                # What is not flushed is in the log, which the node that has the region now has read; what was not
                # shipped either is handed in.
                engine.close(flush=False)
        while not self._is_closing and not self._try_open_again():
            time.sleep(_OPEN_AGAIN_SECONDS)

    def _try_open_again(self) -> bool:
        """Open what is placed here; return whether that is done."""
        try:
            registered = self._register()
            with self._reopening:
                if not self._is_closing:
                    self._open_engine(registered)
        except TsdbError as error:
            _log.error("the regions could not be reopened; retrying", error=error)
            self.trouble = f"the regions could not be opened again: {error}"
            return False
        self.trouble = None
        return True

    def _lose(self, region_id: RegionId) -> None:
        """Another node has a region, says its manifest."""
        threading.Thread(target=self._close_regions, args=([region_id],), name="tsdb-close-region", daemon=True).start()

    def _give_way(self, error: NodeSuperseded) -> None:
        _log.error("another process uses the id of this node", error=error)
        self.trouble = str(error)

    # What metasrv asks

    def _open_regions(self, openings: Sequence[RegionOpening]) -> Mapping[RegionId, TsdbError | None]:
        return self._present().open_regions(openings)

    def _close_region(self, region_id: RegionId, flush: bool) -> None:
        self._missing.note_close(region_id, _CLOSE_TIMEOUT)
        self._present().close_region(region_id, flush=flush).result(_CLOSE_TIMEOUT.seconds)

    def _close_regions(self, regions: Sequence[RegionId]) -> None:
        """Let go of regions that are placed elsewhere."""
        engine = self._engine
        for region_id in regions if engine is not None else ():
            try:
                assert engine is not None
                engine.close_region(region_id, flush=False).result(_CLOSE_TIMEOUT.seconds)
                _log.info("a region that is assigned to another node was closed", region=region_id)
            except (TsdbError, TimeoutError) as error:
                _log.warning("a region could not be closed", region=region_id, error=error)

    def _region_ids(self) -> Sequence[RegionId]:
        return self._present().region_ids()

    def _takeovers(self, regions: Sequence[RegionId]) -> Mapping[RegionId, Sequence[tuple[int, int]]]:
        return self._present().takeovers(regions)

    def _back_up(self, step: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        assert self._backups is not None
        return self._backups.answer(step, request)

    def _check_read(self) -> None:
        """Without a shared log no other node can take regions over, and nothing has to be checked."""
        if self._config.wal.shared.enable is True:
            self._permit.check()

    def _prove_ownership(self) -> bool:
        engine = self._engine
        return engine is not None and engine.prove_ownership()

    def _present(self) -> Engine:
        engine = self._engine
        if engine is None:
            raise NodeUnavailable("it is opening its regions", address=self._node.address)
        return engine

    def _report(self) -> NodeReport:
        engine, report = self._engine, self._load.take()
        if engine is None:
            return NodeReport(report)
        is_asking = self._missing.is_asking()
        log = engine.log_statistics()
        report |= {"log_lag_seconds": round(log.unshipped_seconds, 3), "log_unshipped_bytes": log.unshipped_bytes}
        if self._node.log == LogKind.LOCAL:
            # So that it is known, after a failover, what others could not read.
            report["entries"] = {str(each): last for each, last in engine.last_entries(_ENTRIES_MAX).items()}
        return NodeReport(report, engine.region_ids(), asks_for_missing=is_asking)

    def _memory_owners(self) -> list[MemoryOwner]:
        memory = self._engine_memory
        return [*self._caches, *([] if memory is None else [memory])]

    def _watch(self, memory: MemoryOwner) -> None:
        self._engine_memory = memory


def _log_kind(config: DatanodeConfig) -> LogKind:
    """Where rows are that are in no data file."""
    shared = config.wal.shared
    if shared.enable is not True:
        return LogKind.NONE
    return LogKind(shared.acknowledge.value)


class _Listening:
    """The Flight server and the heartbeats, while the datanode is ready."""

    def __init__(self, server: RegionServer, heartbeats: Heartbeats) -> None:
        self._server = server
        self._heartbeats = heartbeats

    @property
    def facts(self) -> Mapping[str, str]:
        return {"RPC": self._server.address}

    def probe(self) -> None:
        """An address in use is found when the server starts: Arrow binds it exclusively."""

    async def start(self) -> None:
        await asyncio.to_thread(self._server.start)
        self._heartbeats.start()

    async def stop(self, grace_seconds: float) -> None:
        await asyncio.to_thread(self._heartbeats.stop)
        await asyncio.to_thread(self._server.stop, Duration.of_seconds(grace_seconds))


class _NotOpen:
    """The regions of a datanode that has not opened them."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __getattr__(self, name: str) -> NoReturn:
        raise NodeUnavailable("it is opening its regions", address=self._address)


def _not_open(address: str) -> ServedRegions:
    return cast(ServedRegions, _NotOpen(address))

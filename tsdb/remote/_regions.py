"""Regions on other nodes: `Regions` for frontends and metasrv.

    read, ask     routes ─▶ link ─▶ stream of calls ─▶ answer
    write         routes ─▶ encode once ─▶ stream of writes of the region ─▶ future

A datanode that does not serve a region, or cannot be reached, has done nothing: the routes are refreshed, and it is
asked once more. A change whose answer was lost is not sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from tsdb.clock import Clock, SystemClock
from tsdb.engine import (
    CompactionRecord,
    FileFacts,
    RegionStat,
    SchemaOutdated,
    SegmentFacts,
    StrictWindows,
    VerifiedFiles,
)
from tsdb.engine.entry import check_batch
from tsdb.engine.reading import no_check
from tsdb.errors import InvalidArguments, TsdbError
from tsdb.model import (
    Batch,
    LateEntry,
    LateRows,
    MetricView,
    Peer,
    RegionId,
    RegionOpening,
    RegionOptions,
    RegionSchema,
    SchemaChange,
    TimeRange,
)
from tsdb.remote._calls import call_node
from tsdb.remote._elsewhere import ELSEWHERE, explain
from tsdb.remote._errors import NodeUnavailable, RemoteError, StaleStream
from tsdb.remote._link import Link
from tsdb.remote._links import Links
from tsdb.remote._pending import RemoteChange, RemoteWrite
from tsdb.remote._reader import RemoteReader
from tsdb.remote._routes import Routes
from tsdb.remote._settings import RemoteSettings
from tsdb.store import RequestFacts
from tsdb.telemetry import get_logger
from tsdb.units import Duration

RETRY_THREADS = 8
"""How many changes are sent again at a time: each may wait for routes."""

T = TypeVar("T")

_log = get_logger("tsdb.remote")


class RemoteRegions:
    """The regions of a cluster. Any thread may call it."""

    def __init__(self, routes: Routes, *, settings: RemoteSettings | None = None, clock: Clock | None = None) -> None:
        self.routes = routes
        self.settings = settings or RemoteSettings()
        self.again: Executor = ThreadPoolExecutor(RETRY_THREADS, thread_name_prefix="tsdb-remote-again")
        self._clock = clock or SystemClock()
        self._links = Links(self.settings, self._clock)
        self._schemas: dict[RegionId, tuple[str, RegionSchema]] = {}
        """The schema of a region, and the address of the datanode that said so."""

    def create_region(
        self, region_id: RegionId, directory: str, schema: RegionSchema, options: RegionOptions | None = None
    ) -> None:
        self._call(region_id, "create_region", directory, schema, options)

    def schema(self, region_id: RegionId, *, at_least: int = 0) -> RegionSchema:
        """Return the schema of a region as it was last heard of: a write that needs a newer one says so."""
        known = self._schemas.get(region_id)
        if known is not None and known[0] == self.routes.peer_of(region_id).address and known[1].version >= at_least:
            return known[1]
        return self.read_schema(region_id)

    def read_schema(self, region_id: RegionId) -> RegionSchema:
        """Ask for the schema of a region."""

        def ask(link: Link) -> RegionSchema:
            schema: RegionSchema = call_node(link, "schema", [region_id], self.settings.timeout, self._clock)
            self._schemas[region_id] = link.address, schema
            return schema

        return self.at_place(region_id, ask)

    def forget_schema(self, region_id: RegionId) -> None:
        """Ask for the schema of a region when it is needed next."""
        self._schemas.pop(region_id, None)

    def write(
        self,
        region_id: RegionId,
        batch: Batch,
        *,
        timeout: Duration | None = None,
        schema_version: int | None = None,
    ) -> Future[int]:
        """Write or delete rows; the bytes that are encoded here are what the log of the datanode gets."""
        schema = self._schema_for(region_id, batch, schema_version)
        if not batch.rows:
            nothing: Future[int] = Future()
            nothing.set_result(0)
            return nothing
        wait = self.settings.timeout if timeout is None else timeout
        pending = RemoteWrite(self, region_id, batch, schema, wait=wait, must_fit=schema_version is not None)
        pending.send()
        return pending.done

    def open_reader(
        self,
        region_id: RegionId,
        *,
        timeout: Duration | None = None,
        view: MetricView | None = None,
        check: Callable[[], None] = no_check,
    ) -> RemoteReader:
        """Return a reader; it takes what the region holds when it is first asked."""
        return RemoteReader(self, region_id, timeout=timeout, view=view, check=check, clock=self._clock)

    def alter(self, region_id: RegionId, changes: list[SchemaChange]) -> Future[None]:
        return self._change(region_id, "alter", changes, on_success=self.forget_schema)

    def set_options(self, region_id: RegionId, options: RegionOptions) -> Future[None]:
        return self._change(region_id, "set_options", options)

    def flush(self, region_id: RegionId) -> Future[None]:
        return self._change(region_id, "flush")

    def compact(
        self, region_id: RegionId, strict: StrictWindows | None = None, *, parallelism: int = 1
    ) -> Future[None]:
        return self._change(region_id, "compact", strict, parallelism=parallelism)

    def verify(self, region_id: RegionId, *, is_quarantined: bool = False) -> Future[VerifiedFiles]:
        return self._change(region_id, "verify", is_quarantined=is_quarantined)

    def give_up_file(self, region_id: RegionId, file_id: str) -> Future[int]:
        return self._change(region_id, "give_up_file", file_id)

    def truncate(
        self, region_id: RegionId, ranges: Sequence[TimeRange] | None = None, *, token: str | None = None
    ) -> Future[None]:
        return self._change(region_id, "truncate", None if ranges is None else list(ranges), token=token)

    def drop(self, region_id: RegionId) -> Future[None]:
        return self._change(region_id, "drop", on_success=self.forget_schema)

    def discard_unflushed(self, region_id: RegionId) -> Future[None]:
        return self._change(region_id, "discard_unflushed")

    def hand_in(
        self, region_id: RegionId, node: int, entries: Sequence[LateEntry], *, is_last: bool, epochs: Sequence[int] = ()
    ) -> Future[list[LateRows]]:
        """Hand in rows that a node had acknowledged when the region was taken over from it without them."""
        return self._change(region_id, "hand_in", node, list(entries), is_last=is_last, epochs=list(epochs))

    def stat(self, region_id: RegionId) -> RegionStat:
        found: RegionStat = self._call(region_id, "stat")
        return found

    def time_range(self, region_id: RegionId) -> TimeRange | None:
        found: TimeRange | None = self._call(region_id, "time_range")
        return found

    def files(self, region_id: RegionId) -> list[FileFacts]:
        found: list[FileFacts] = self._call(region_id, "files")
        return found

    def compactions(self) -> list[CompactionRecord]:
        """The newest compactions of all datanodes that answer, oldest first."""
        found: list[CompactionRecord] = [
            replace(each, node_id=peer.node_id) for peer, records in self._ask_all("compactions") for each in records
        ]
        return sorted(found, key=lambda each: each.started_ms)

    def wal_segments(self) -> list[tuple[str, SegmentFacts]]:
        """The segments of the logs of all datanodes that answer, each with its path."""
        found = [(peer, path, facts) for peer, segments in self._ask_all("wal_segments") for path, facts in segments]
        # What is given up is known to every datanode, and says whose it is.
        skipped = {path: facts for _, path, facts in found if facts.is_skipped}
        own = [(path, replace(facts, node_id=peer.node_id)) for peer, path, facts in found if not facts.is_skipped]
        return [*own, *skipped.items()]

    def storage_requests(self) -> list[RequestFacts]:
        """What all datanodes that answer have asked of object stores, and the states these are in."""
        found = self._ask_all("storage_requests")
        return [replace(each, node_id=peer.node_id) for peer, facts in found for each in facts]

    def skip_log_object(self, path: str) -> str:
        """Give up an object of the shared log that cannot be read: all datanodes have the same store."""
        problem: TsdbError = NodeUnavailable("there is no datanode", address="")
        for peer in self.routes.peers():
            try:
                return str(self._call_peer(peer, "skip_log_object", path))
            except NodeUnavailable as error:
                problem = error
        raise problem

    def open_regions(
        self, peer: Peer, openings: Sequence[RegionOpening], *, timeout: Duration | None = None
    ) -> Mapping[RegionId, TsdbError | None]:
        """Have a datanode open regions; says of each why it could not be opened."""
        found: Mapping[RegionId, TsdbError | None] = self._call_peer(
            peer, "open_regions", list(openings), timeout=timeout
        )
        return found

    def close_region(self, peer: Peer, region_id: RegionId, *, flush: bool, timeout: Duration | None = None) -> None:
        """Have a datanode let go of a region; returns when that is done."""
        self._call_peer(peer, "close_region", region_id, flush, timeout=timeout)

    def region_ids(self, peer: Peer) -> Sequence[RegionId]:
        """The regions that a datanode has open."""
        found: Sequence[RegionId] = self._call_peer(peer, "region_ids")
        return found

    def takeovers(self, peer: Peer, region_ids: Sequence[RegionId]) -> Mapping[RegionId, Sequence[tuple[int, int]]]:
        """The epochs of the takeovers of regions, and the last entries that could be read."""
        found: Mapping[RegionId, Sequence[tuple[int, int]]] = self._call_peer(peer, "takeovers", list(region_ids))
        return found

    def backup(
        self, peer: Peer, step: str, request: Mapping[str, Any], *, timeout: Duration | None = None
    ) -> Mapping[str, Any]:
        """Have a datanode do its part of a backup of the cluster."""
        found: Mapping[str, Any] = self._call_peer(peer, "backup", step, dict(request), timeout=timeout)
        return found

    def at_place(self, region_id: RegionId, ask: Callable[[Link], T]) -> T:
        """Ask the datanode of a region; if it is not there any more, once more where it is by then."""
        try:
            return self._ask_at(region_id, ask)
        except ELSEWHERE as error:
            # A datanode that does not answer may be back by then; one that knows better need not be asked again.
            if not self.routes.refresh(region_id) and not isinstance(error, NodeUnavailable):
                raise explain(error, self.routes, region_id) from error
        try:
            return self._ask_at(region_id, ask)
        except ELSEWHERE as error:
            raise explain(error, self.routes, region_id) from error

    def close(self) -> None:
        """End all connections; what is unanswered ends as unknown."""
        self._links.close()
        self.again.shutdown(wait=False)

    def _ask_at(self, region_id: RegionId, ask: Callable[[Link], T]) -> T:
        address = self.routes.peer_of(region_id).address
        try:
            return ask(self._links.get(address))
        except StaleStream:
            return ask(self._links.get(address))

    def _schema_for(self, region_id: RegionId, batch: Batch, version: int | None) -> RegionSchema:
        """Return the schema that a batch is encoded under; one that is kept here may be too old for it."""
        schema = self.schema(region_id)
        try:
            _check(region_id, schema, batch, version)
        except (SchemaOutdated, InvalidArguments):
            newer = self.read_schema(region_id)
            if newer.version == schema.version:
                raise
            _check(region_id, newer, batch, version)
            return newer
        return schema

    def _call(self, region_id: RegionId, op: str, *args: object) -> Any:
        timeout, clock = self.settings.timeout, self._clock
        return self.at_place(region_id, lambda link: call_node(link, op, [region_id, *args], timeout, clock))

    def _ask_all(self, op: str) -> list[tuple[Peer, list[Any]]]:
        """Ask all datanodes: one that is down, or of another version, does not hide what the others have."""
        found: list[tuple[Peer, list[Any]]] = []
        for peer in self.routes.peers():
            try:
                found.append((peer, self._call_peer(peer, op)))
            except NodeUnavailable:
                continue
            except RemoteError as error:
                _log.warning("a datanode could not answer", node=peer.node_id, op=op, error=error)
        return found

    def _call_peer(self, peer: Peer, op: str, *args: object, timeout: Duration | None = None) -> Any:
        def ask() -> Any:
            link = self._links.get(peer.address)
            return call_node(link, op, list(args), timeout or self.settings.timeout, self._clock)

        try:
            return ask()
        except StaleStream:
            return ask()

    def _change(
        self,
        region_id: RegionId,
        op: str,
        *args: object,
        on_success: Callable[[RegionId], None] | None = None,
        **named: object,
    ) -> Future[Any]:
        change = RemoteChange(self, region_id, op, [region_id, *args], named, on_success=on_success)
        change.send()
        return change.done


def _check(region_id: RegionId, schema: RegionSchema, batch: Batch, version: int | None) -> None:
    if version not in (None, schema.version):
        raise SchemaOutdated(region_id=region_id, expected=version, current=schema.version)
    check_batch(schema, batch)

"""Processes that share one node's log in a store that fails, against a plain set of what was acknowledged.

A Hypothesis state machine starts processes while others still run, lets them append, send objects in any order, flush,
purge and die, and lets requests fail, lose their reply, arrive late or twice, also in the middle of a seal. Whatever
happens: every acknowledged entry is found by every process that starts later, nothing that was refused is, and a
process whose term was sealed acknowledges nothing that its successor does not know.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.store.faulty_store import FaultyStore
from tsdb.clock import ManualClock
from tsdb.engine.log import Frame, encode_frame_payload
from tsdb.engine.log.shared import SharedLog, SharedSettings, open_shared_log
from tsdb.engine.log.shared.container import EncodedObject
from tsdb.engine.wal import Wal
from tsdb.errors import StartError, TsdbError
from tsdb.ids import SeededIds
from tsdb.store import MemoryStore, StoreError
from tsdb.units import Duration

EXAMPLES = int(os.environ.get("TSDB_LOG_EXAMPLES", "30"))
REGIONS = (1, 2, 3)
PROCESSES_MAX = 4
SETTINGS = SharedSettings(interval=Duration.of_seconds(1), in_flight=3, burst=2, read_parallelism=1)
"""Time passes with each append, so that several objects are on their way more often than not."""
Entry = tuple[int, int]
"""Region and entry id."""


@dataclass
class Manifests:
    """What is in data files: durable, and changed only by a process that knows the newest version."""

    versions: dict[int, int] = field(default_factory=lambda: dict.fromkeys(REGIONS, 0))
    flushed: dict[int, list[bytes]] = field(default_factory=lambda: {region: [] for region in REGIONS})


@dataclass(eq=False)
class Process:
    """A server: what it has in memory, and what it has appended."""

    log: SharedLog
    versions: dict[int, int]
    rows: dict[int, list[bytes]]
    """The rows of each region that are visible; the n-th is entry n."""
    known: set[Entry]
    """What it had when it was opened."""
    appended: list[tuple[list[Entry], list[bytes], Future[None]]] = field(default_factory=list)
    sending: list[EncodedObject] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)
    """The last entry of each region that is on its way."""


class SharedLogModel(RuleBasedStateMachine):
    """Random lives of several processes over one log."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="tsdb-shared-log-"))
        self.inner = MemoryStore()
        self.store = FaultyStore(self.inner)
        self.clock = ManualClock(now_ns=1)
        self.ids = SeededIds(0)
        self.manifests = Manifests()
        self.processes: list[Process] = []
        self.acknowledged: dict[Entry, bytes] = {}
        self.refused: set[bytes] = set()
        self.written = 0

    def teardown(self) -> None:
        if hasattr(self, "root"):
            self.store.up()
            self.check_a_start()
            shutil.rmtree(self.root)

    @precondition(lambda self: len(self.processes) < PROCESSES_MAX)
    @rule(data=st.data(), meanwhile=st.lists(st.integers(0, 12), max_size=6))
    def start(self, data: st.DataObject, meanwhile: list[int]) -> None:
        """Start a process; others do something while it takes over."""
        calls = 0

        def others(_operation: str, _path: str) -> None:
            nonlocal calls
            calls += 1
            if calls in meanwhile:
                self.store.before_call = None
                self.act(data)
                self.store.before_call = others

        self.store.before_call = others if self.processes else None
        try:
            process = self.open()
        except (StoreError, StartError):
            return
        finally:
            self.store.before_call = None
        self.processes.append(process)

    def open(self) -> Process:
        versions = dict(self.manifests.versions)
        flushed = {region: list(rows) for region, rows in self.manifests.flushed.items()}
        log = open_shared_log(
            self.store,
            self.root / f"wal-{self.written}-{len(self.processes)}",
            SETTINGS,
            open_local=self.no_local,
            clock=self.clock,
            ids=self.ids,
            starts=False,
        )
        # As the engine does it: manifests are read when the log is open.
        versions = dict(self.manifests.versions)
        flushed = {region: list(rows) for region, rows in self.manifests.flushed.items()}
        reading = log.read({region: len(rows) for region, rows in flushed.items()})
        for region in REGIONS:
            reason = reading.quarantine_reason(region)
            if reason is not None and self.manifests.versions != versions:
                # Another process has flushed and purged since: the engine would find its manifest changed.
                raise StartError(reason)
            assert reason is None
        for batch in reading:
            for frame in batch:
                rows = flushed[frame.region_id]
                assert frame.entry_id == len(rows) + 1, "entries have no holes and come once"
                rows.append(frame.payload.to_pybytes())
        for region, rows in flushed.items():
            log.floor(region, len(self.manifests.flushed[region]))
            assert not self.refused.intersection(rows)
        known = {(region, at + 1) for region, rows in flushed.items() for at in range(len(rows))}
        for (region, entry), value in self.acknowledged.items():
            assert flushed[region][entry - 1 : entry] == [value], f"entry {entry} of region {region} is lost"
        return Process(log, versions, flushed, known)

    def no_local(self) -> Wal:
        raise AssertionError("there is no local log")

    def act(self, data: st.DataObject) -> None:
        """Let some process do something."""
        actions = {
            "append": self._append,
            "send": self._send,
            "flush": self._flush,
            "purge": self._purge,
            "cycle": self._cycle,
        }
        actions[data.draw(st.sampled_from(["append", "send", "send", "flush", "purge", "cycle"]))](
            self.any_process(data), data
        )

    def any_process(self, data: st.DataObject) -> Process:
        return self.processes[data.draw(st.integers(0, len(self.processes) - 1))]

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        self._append(self.any_process(data), data)

    def _append(self, process: Process, data: st.DataObject) -> None:
        regions = data.draw(st.lists(st.sampled_from(REGIONS), min_size=1, max_size=3))
        entries, values, frames = [], [], []
        last = dict(process.last)
        for region in regions:
            last[region] = last.get(region, len(process.rows[region])) + 1
            self.written += 1
            entries.append((region, last[region]))
            values.append(f"{region}/{last[region]}/{process.log.term}/{self.written}".encode())
            frames.append(Frame(*entries[-1], encode_frame_payload(values[-1]), rows=1))
        try:
            done = process.log.append(frames)
        except TsdbError:
            assert process.log.shipper.broken is not None
            self.refused.update(values)
            return
        process.last = last
        process.appended.append((entries, values, done))
        if data.draw(st.booleans()):
            self.clock.advance(seconds=1)
            self._take(process)

    @precondition(lambda self: self.processes)
    @rule(data=st.data(), seconds=st.sampled_from([0, 0.3, 2]))
    def send(self, data: st.DataObject, seconds: float) -> None:
        self.clock.advance(seconds=seconds)
        self._send(self.any_process(data), data)

    def _send(self, process: Process, data: st.DataObject) -> None:
        """Send one of the objects that are due, in any order."""
        self._take(process)
        if not process.sending:
            return
        chosen = process.sending[data.draw(st.integers(0, len(process.sending) - 1))]
        if process.log.shipper.try_send(chosen):
            process.sending.remove(chosen)
        self.settle(process)

    def _cycle(self, process: Process, data: st.DataObject) -> None:
        """Append, send everything, flush every region and purge: numbers become free that others may have looked at."""
        self._append(process, data)
        self.clock.advance(seconds=1)
        self._take(process)
        for encoded in list(process.sending):
            if process.log.shipper.try_send(encoded):
                process.sending.remove(encoded)
        self.settle(process)
        for region in REGIONS:
            self._flush_region(process, region)
        process.log.purge()

    def _take(self, process: Process) -> None:
        while (encoded := process.log.shipper.take_due()) is not None:
            process.sending.append(encoded)

    def settle(self, process: Process) -> None:
        """Take the answers of a log in the order of the appends, as the pipeline does."""
        while process.appended and process.appended[0][2].done():
            entries, values, done = process.appended.pop(0)
            if done.exception() is not None:
                self.refused.update(values)
                continue
            for entry, value in zip(entries, values, strict=True):
                for other in self.processes:
                    if other.log.term > process.log.term:
                        assert entry in other.known, "two owners: a successor does not know what is acknowledged"
                assert self.acknowledged.setdefault(entry, value) == value, "two owners: an entry was written twice"
                process.rows[entry[0]].append(value)

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def flush(self, data: st.DataObject) -> None:
        self._flush(self.any_process(data), data)

    def _flush(self, process: Process, data: st.DataObject) -> None:
        """Write rows to files; only if nobody else has changed the manifest since this process read it."""
        self._flush_region(process, data.draw(st.sampled_from(REGIONS)))

    def _flush_region(self, process: Process, region: int) -> None:
        if self.manifests.versions[region] == process.versions[region]:
            self.manifests.versions[region] += 1
            process.versions[region] += 1
            self.manifests.flushed[region] = list(process.rows[region])
            process.log.floor(region, len(process.rows[region]))

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def purge(self, data: st.DataObject) -> None:
        self._purge(self.any_process(data), data)

    def _purge(self, process: Process, data: st.DataObject) -> None:
        process.log.purge()

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        self.processes.remove(self.any_process(data))

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def stop_in_good_order(self, data: st.DataObject) -> None:
        process = self.any_process(data)
        if not process.appended and not process.sending:
            process.log.seal()
            self.processes.remove(process)

    @rule(
        kind=st.sampled_from(["fail", "lose_reply", "arrive_later", "arrive_twice"]),
        operation=st.sampled_from(["put_if_absent", "put_if_absent", "put", "get", "get_range", "list", "delete"]),
        nth=st.integers(1, 3),
        times=st.sampled_from([1, 1, 2, 7]),
    )
    def arm(self, kind: str, operation: str, nth: int, times: int) -> None:
        if kind.startswith("arrive") and operation in ("get", "get_range", "list"):
            kind = "fail"
        getattr(self.store, kind)(operation, nth=nth, times=times)

    @rule()
    def heal(self) -> None:
        self.store.up()

    @precondition(lambda self: self.store.under_way)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        self.store.arrive(data.draw(st.integers(0, len(self.store.under_way) - 1)))

    @rule()
    def check_a_start(self) -> None:
        """A process that starts now, with a store that works, has everything; nobody sees that it was there."""
        if not hasattr(self, "inner"):
            return
        store, objects = self.store, dict(self.inner._objects)
        self.store = FaultyStore(self.inner)
        try:
            self.open()
        finally:
            self.store, self.inner._objects = store, objects


SharedLogModel.TestCase.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.timeout(7200 if EXAMPLES > 100 else 300)
class TestSharedLogModel(SharedLogModel.TestCase):  # type: ignore[misc]
    """Runs the state machine."""

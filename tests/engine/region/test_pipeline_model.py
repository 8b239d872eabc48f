"""The pipeline against a list: writers, a log that is slow and fails, changes, crashes and restarts in any order.

Every write has an index. It puts a row of its own, and the last row of its series, which holds the index: so what is
seen tells which writes are there, and in which order those of a series were applied.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.engine import lives
from tests.engine.harness import batch_of, read
from tests.engine.lives import APPEND, PLAIN
from tests.engine.memory_log import Append, Disk, MemoryLog
from tsdb.engine.engine import Engine
from tsdb.engine.errors import StorageFull, StorageUnavailable
from tsdb.model import AddColumn, RegionId

EXAMPLES = int(os.environ.get("TSDB_MODEL_EXAMPLES", "60"))
LAST = -1
"""The time of the last row of a series."""


@dataclass
class Write:
    """One write and what its sender knows of it."""

    index: int
    region: RegionId
    host: str
    done: Future[int]
    is_unknown: bool = False
    """A crash came before its answer."""
    is_gone: bool = False
    """A truncate came after it."""

    @property
    def is_acknowledged(self) -> bool:
        return self.done.done() and self.done.exception() is None

    @property
    def has_failed(self) -> bool:
        return not self.is_unknown and self.done.done() and self.done.exception() is not None


class PipelineModel(RuleBasedStateMachine):
    """Random lives of two regions of one worker."""

    @initialize()
    def start(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="tsdb-pipeline-"))
        self.disk, self.writes, self.columns = Disk(), list[Write](), 0
        self.decided: list[Append] = []
        self.open()
        lives.live(self.engine, lives.create(PLAIN), lives.create(APPEND))

    def open(self) -> None:
        self.log = MemoryLog(self.disk)
        self.engine: Engine = lives.open_life(self.root, log=self.log)
        self.log.is_held = True

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.log.release()
            self.engine.close(flush=False)
            shutil.rmtree(self.root)

    @rule(region=st.sampled_from([PLAIN, APPEND]), host=st.sampled_from("ab"))
    def write(self, region: RegionId, host: str) -> None:
        index = len(self.writes)
        rows = [{"host": host, "ts": at, "b": index} for at in (LAST, index)]
        done = self.engine.write(region, batch_of(self.engine.schema(region), rows))
        self.writes.append(Write(index, region, host, done))

    @precondition(lambda self: self.log.waiting)
    @rule(is_full=st.booleans())
    def decide(self, is_full: bool) -> None:
        """The log makes the oldest append durable, or refuses it; nobody knows yet."""
        self.log.errors.clear()
        if is_full:
            self.log.errors.append(StorageFull("full"))
        self.decided.append(self.log.decide_next())

    @precondition(lambda self: self.decided)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        """The log answers, in any order."""
        chosen = data.draw(st.integers(0, len(self.decided) - 1))
        self.log.answer(self.decided.pop(chosen))

    @rule()
    def let_everything_go(self) -> None:
        self.log.errors.clear()
        self.decided.clear()
        self.log.release()
        for each in self.writes:
            assert each.is_unknown or each.done.exception(30) is None or each.has_failed
        self.log.is_held = True

    @rule(region=st.sampled_from([PLAIN, APPEND]), is_early=st.booleans())
    def truncate(self, region: RegionId, is_early: bool) -> None:
        """A barrier: what was written before it is gone, what comes behind it stays."""
        done, before = self.engine.truncate(region), list(self.writes)
        if is_early:
            self.write(region, "a")
        self.let_everything_go()
        done.result(30)
        for each in before:
            each.is_gone |= each.region == region

    @rule(region=st.sampled_from([PLAIN, APPEND]))
    def flush(self, region: RegionId) -> None:
        done = self.engine.flush(region)
        self.let_everything_go()
        done.result(30)

    @rule(region=st.sampled_from([PLAIN, APPEND]))
    def alter(self, region: RegionId) -> None:
        self.columns += 1
        done = self.engine.alter(region, [AddColumn(f"c{self.columns}", pa.int32())])
        self.let_everything_go()
        done.result(30)

    @rule()
    def crash(self) -> None:
        """What the log has decided is durable, whether or not anybody was told; the rest never was."""
        for each in self.writes:
            each.is_unknown |= not each.done.done()
        self.decided.clear()
        self.log.break_for_good(StorageUnavailable("the process is gone"))
        self.engine.close(flush=False)
        self.open()

    @rule(flush=st.booleans())
    def restart(self, flush: bool) -> None:
        self.let_everything_go()
        self.engine.close(flush=flush)
        self.open()

    @invariant()
    def what_is_seen_is_what_was_promised(self) -> None:
        if not hasattr(self, "engine"):
            return
        for region in (PLAIN, APPEND):
            # Before the rows: what is acknowledged now must be among them.
            promised = {each.index for each in self._of(region) if each.is_acknowledged and not each.is_gone}
            rows = read(self.engine, region)
            there = {row["b"] for row in rows if row["ts"] != LAST}
            assert promised <= there
            assert not there & {each.index for each in self._of(region) if each.has_failed or each.is_gone}
            for host in {row["host"] for row in rows}:
                indexes = [row["b"] for row in rows if row["host"] == host and row["ts"] != LAST]
                assert [row["b"] for row in rows if row["host"] == host and row["ts"] == LAST] == [max(indexes)]

    def _of(self, region: RegionId) -> list[Write]:
        return [each for each in self.writes if each.region == region]


PipelineModel.TestCase.settings = settings(
    max_examples=max(1, EXAMPLES // 2), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestPipelineModel = PipelineModel.TestCase

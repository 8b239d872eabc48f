"""Processes that die and machines that lose power: what was acknowledged is there afterwards, once, and nothing else.

A child lives a scripted life and is killed at a named place; what it leaves behind is opened and compared with a model
of the life after the last acknowledged step, or after the one that was under way.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import shutil
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest

from tests.engine import crash_child, lives
from tests.engine.lives import APPEND, DROPPED, PLAIN, Rows, Sight, Step
from tests.faults import PowerLossFiles
from tsdb.clock import ManualClock
from tsdb.engine import index, manifest, sst, wal
from tsdb.engine.region import (
    change,
    closing,
    compact,
    drop,
    flush,
    hand_in,
    opening,
    quarantine,
    takeover,
    trim,
    write,
)
from tsdb.model import RegionId, RegionOptions
from tsdb.store import on_crash_point
from tsdb.units import Duration, Size

ANNOUNCED = (
    *wal.CRASH_POINTS,
    *manifest.CRASH_POINTS,
    *sst.CRASH_POINTS,
    *index.CRASH_POINTS,
    *flush.CRASH_POINTS,
    *change.CRASH_POINTS,
    *trim.CRASH_POINTS,
    *compact.CRASH_POINTS,
    *drop.CRASH_POINTS,
    *quarantine.CRASH_POINTS,
    *write.CRASH_POINTS,
)
MOVING = (
    *opening.CRASH_POINTS,
    *takeover.CRASH_POINTS,
    *closing.CRASH_POINTS,
    *wal.LATE_CRASH_POINTS,
    *hand_in.CRASH_POINTS,
)
"""Places that only nodes of a cluster pass: `test_crash.py` and `test_late_rows.py` in `tests/engine/moves`."""
STARTING = (
    "wal.recover.before_truncate",
    "wal.recover.after_truncate",
    "manifest.commit.before_put",
    "manifest.commit.after_put",
    "drop.before_delete",
    "drop.after_delete",
    *sst.CRASH_POINTS,
    *flush.CRASH_POINTS,
)
"""Places that a start passes which finds a torn log, a region to drop and more rows than fit into memory."""
LIVING = [point for point in ANNOUNCED if not point.startswith("wal.recover.")] + [
    "store.put.before_sync",
    "store.put.before_rename",
    "store.put.after_rename",
    "store.put_if_absent.before_link",
    "store.put_if_absent.after_link",
]
"""Places that the life itself passes."""
KILLED = 137
STEPS = lives.scripted()
SIGHTS = lives.sights(STEPS)


@pytest.fixture(scope="module")
def processes() -> multiprocessing.context.ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.engine.crash_child"])
    return context


@pytest.fixture(scope="module")
def passes(tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    """How often an undisturbed life passes each place."""
    counted: Counter[str] = Counter()
    engine = lives.open_life(tmp_path_factory.mktemp("undisturbed"))
    with on_crash_point(lambda name: counted.update([name])):
        for step in STEPS:
            step.run(engine)
    return counted


def kill(processes: multiprocessing.context.ForkServerContext, target: object, root: Path, place: str) -> int:
    """Let a child die; return how many steps it acknowledged in its life."""
    child = processes.Process(target=target, args=(str(root), place))  # type: ignore[arg-type]
    child.start()
    child.join(60)
    assert child.exitcode == KILLED
    return crash_child.acknowledged(root)


def check_promises(root: Path, acknowledged: int) -> Sight:
    """What was acknowledged is there, no step is there by half, and a second start shows the same."""
    engine = lives.open_life(root)
    assert not engine.quarantined
    seen = lives.see(engine)
    assert seen in SIGHTS[acknowledged : acknowledged + 2]
    for region in engine.region_ids():
        verified = engine.verify(region).result(30)
        assert not verified.damaged
        assert not verified.index_damaged
    assert not list(root.glob("spill/*")), "what a build of an index left"
    engine.close(flush=False)

    engine = lives.open_life(root)
    assert lives.see(engine) == seen
    lives.settle(engine)
    assert not lives.unknown_files(engine)
    assert not [path for path in lives.paths(root / "store") if ".tmp-" in path.name]
    engine.close(flush=False)
    return seen


def live_on(root: Path, acknowledged: int, seen: Sight) -> None:
    """The life goes on as if nothing had happened, and ends as it should."""
    is_done = acknowledged < len(STEPS) and seen == SIGHTS[acknowledged + 1]
    lives.begin(root, *STEPS[acknowledged + is_done :]).close()
    engine = lives.open_life(root)
    assert lives.see(engine) == SIGHTS[-1]
    lives.settle(engine)
    assert not lives.unknown_files(engine)
    engine.close(flush=False)


@pytest.mark.parametrize("point", LIVING)
def test_a_process_that_dies_anywhere_loses_nothing_acknowledged_and_doubles_nothing(
    point: str, tmp_path: Path, processes: multiprocessing.context.ForkServerContext, passes: Counter[str]
) -> None:
    count = passes[point]
    assert count, "the life does not pass this place"
    for turn in sorted({1, (count + 1) // 2, count}):
        root = tmp_path / str(turn)
        root.mkdir()
        acknowledged = kill(processes, crash_child.live, root, f"{point}:{turn}")
        seen = check_promises(root, acknowledged)
    live_on(root, acknowledged, seen)


@pytest.fixture(scope="module")
def left_behind(
    tmp_path_factory: pytest.TempPathFactory, processes: multiprocessing.context.ForkServerContext
) -> tuple[Path, int]:
    """What is left of a process that died while it dropped a region, with rows in the log, the last of them torn."""
    root = tmp_path_factory.mktemp("left")
    acknowledged = kill(processes, crash_child.live, root, "drop.after_marker")
    lives.torn_segment(root)
    return root, acknowledged


@pytest.mark.parametrize("point", STARTING)
def test_a_start_that_dies_anywhere_can_be_repeated(
    point: str,
    tmp_path: Path,
    processes: multiprocessing.context.ForkServerContext,
    left_behind: tuple[Path, int],
) -> None:
    left, acknowledged = left_behind
    root = tmp_path / "root"
    shutil.copytree(left, root)
    kill(processes, crash_child.start, root, point)
    live_on(root, acknowledged, check_promises(root, acknowledged))


def test_every_crash_point_of_the_engine_is_listed_and_exercised() -> None:
    package = Path(__file__).parents[2] / "tsdb" / "engine"
    announced = [
        name for path in package.rglob("*.py") for name in re.findall(r'crash_point\(\s*"([^"]+)"', path.read_text())
    ]
    assert sorted(announced) == sorted([*ANNOUNCED, *MOVING])
    assert set(ANNOUNCED) <= {*LIVING, *STARTING}


@dataclass(frozen=True)
class Loss:
    """What a power loss left, and which steps it may show."""

    root: Path
    first: int
    """Everything up to this step was acknowledged, and durable by the contract of the log."""
    last: int


def random_life(chance: random.Random, *, length: int) -> list[Step]:
    """Any order of anything, but for what needs another step first."""
    rows = Rows()
    regions = [PLAIN, APPEND]
    steps = [lives.create(PLAIN), lives.create(APPEND, options=RegionOptions(append_mode=True))]

    def keys() -> list[tuple[str, int]]:
        return [(chance.choice("abc"), chance.choice([0, 1, lives.DAY_MS])) for _ in range(chance.randint(1, 3))]

    while len(steps) < length:
        region = chance.choice(regions)
        kind = chance.choice(
            ["put"] * 6 + ["delete"] * 2 + ["flush"] * 3 + ["compact"] * 2 + ["purge", "truncate", "add", "drop"]
        )
        if kind == "put":
            steps.append(lives.put(region, rows.make(*keys())))
        elif kind == "delete" and region != APPEND:
            steps.append(lives.delete(region, rows.make(*keys())))
        elif kind == "flush":
            steps.append(lives.flush(region))
        elif kind == "compact":
            steps.append(lives.compact(region))
        elif kind == "purge":
            steps.append(lives.purge())
        elif kind == "truncate":
            steps.append(lives.truncate(region))
        elif kind == "add":
            steps.append(lives.add_column(region, f"c{len(steps)}", 5))
        elif kind == "drop" and DROPPED in regions:
            regions.remove(DROPPED)
            steps += [lives.drop(DROPPED), lives.tick()]
        elif kind == "drop" and len(steps) < length // 2 and DROPPED not in regions:
            regions.append(DROPPED)
            steps.append(lives.create(DROPPED))
    return [*steps, lives.close()]


@pytest.mark.parametrize("seed", range(4))
def test_a_power_loss_anywhere_loses_nothing_acknowledged_with_sync_write(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    root = tmp_path / "root"
    root.mkdir()
    files = PowerLossFiles(root)
    steps = random_life(chance, length=40)
    losses: list[Loss] = []
    done = 0

    def lose_power(name: str) -> None:
        if chance.random() < 0.06:
            after, first = tmp_path / f"after-{len(losses)}", done
            files.survive(after, chance.choice([None, chance]))
            losses.append(Loss(after, first, done + 1))

    engine = lives.open_life(root, files=files)
    with on_crash_point(lose_power):
        for step in steps:
            step.run(engine)
            done += 1
    assert len(losses) > 5
    expected = lives.sights(steps)
    for loss in losses:
        engine = lives.open_life(loss.root)
        assert not engine.quarantined
        seen = lives.see(engine)
        assert seen in expected[loss.first : loss.last + 1]
        lives.settle(engine)
        assert not lives.unknown_files(engine)
        engine.close(flush=False)


@pytest.mark.parametrize("seed", range(3))
def test_a_power_loss_without_sync_write_costs_only_the_end_of_each_region(tmp_path: Path, seed: int) -> None:
    """What was synced is there; what came later is there up to some step, without a hole before it."""
    chance = random.Random(100 + seed)
    root = tmp_path / "root"
    root.mkdir()
    files = PowerLossFiles(root)
    # Changes of the schema are durable at once, and would overtake rows that are not.
    steps = [step for step in random_life(chance, length=50) if not step.name.startswith(("alter", "drop", "close"))]
    options = replace(lives.WAL_OPTIONS, sync_write=False, sync_interval=Duration.of_seconds(3600))
    engine = lives.open_life(root, files=files, wal_options=options)
    losses: list[Loss] = []
    synced = 0
    for done, step in enumerate(steps, start=1):
        step.run(engine)
        if chance.random() < 0.2:
            cast(wal.Wal, engine.context.wal)._writer.sync_beside()
            synced = done
        if chance.random() < 0.3:
            after = tmp_path / f"after-{len(losses)}"
            files.survive(after, chance.choice([None, chance]))
            losses.append(Loss(after, synced, done))
    engine.close(flush=False)
    expected = lives.sights(steps)
    for loss in losses:
        engine = lives.open_life(loss.root)
        assert not engine.quarantined
        seen = lives.see(engine)
        for region in seen:
            assert seen[region] in shown(expected, region, loss)
        engine.close(flush=False)


def shown(expected: list[Sight], region: RegionId, loss: Loss) -> list[object]:
    return [sight[region] for sight in expected[loss.first : loss.last + 1] if region in sight]


def test_the_log_is_synced_every_second_without_sync_write(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    files = PowerLossFiles(root)
    options = replace(lives.WAL_OPTIONS, sync_write=False, sync_interval=Duration.of_seconds(0.05))
    engine = lives.open_life(root, files=files, wal_options=options)
    steps = [lives.create(PLAIN), lives.put(PLAIN, Rows().make(("a", 0)))]
    for step in steps:
        step.run(engine)
    lives.wait_until(lambda: engine.context.wal.statistics().unsynced_bytes == 0)
    files.survive(tmp_path / "after")
    engine.close(flush=False)
    engine = lives.open_life(tmp_path / "after")
    assert lives.see(engine) == lives.sights(steps)[-1]
    engine.close(flush=False)


def test_a_region_without_a_log_loses_in_a_crash_what_was_not_flushed_and_nothing_else(tmp_path: Path) -> None:
    rows = Rows()
    flushed = rows.make(("a", 0), ("b", 0))
    steps = [
        lives.create(PLAIN, options=RegionOptions(skip_wal=True)),
        lives.put(PLAIN, flushed),
        lives.flush(PLAIN),
        lives.put(PLAIN, rows.make(("a", 0), ("c", 0))),
    ]
    engine = lives.open_life(tmp_path)
    for step in steps:
        step.run(engine)
    assert lives.see(engine) == lives.sights(steps)[-1]
    engine.close(flush=False)

    engine = lives.open_life(tmp_path)
    assert lives.see(engine) == lives.sights(steps[:2])[-1]
    again = [*steps[:2], lives.put(PLAIN, rows.make(("a", 0), ("d", 1)))]
    again[-1].run(engine)
    engine.close()
    engine = lives.open_life(tmp_path)
    assert lives.see(engine) == lives.sights(again)[-1]
    engine.close()


def test_rows_written_after_a_replay_replace_those_that_were_replayed(tmp_path: Path) -> None:
    rows = Rows()
    steps = [lives.create(PLAIN), *(lives.put(PLAIN, rows.make(("a", 0), ("b", 0))) for _ in range(5))]
    lives.begin(tmp_path, *steps).close(flush=False)
    for is_flushed in (False, True, False):
        steps += [lives.put(PLAIN, rows.make(("a", 0))), lives.delete(PLAIN, rows.make(("b", 0)))]
        engine = lives.begin(tmp_path, *steps[-2:])
        assert lives.see(engine) == lives.expected(*steps)
        engine.close(flush=is_flushed)
    engine = lives.open_life(tmp_path)
    assert lives.see(engine) == lives.expected(*steps)
    engine.close()


def test_a_start_deletes_what_an_unfinished_flush_left_and_nothing_that_is_newer(tmp_path: Path) -> None:
    steps = [lives.create(PLAIN), lives.put(PLAIN, Rows().make(("a", 0))), lives.flush(PLAIN)]
    engine = lives.open_life(tmp_path)
    for step in steps:
        step.run(engine)
    store, directory = engine.context.store, lives.directory_of(PLAIN)
    engine.close()
    orphan = manifest.data_path(directory, "0" * 32)
    store.put(orphan, b"left by a flush")
    store.put(manifest.index_path(directory, "0" * 32), b"left by a flush")
    store.put(f"{directory}/notes.txt", b"somebody else's")

    engine = lives.open_life(tmp_path)
    lives.settle(engine)
    assert lives.unknown_files(engine) == {f"{directory}/notes.txt"}
    store.put(orphan, b"of a flush under way")
    lives.settle(engine)
    assert orphan in lives.unknown_files(engine)
    engine.close()


def test_a_start_deletes_what_was_left_in_the_same_millisecond(tmp_path: Path) -> None:
    engine = lives.begin(tmp_path, lives.create(PLAIN))
    orphan = manifest.data_path(lives.directory_of(PLAIN), "0" * 32)
    engine.context.store.put(orphan, b"left by a flush")
    engine.close()
    now_ns = time.time_ns() // 1_000_000 * 1_000_000 + 500_000
    os.utime(tmp_path / "store" / orphan, ns=(now_ns, now_ns - 1000))
    engine = lives.open_life(tmp_path, clock=ManualClock(now_ns))
    lives.settle(engine)
    assert not lives.unknown_files(engine)
    engine.close()


def test_files_that_a_truncate_left_behind_are_deleted_and_forgotten_by_the_next_start(tmp_path: Path) -> None:
    rows = Rows()
    engine = lives.open_life(tmp_path)
    for step in [lives.create(PLAIN), lives.put(PLAIN, rows.make(("a", 0))), lives.flush(PLAIN)]:
        step.run(engine)
    reader = engine._region(PLAIN).version
    lives.truncate(PLAIN).run(engine)
    lives.settle(engine)
    assert len(lives.unknown_files(engine)) == 2
    assert engine._region(PLAIN).manifest.state.removed_files
    engine.close(flush=False)
    assert reader.files

    engine = lives.open_life(tmp_path)
    lives.settle(engine)
    assert not lives.unknown_files(engine)
    for step in [lives.put(PLAIN, rows.make(("a", 0))), lives.flush(PLAIN)]:
        step.run(engine)
    assert not engine._region(PLAIN).manifest.state.removed_files
    engine.close()


def test_files_that_nobody_reads_any_more_are_forgotten_by_the_manifest(tmp_path: Path) -> None:
    """Otherwise it would grow with every file that ever was."""
    rows = Rows()
    engine = lives.open_life(tmp_path, options=replace(lives.OPTIONS, global_write_buffer_size=Size(1 << 20)))
    lives.create(PLAIN).run(engine)
    for _ in range(4):
        for step in [lives.put(PLAIN, rows.make(("a", 0))), lives.flush(PLAIN), lives.truncate(PLAIN)]:
            step.run(engine)
        lives.settle(engine)
    assert len(engine._region(PLAIN).manifest.state.removed_files) == 1
    engine.close()

"""Processes that die and machines that lose power: acknowledged entries survive."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.engine.wal import crash_child
from tests.engine.wal.logs import Floors, append, make_entry, make_frame, open_wal, opened, replayed, segments
from tests.faults import PowerLossFiles
from tsdb.engine.wal import CRASH_POINTS, LATE_CRASH_POINTS
from tsdb.store import on_crash_point
from tsdb.units import Duration

_PASSES = {"wal.append": (1, 6), "wal.rotate": (1, 4), "wal.purge": (1, 2), "wal.recover": (1,), "wal.close": (1,)}


@pytest.fixture(scope="module")
def context() -> multiprocessing.context.ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.engine.wal.crash_child"])
    return context


def check_promises(directory: Path, acknowledged: dict[int, int], flushed: dict[int, int]) -> None:
    """All that was acknowledged is flushed or replayed, unchanged and without holes."""
    wal, recovery = open_wal(directory)
    assert recovery.corruptions == ()
    replay = wal.read(Floors(flushed))
    assert replay.quarantined == {}
    reached = {region: flushed.get(region, 0) for region in crash_child.REGIONS}
    for entry in replayed(wal, Floors(flushed)):
        assert entry == make_entry(entry.region_id, reached[entry.region_id] + 1)
        reached[entry.region_id] = entry.entry_id
    wal.seal(clean=False)
    for region, last in acknowledged.items():
        assert reached[region] >= last


@pytest.mark.parametrize(
    ("point", "sync_write"),
    [(point, True) for point in CRASH_POINTS] + [(point, False) for point in CRASH_POINTS if "sync" not in point],
)
def test_a_process_that_dies_anywhere_loses_nothing_acknowledged(
    tmp_path: Path, context: multiprocessing.context.ForkServerContext, point: str, sync_write: bool
) -> None:
    log, promises = tmp_path / "log", tmp_path / "promises"
    for passes in _PASSES[point.rsplit(".", 1)[0]]:
        if point.startswith("wal.recover"):
            with opened(log):
                pass
            with segments(log)[-1].open("ab") as segment:
                segment.write(b"torn")
        arguments = (str(log), str(promises), f"{point}:{passes}", sync_write, 12)
        child = context.Process(target=crash_child.work, args=arguments)
        child.start()
        child.join(30)
        assert child.exitcode == 137
        check_promises(log, *crash_child.read_promises(promises))


def test_a_process_that_is_killed_again_and_again_loses_nothing_acknowledged(tmp_path: Path) -> None:
    log, promises = tmp_path / "log", tmp_path / "promises"
    for seconds in (0.1, 0.15):
        child = subprocess.Popen([sys.executable, "-m", "tests.engine.wal.crash_child", str(log), str(promises)])
        size = promises.stat().st_size if promises.exists() else 0
        deadline = time.monotonic() + 30
        while not promises.exists() or promises.stat().st_size == size:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(seconds)
        os.kill(child.pid, signal.SIGKILL)
        child.wait(30)
        check_promises(log, *crash_child.read_promises(promises))


@pytest.mark.parametrize("seed", range(4))
def test_a_power_loss_anywhere_loses_nothing_acknowledged_with_sync_write(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    root = tmp_path / "log"
    root.mkdir()
    files = PowerLossFiles(root)
    acknowledged: dict[int, int] = {}
    flushed: dict[int, int] = {}
    losses: list[tuple[Path, dict[int, int], dict[int, int]]] = []

    def lose_power(name: str) -> None:
        for mode in (None, chance):
            if chance.random() < 0.3:
                after = tmp_path / f"after-{len(losses)}"
                losses.append((after, dict(acknowledged), dict(flushed)))
                files.survive(after, mode)

    wal, _ = open_wal(root, files=files, file_size=900)
    with on_crash_point(lose_power):
        for number in range(1, 15):
            frames = [make_frame(make_entry(region, number)) for region in crash_child.REGIONS]
            wal.append(frames).result(10)
            acknowledged.update(dict.fromkeys(crash_child.REGIONS, number))
            if number % 4 == 0:
                flushed.update(dict.fromkeys(crash_child.REGIONS, number))
                for region in crash_child.REGIONS:
                    wal.floor(region, number)
                wal.purge()
        wal.seal()
        lose_power("end")
    assert len(losses) > 20
    for loss in losses:
        check_promises(*loss)


@pytest.mark.parametrize("seed", range(4))
def test_a_power_loss_without_sync_write_costs_only_what_was_not_synced_yet(tmp_path: Path, seed: int) -> None:
    """And never an entry before one that survives."""
    chance = random.Random(seed)
    root = tmp_path / "log"
    root.mkdir()
    files = PowerLossFiles(root)
    durable: dict[int, int] = {}
    losses: list[tuple[Path, dict[int, int], dict[int, int]]] = []
    never = Duration.of_seconds(3600)
    wal, _ = open_wal(root, files=files, file_size=1500, sync_write=False, sync_interval=never)
    for number in range(1, 30):
        wal.append([make_frame(make_entry(region, number)) for region in crash_child.REGIONS]).result(10)
        if number % 5 == 0:
            wal._writer.sync_beside()
            durable = dict.fromkeys(crash_child.REGIONS, number)
        for mode in (None, chance):
            after = tmp_path / f"after-{len(losses)}"
            losses.append((after, dict(durable), {}))
            files.survive(after, mode)
    wal.seal()
    for loss in losses:
        check_promises(*loss)


def test_a_power_loss_after_a_restart_does_not_cost_what_the_restart_replayed(tmp_path: Path) -> None:
    """What a killed process left in the page cache is synced before it is built upon."""
    root = tmp_path / "log"
    with opened(root, sync_write=False) as wal:
        append(wal, make_entry(1, 1))
        unsynced = segments(root)[0].read_bytes()
    files = PowerLossFiles(root)
    files._entries[segments(root)[0]].durable = unsynced[:48]
    wal, _ = open_wal(root, files=files)
    assert replayed(wal) == [make_entry(1, 1)]
    files.survive(tmp_path / "after")
    wal.seal(clean=False)
    check_promises(tmp_path / "after", {1: 1}, {})


def test_every_crash_point_of_the_log_is_listed() -> None:
    package = Path(__file__).parents[3] / "tsdb" / "engine" / "wal"
    announced = [
        line.split('crash_point("')[1].split('"')[0]
        for path in package.glob("*.py")
        for line in path.read_text().splitlines()
        if 'crash_point("' in line
    ]
    assert sorted(announced) == sorted([*CRASH_POINTS, *LATE_CRASH_POINTS])

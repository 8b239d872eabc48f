"""Drops of regions on disks that fail: a region is there or it is not, whenever the process ends."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.engine import lives
from tests.engine.fault_steps import CREATED, check_after_restart
from tests.engine.lives import APPEND, DROPPED, PLAIN, Rows
from tests.faults import FaultyFiles
from tsdb.engine.errors import (
    RegionNotFound,
    RegionReadOnly,
)
from tsdb.store import ObjectData, StoreError


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.mark.parametrize("operation", ["fsync", "rename"])
def test_a_drop_whose_marker_was_not_written_is_none(tmp_path: Path, rows: Rows, operation: str) -> None:
    files = FaultyFiles()
    steps = [*CREATED, lives.put(DROPPED, rows.make(("a", 0)))]
    engine = lives.begin(tmp_path, *steps, files=files)
    files.fail(operation, errno.EIO, name="3_0000000000")
    with pytest.raises(StoreError):
        lives.drop(DROPPED).run(engine)
    steps.append(lives.put(DROPPED, rows.make(("b", 0))))
    lives.live(engine, steps[-1])
    assert lives.see(engine) == lives.expected(*steps)
    engine.close(flush=False)
    check_after_restart(tmp_path, *steps)


@pytest.mark.parametrize("is_lost", [False, True], ids=["kept", "lost"])
def test_a_drop_whose_marker_may_not_survive_a_power_loss_is_decided_by_the_next_start(
    tmp_path: Path, rows: Rows, is_lost: bool
) -> None:
    files = FaultyFiles()
    steps = [*CREATED, lives.put(DROPPED, rows.make(("a", 0)))]
    engine = lives.begin(tmp_path, *steps, files=files)
    files.fail("fsync_dir", errno.EIO, name="3_0000000000")
    with pytest.raises(StoreError):
        lives.drop(DROPPED).run(engine)
    # No second sync is tried, and nothing is acknowledged that the marker would take along.
    for step in (lives.drop(DROPPED), lives.put(DROPPED, rows.make(("b", 0)))):
        with pytest.raises(RegionReadOnly, match="unknown whether"):
            step.run(engine)
    assert lives.see(engine) == lives.expected(*steps)
    engine.close(flush=False)
    if is_lost:
        (tmp_path / "store" / lives.directory_of(DROPPED) / ".dropping").unlink()
    else:
        steps.append(lives.drop(DROPPED))
    check_after_restart(tmp_path, *steps)


def test_a_drop_is_one_although_the_reply_of_the_store_was_lost(tmp_path: Path, rows: Rows) -> None:
    class Forgetful(lives.ForgetfulStore):
        def put(self, path: str, data: ObjectData) -> None:
            super().put(path, data)
            if path.endswith(".dropping"):
                raise StoreError("the store did not answer in time", path=path)

    steps = [*CREATED, lives.put(DROPPED, rows.make(("a", 0))), lives.drop(DROPPED)]
    engine = lives.begin(tmp_path, *steps, store=Forgetful(tmp_path))
    with pytest.raises(RegionNotFound):
        lives.put(DROPPED, rows.make(("b", 0))).run(engine)
    engine.close(flush=False)
    check_after_restart(tmp_path, *steps)


def test_a_region_of_which_it_is_unknown_whether_it_is_dropped_takes_no_writes(tmp_path: Path, rows: Rows) -> None:
    files = FaultyFiles()
    engine = lives.begin(tmp_path, *CREATED, files=files)
    files.fail("fsync_dir", errno.EIO, name="3_0000000000")
    files.fail("stat", errno.EIO, name=".dropping")
    with pytest.raises(StoreError):
        lives.drop(DROPPED).run(engine)
    with pytest.raises(RegionReadOnly, match="unknown whether"):
        lives.put(DROPPED, rows.make(("a", 0))).run(engine)
    engine.close(flush=False)
    check_after_restart(tmp_path, *CREATED, lives.drop(DROPPED))


def test_a_drop_is_complete_although_manifest_and_log_do_not_hear_of_it(tmp_path: Path, rows: Rows) -> None:
    files = FaultyFiles()
    engine = lives.begin(tmp_path, *CREATED, lives.put(DROPPED, rows.make(("a", 0))), files=files)
    files.fail("write", errno.EIO, name="3_0000000000/manifest", times=-1)
    lives.drop(DROPPED).run(engine)
    assert DROPPED not in engine.region_ids()
    assert engine.context.buffer.used == 0
    lives.tick().run(engine)
    assert not (tmp_path / "store" / lives.directory_of(DROPPED)).exists()
    engine.close(flush=False)
    check_after_restart(tmp_path, *CREATED, lives.drop(DROPPED))


def test_the_files_of_a_dropped_region_that_cannot_be_deleted_are_tried_again(tmp_path: Path, rows: Rows) -> None:
    files = FaultyFiles()
    steps = [*CREATED, lives.put(DROPPED, rows.make(("a", 0))), lives.flush(DROPPED), lives.drop(DROPPED)]
    engine = lives.begin(tmp_path, *steps, files=files)
    files.fail("unlink", errno.EIO, name="3_0000000000")
    lives.tick().run(engine)
    assert list(engine.context.store.list(lives.directory_of(DROPPED)))
    lives.tick().run(engine)
    assert not list(engine.context.store.list(lives.directory_of(DROPPED)))
    engine.close()


def test_a_drop_that_cannot_be_finished_does_not_keep_the_engine_from_starting(tmp_path: Path, rows: Rows) -> None:
    steps = [*CREATED, lives.put(DROPPED, rows.make(("a", 0))), lives.flush(DROPPED), lives.drop(DROPPED)]
    lives.begin(tmp_path, *steps).close(flush=False)
    files = FaultyFiles()
    files.fail("unlink", errno.EIO, name="3_0000000000", times=-1)
    engine = lives.open_life(tmp_path, files=files)
    assert set(engine.region_ids()) == {PLAIN, APPEND}
    engine.close(flush=False)
    check_after_restart(tmp_path, *steps)

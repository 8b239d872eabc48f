"""Backups and restores that end in the middle: nothing half made is seen, and the next attempt goes on."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.backup.world import CPU, back_up, opened, repository_at, restore
from tests.engine.lives import wait_until
from tsdb.backup import verify_backup
from tsdb.backup._restore import CRASH_POINTS as RESTORE_POINTS
from tsdb.backup._take import CRASH_POINTS as BACKUP_POINTS
from tsdb.embedded import Connection
from tsdb.errors import StartError, TsdbError
from tsdb.store import on_crash_point


class _Ended(Exception):
    """The process would have died."""


def _ending_at(point: str, after: int = 1) -> AbstractContextManager[None]:
    left = after
    lock = threading.Lock()

    def end(passed: str) -> None:
        nonlocal left
        with lock:
            left -= passed == point
            is_over = passed == point and left == 0
        if is_over:
            raise _Ended

    return on_crash_point(end)


@pytest.mark.parametrize("point", BACKUP_POINTS)
def test_a_backup_that_fails_leaves_files_for_the_next_one(tmp_path: Path, point: str) -> None:
    with opened(tmp_path / "a") as db:
        db.sql(CPU)
        db.sql("INSERT INTO cpu VALUES ('a', 1, 1)")
        back_up(db, tmp_path / "b", "first")
        db.sql("INSERT INTO cpu VALUES ('b', 2, 2)")
        with _ending_at(point), pytest.raises(TsdbError, match="_Ended"):
            back_up(db, tmp_path / "b", "second")
        repository = repository_at(tmp_path / "b")
        # The summary is the backup: what fails behind it does not take it back.
        is_made = point == "backup.after_summary"
        assert sorted(repository.names()) == (["first", "second"] if is_made else ["first"])
        third = back_up(db, tmp_path / "b", "third")
        assert third["files_done"] == 4
        if point != "backup.after_file":
            assert third["files_copied"] == 0
    assert len(repository.file_sizes()) == 4
    assert verify_backup(repository, repository.summaries()).damaged == ()
    assert {path.parent.name for path in tmp_path.glob("b/backups/*/*")} == set(repository.names())


@pytest.mark.parametrize("point", RESTORE_POINTS)
def test_a_restore_that_ends_anywhere_is_continued(tmp_path: Path, point: str) -> None:
    with opened(tmp_path / "a") as db:
        db.sql(CPU)
        for number in range(2):
            db.sql(f"INSERT INTO cpu VALUES ('a', {number}, 1)")
            db.sql("ADMIN flush_table('cpu')")
        back_up(db, tmp_path / "b")
    with _ending_at(point), pytest.raises(_Ended):
        restore(tmp_path / "b", tmp_path / "c")
    with pytest.raises(StartError, match="is not complete"), opened(tmp_path / "c"):
        pass
    restored = restore(tmp_path / "b", tmp_path / "c")
    assert restored.files_done == 4
    if point not in ("restore.after_mark", "restore.after_file"):
        assert restored.files_copied == 0
    with opened(tmp_path / "c") as db:
        assert db.sql("SELECT count(*) FROM cpu").fetchall() == [(2,)]


def test_one_backup_at_a_time_and_a_cancelled_one_leaves_nothing(tmp_path: Path) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def pause(passed: str) -> None:
        if passed == "backup.before_content":
            reached.set()
            assert go_on.wait(60)

    with opened(tmp_path / "a") as db, on_crash_point(pause):
        db.sql(CPU)
        [(job,)] = db.sql(f"ADMIN start_backup('{tmp_path / 'b'}')").fetchall()
        assert reached.wait(60)
        with pytest.raises(TsdbError, match="is running"):
            back_up(db, tmp_path / "other")
        # Files that are being copied stay, whatever happens to their table.
        db.sql("DROP TABLE cpu")
        db.sql(f"ADMIN cancel_backup('{job}')")
        go_on.set()
        wait_until(lambda: '"running"' not in _state(db, job), seconds=60)
        assert '"cancelled"' in _state(db, job)
        assert repository_at(tmp_path / "b").names() == []
        assert back_up(db, tmp_path / "b")["state"] == "done"


def _state(db: Connection, job: str) -> str:
    [(state,)] = db.sql(f"ADMIN backup_state('{job}')").fetchall()
    return str(state)

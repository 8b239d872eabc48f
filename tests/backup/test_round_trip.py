"""What is restored is what was there: every kind of table, and only new files are copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backup.world import CPU, back_up, opened, repository_at, restore
from tsdb.backup import BackupDamaged, prune_backups, verify_backup
from tsdb.embedded import Connection
from tsdb.errors import TsdbError

SETUP = (
    CPU,
    "INSERT INTO cpu VALUES ('a', 1000, 1), ('b', 1000, 2), ('a', 2000, 3), ('c', 3000, 4)",
    "ADMIN flush_table('cpu')",
    "DELETE FROM cpu WHERE host = 'b'",
    "ALTER TABLE cpu ADD COLUMN w STRING DEFAULT 'none'",
    "INSERT INTO cpu VALUES ('a', 4000, 5, 'it''s')",
    "CREATE TABLE log (ts TIMESTAMP TIME INDEX, line STRING) WITH (append_mode = 'true')",
    "INSERT INTO log VALUES (1, 'x'), (1, 'x'), (2, 'y')",
    "CREATE TABLE parts (id INT, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY(id))"
    " PARTITION ON COLUMNS (id) (id < 10, id >= 10 AND id < 20, id >= 20)",
    "INSERT INTO parts VALUES (1, 1, 1), (11, 1, 2), (21, 1, 3)",
    "CREATE TABLE physical (ts TIMESTAMP TIME INDEX, val DOUBLE) ENGINE = metric WITH (physical_metric_table = '')",
    "CREATE TABLE metric_a (ts TIMESTAMP TIME INDEX, val DOUBLE, job STRING, PRIMARY KEY(job))"
    " ENGINE = metric WITH (on_physical_table = 'physical')",
    "INSERT INTO metric_a (ts, val, job) VALUES (1, 1.5, 'api'), (2, 2.5, 'web')",
    "CREATE TABLE gone (ts TIMESTAMP TIME INDEX, v DOUBLE)",
    "INSERT INTO gone VALUES (1, 1)",
    "DROP TABLE gone",
    "CREATE TABLE truncated (ts TIMESTAMP TIME INDEX, v DOUBLE)",
    "INSERT INTO truncated VALUES (1, 1)",
    "TRUNCATE TABLE truncated",
    "CREATE TABLE empty (ts TIMESTAMP TIME INDEX, v DOUBLE)",
    "CREATE DATABASE other WITH (ttl = '200y')",
    "CREATE TABLE other.t (ts TIMESTAMP TIME INDEX, v DOUBLE)",
    "INSERT INTO other.t VALUES (7, 7)",
    "CREATE VIEW hot AS SELECT host, max(v) AS top FROM cpu GROUP BY host",
    "CREATE USER ann IDENTIFIED BY 'secret-of-ann'",
)
QUESTIONS = (
    "SELECT * FROM cpu ORDER BY host, ts",
    "SELECT * FROM log ORDER BY ts, line",
    "SELECT * FROM parts ORDER BY id",
    "SELECT * FROM metric_a ORDER BY ts",
    "SELECT * FROM truncated",
    "SELECT * FROM empty",
    "SELECT * FROM other.t",
    "SELECT * FROM hot ORDER BY host",
    "SHOW TABLES",
    "SHOW DATABASES",
    "SHOW USERS",
    "SHOW CREATE TABLE cpu",
    "SHOW CREATE TABLE parts",
    "SHOW CREATE DATABASE other",
)


def _answers(db: Connection) -> list[list[tuple[object, ...]]]:
    return [db.sql(question).fetchall() for question in QUESTIONS]


def test_everything_comes_back_and_takes_new_writes(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as db:
        for statement in SETUP:
            db.sql(statement)
        expected = _answers(db)
        back_up(db, tmp_path / "b")
        # What happens later is not in it.
        db.sql("INSERT INTO cpu VALUES ('later', 1, 1, NULL)")
        db.sql("DROP TABLE log")
    restore(tmp_path / "b", tmp_path / "c")
    with opened(tmp_path / "c") as db:
        assert _answers(db) == expected
        db.sql("INSERT INTO cpu VALUES ('a', 4000, 6, 'new'), ('z', 1, 1, NULL)")
        db.sql("ALTER TABLE cpu ADD COLUMN x DOUBLE")
        db.sql("INSERT INTO metric_a (ts, val, job) VALUES (1, 9, 'api')")
        db.sql("CREATE TABLE fresh (ts TIMESTAMP TIME INDEX)")
    with opened(tmp_path / "c") as db:
        assert db.sql("SELECT v, w, x FROM cpu WHERE host = 'a' AND ts = 4000").fetchall() == [(6.0, "new", None)]
        assert db.sql("SELECT count(*) FROM cpu").fetchall() == [(5,)]
        assert db.sql("SELECT val FROM metric_a WHERE job = 'api'").fetchall() == [(9.0,)]
        # A backup of what was restored shares the files with the first one.
        assert back_up(db, tmp_path / "b")["files_copied"] < back_up(db, tmp_path / "d")["files_copied"]


def test_some_tables_are_restored_without_the_others(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as db:
        for statement in SETUP:
            db.sql(statement)
        back_up(db, tmp_path / "b")
        chosen = ("SELECT * FROM cpu ORDER BY host, ts", "SELECT * FROM metric_a ORDER BY ts", "SELECT * FROM other.t")
        expected = [db.sql(question).fetchall() for question in chosen]
    with pytest.raises(TsdbError, match=r"did you mean public\.cpu"):
        restore(tmp_path / "b", tmp_path / "c", tables=["public.cpuu"])
    assert not (tmp_path / "c" / "restore.json").exists()
    wanted = ["public.cpu", "public.metric_a", "other.*"]
    progress = restore(tmp_path / "b", tmp_path / "c", tables=wanted)
    assert progress.files_copied == progress.files_total
    with opened(tmp_path / "c") as db:
        assert [db.sql(question).fetchall() for question in chosen] == expected
        shown = {name for (name,) in db.sql("SHOW TABLES").fetchall()}
        assert shown - {"numbers"} == {"cpu", "metric_a", "physical"}
        db.sql("CREATE TABLE log (ts TIMESTAMP TIME INDEX, line STRING)")
        db.sql("INSERT INTO cpu VALUES ('new', 1, 1, NULL)")
    with opened(tmp_path / "c") as db:
        assert db.sql("SELECT host FROM cpu WHERE host = 'new'").fetchall() == [("new",)]


def test_a_table_is_restored_into_a_running_database(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as db:
        for statement in SETUP:
            db.sql(statement)
        place = tmp_path / "b"
        back_up(db, place, "good")
        expected = db.sql("SELECT * FROM cpu ORDER BY host, ts").fetchall()
        db.sql("DELETE FROM cpu")
        db.sql("DROP TABLE log")
        assert db.sql(f"ADMIN restore_table('{place}', 'good', 'public.cpu', 'cpu_again')").fetchall() == [(4,)]
        assert db.sql("SELECT * FROM cpu_again ORDER BY host, ts").fetchall() == expected
        assert db.sql("SELECT * FROM cpu").fetchall() == []
        assert db.sql(f"ADMIN restore_table('{place}', 'latest', 'log')").fetchall() == [(3,)]
        assert db.sql("SELECT count(*) FROM log").fetchall() == [(3,)]
        for table, rows in {"public.parts": 3, "public.metric_a": 2, "other.t": 1, "public.empty": 0}.items():
            text = f"ADMIN restore_table('{place}', 'good', '{table}', 'public.again_{rows}')"
            assert db.sql(text).fetchall() == [(rows,)]
            again = db.sql(f"SELECT count(*) FROM again_{rows}").fetchall()
            assert again == db.sql(f"SELECT count(*) FROM {table}").fetchall() == [(rows,)]
        before = db.sql("SHOW TABLES").fetchall()
        for arguments in (
            "'good', 'cpu'",
            "'good', 'cpu', 'hot'",
            "'bad', 'log', 'x'",
            "'good', 'nope', 'x'",
            "'good', 'physical', 'x'",
            "'good'",
        ):
            with pytest.raises(TsdbError):
                db.sql(f"ADMIN restore_table('{place}', {arguments})")
        with pytest.raises(TsdbError, match="no directory"):
            db.sql(f"ADMIN restore_table('{tmp_path / 'nowhere'}', 'good', 'cpu', 'x')")
        assert db.sql("SHOW TABLES").fetchall() == before
        assert list((tmp_path / "a" / "restoring").iterdir()) == []
    with opened(tmp_path / "a") as db:
        assert db.sql("SELECT * FROM cpu_again ORDER BY host, ts").fetchall() == expected


def test_a_table_that_cannot_be_restored_is_not_there(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as db:
        db.sql(CPU)
        db.sql("INSERT INTO cpu VALUES ('a', 1, 1)")
        back_up(db, tmp_path / "b")
        for file in (tmp_path / "b").glob("files/*/*.data"):
            file.write_bytes(bytes(file.stat().st_size))
        with pytest.raises(BackupDamaged):
            db.sql(f"ADMIN restore_table('{tmp_path / 'b'}', 'latest', 'cpu', 'again')")
        assert ("again",) not in db.sql("SHOW TABLES").fetchall()
        assert len(db.sql("SHOW TABLES").fetchall()) == 2


def test_only_new_files_are_copied(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as db:
        db.sql(CPU)
        db.sql("INSERT INTO cpu VALUES ('a', 1, 1)")
        first = back_up(db, tmp_path / "b", "first")
        assert (first["files_copied"], first["files_done"], first["rows"]) == (2, 2, 1)
        again = back_up(db, tmp_path / "b")
        assert (again["files_copied"], again["bytes_copied"], again["files_done"]) == (0, 0, 2)
        db.sql("INSERT INTO cpu VALUES ('b', 2, 2)")
        third = back_up(db, tmp_path / "b", "third")
        assert (third["files_copied"], third["files_done"], third["rows"]) == (2, 4, 2)
    repository = repository_at(tmp_path / "b")
    assert len(repository.file_sizes()) == 4
    restore(tmp_path / "b", tmp_path / "c", "first")
    with opened(tmp_path / "c") as db:
        assert db.sql("SELECT host FROM cpu").fetchall() == [("a",)]


def test_a_prune_keeps_what_is_needed(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as db:
        db.sql(CPU)
        for number in range(3):
            db.sql(f"INSERT INTO cpu VALUES ('h', {number}, {number})")
            back_up(db, tmp_path / "b", f"n{number}")
        db.sql("ADMIN compact_table('cpu')")
        db.sql("TRUNCATE TABLE cpu")
        db.sql("INSERT INTO cpu VALUES ('h', 9, 9)")
        back_up(db, tmp_path / "b", "last")
    repository = repository_at(tmp_path / "b")
    assert len(repository.file_sizes()) == 8
    found = prune_backups(repository, keep=2)
    assert (found.deleted, found.kept, found.files) == (("n0", "n1"), ("n2", "last"), 0)
    assert verify_backup(repository, repository.summaries()).damaged == ()
    found = prune_backups(repository, keep=1)
    assert (found.deleted, found.files) == (("n2",), 6)
    assert len(repository.file_sizes()) == 2
    assert prune_backups(repository, keep=1).deleted == ()
    restore(tmp_path / "b", tmp_path / "c")
    with opened(tmp_path / "c") as db:
        assert db.sql("SELECT v FROM cpu").fetchall() == [(9.0,)]


def test_a_backup_name_is_used_once(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as db:
        back_up(db, tmp_path / "b", "x")
        for name in ("x", "latest", "../x", "a/b", "-"):
            with pytest.raises(TsdbError):
                back_up(db, tmp_path / "b", name)
        assert repository_at(tmp_path / "b").names() == ["x"]
        with pytest.raises(TsdbError, match="no option"):
            back_up(db, tmp_path / "b", "y", "skip_damaged=perhaps")

"""Bytes that are torn, flipped or missing: the regions that lost something say what and where, the others serve."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine import lives
from tests.engine.fault_steps import CREATED, check_after_restart
from tests.engine.harness import read
from tests.engine.lives import APPEND, PLAIN, Rows, Step
from tests.faults import FaultyFiles
from tsdb.engine.errors import FileCorrupted, ManifestMismatch, RegionNotFound, RegionQuarantined
from tsdb.store import LocalStore, ObjectMeta


@pytest.fixture
def rows() -> Rows:
    return Rows()


def test_a_torn_end_of_the_log_is_cut_off(tmp_path: Path, rows: Rows) -> None:
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.put(APPEND, rows.make(("a", 0)))]
    lives.begin(tmp_path, *steps).close(flush=False)
    (tmp_path / "wal" / "CLEAN").unlink()
    lives.torn_segment(tmp_path)
    check_after_restart(tmp_path, *steps)
    steps.append(lives.put(PLAIN, rows.make(("b", 0))))
    lives.begin(tmp_path, steps[-1]).close(flush=False)
    check_after_restart(tmp_path, *steps)


def long_log(rows: Rows) -> list[Step]:
    """A log of several segments, with something of each region in every one."""
    steps = [*CREATED]
    for number in range(12):
        host = "victim" if number == 4 else f"host{number}"
        steps += [lives.put(PLAIN, rows.make((host, number))), lives.put(APPEND, rows.make((f"h{number}", number)))]
    return steps


def segments(root: Path) -> list[Path]:
    return sorted((root / "wal").glob("*.wal"))


def test_a_flipped_bit_in_the_log_quarantines_the_region_that_lost_an_entry_and_no_other(
    tmp_path: Path, rows: Rows
) -> None:
    steps = long_log(rows)
    lives.begin(tmp_path, *steps).close(flush=False)
    (damaged,) = [path for path in segments(tmp_path) if b"victim" in path.read_bytes()]
    assert damaged != segments(tmp_path)[-1]
    content = damaged.read_bytes()
    place = content.index(b"victim")
    damaged.write_bytes(content[:place] + b"V" + content[place + 1 :])

    for _ in range(2):
        engine = lives.open_life(tmp_path)
        assert set(engine.quarantined) == {PLAIN}
        tried = (lives.put(PLAIN, rows.make(("a", 0))), lives.flush(PLAIN), lives.create(PLAIN), lives.compact(PLAIN))
        for step in tried:
            with pytest.raises(RegionQuarantined) as error:
                step.run(engine)
            message = str(error.value)
            assert damaged.stem in message
            first, last = (int(word) for word in message.split(" bytes ")[1].split(":")[0].split(" to "))
            assert first < place < last
        assert lives.see(engine)[APPEND] == lives.expected(*steps)[APPEND]
        steps.append(lives.put(APPEND, rows.make(("later", 0))))
        lives.live(engine, steps[-1], lives.flush(APPEND), lives.purge())
        engine.close()

    damaged.write_bytes(content)
    check_after_restart(tmp_path, *steps)


def test_a_missing_segment_quarantines_the_regions_that_had_rows_in_it_and_no_others(
    tmp_path: Path, rows: Rows
) -> None:
    steps = long_log(rows)
    lives.begin(tmp_path, *steps, lives.flush(APPEND)).close(flush=False)
    gone = segments(tmp_path)[1]
    assert len(segments(tmp_path)) > 3
    gone.unlink()
    engine = lives.open_life(tmp_path)
    assert set(engine.quarantined) == {PLAIN}
    assert gone.stem in engine.quarantined[PLAIN]
    assert "missing" in engine.quarantined[PLAIN]
    assert lives.see(engine)[APPEND] == lives.expected(*steps)[APPEND]
    lives.put(APPEND, rows.make(("later", 0))).run(engine)
    engine.close()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.unlink(), "missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-40]), "bytes, expected"),
        (lambda path: path.write_bytes(b""), "0 bytes"),
    ],
    ids=["missing", "short", "empty"],
)
def test_a_data_file_that_is_missing_or_short_at_the_start_is_quarantined_until_it_is_back(
    tmp_path: Path, rows: Rows, damage: Callable[[Path], None], reason: str
) -> None:
    steps = [
        *(*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.put(APPEND, rows.make(("a", 0)))),
        *(lives.flush(PLAIN), lives.put(PLAIN, rows.make(("b", 0)))),
    ]
    lives.begin(tmp_path, *steps).close(flush=False)
    (file,) = (tmp_path / "store" / lives.directory_of(PLAIN)).glob("*.parquet")
    content = file.read_bytes()
    damage(file)
    for _ in range(2):
        engine = lives.open_life(tmp_path)
        assert not engine.quarantined
        lives.settle(engine)
        (facts,) = (each for each in engine.files(PLAIN) if each.path.endswith(file.name))
        assert facts.state == "quarantined"
        assert facts.reason is not None
        assert reason in facts.reason
        with pytest.raises(FileCorrupted, match=file.name):
            read(engine, PLAIN)
        others = [lives.put(PLAIN, rows.make(("c", 0))), lives.put(APPEND, rows.make(("b", 0))), lives.purge()]
        lives.live(engine, *others, lives.flush(PLAIN), lives.flush(APPEND))
        steps += others
        engine.close()
    file.write_bytes(content)
    check_after_restart(tmp_path, *steps)
    engine = lives.open_life(tmp_path)
    lives.settle(engine)
    assert not engine._region(PLAIN).quarantined, "a start looks again at what was quarantined"
    engine.close()


@pytest.mark.parametrize("damaged", ["*.parquet", "manifest/*.json", "manifest/_last_checkpoint"])
def test_a_region_that_is_quarantined_can_be_dropped_and_made_anew(tmp_path: Path, rows: Rows, damaged: str) -> None:
    steps = [
        *(*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.put(APPEND, rows.make(("a", 0)))),
        *(lives.flush(PLAIN), lives.put(PLAIN, rows.make(("b", 0)))),
    ]
    lives.begin(tmp_path, *steps).close(flush=False)
    directory = tmp_path / "store" / lives.directory_of(PLAIN)
    for path in directory.glob(damaged):
        path.write_bytes(b"")
    for path in directory.glob("manifest/*.checkpoint"):
        path.write_bytes(b"")
    engine = lives.open_life(tmp_path)
    assert set(engine.quarantined) == {PLAIN}
    steps.append(lives.drop(PLAIN))
    lives.live(engine, steps[-1])
    assert not engine.quarantined
    with pytest.raises(RegionNotFound):
        engine.drop(PLAIN)
    assert lives.see(engine) == lives.expected(*steps)
    with pytest.raises(ManifestMismatch, match="dropped"):
        lives.create(PLAIN).run(engine)
    lives.tick().run(engine)
    assert not directory.exists()
    steps += [lives.create(PLAIN), lives.put(PLAIN, rows.make(("new", 0)))]
    lives.live(engine, *steps[-2:])
    engine.close(flush=False)
    check_after_restart(tmp_path, *steps)


def test_a_quarantined_region_whose_drop_was_interrupted_is_gone_after_a_restart(tmp_path: Path, rows: Rows) -> None:
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.flush(PLAIN)]
    lives.begin(tmp_path, *steps).close(flush=False)
    (file,) = (tmp_path / "store" / lives.directory_of(PLAIN)).glob("*.parquet")
    file.unlink()
    engine = lives.open_life(tmp_path)
    lives.drop(PLAIN).run(engine)
    engine.close(flush=False)
    check_after_restart(tmp_path, *steps, lives.drop(PLAIN))


def test_a_missing_index_file_costs_no_region_its_service(tmp_path: Path, rows: Rows) -> None:
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0)))]
    lives.begin(tmp_path, *steps, lives.flush(PLAIN)).close(flush=False)
    (index,) = (tmp_path / "store" / lives.directory_of(PLAIN)).glob("index/*.idx")
    index.unlink()
    engine = lives.open_life(tmp_path)
    assert not engine.quarantined
    assert lives.see(engine) == lives.expected(*steps)
    engine.close()


def test_the_store_is_listed_once_at_the_start_however_many_regions_there_are(tmp_path: Path, rows: Rows) -> None:
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.flush(PLAIN)]
    lives.begin(tmp_path, *steps).close()
    store = _CountingStore(tmp_path / "store")
    engine = lives.open_life(tmp_path, store=store)
    lives.settle(engine)
    assert store.listed == ["data"]
    engine.close()


class _CountingStore(LocalStore):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.listed: list[str] = []

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        self.listed.append(prefix)
        return super().list(prefix, start_after)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(bytes(path.stat().st_size)),
        lambda path: path.write_bytes(path.read_bytes()[:-40] + bytes(40)),
    ],
    ids=["zeroes", "torn"],
)
def test_a_damaged_data_file_is_named_by_the_reads_that_need_it_and_troubles_no_other_region(
    tmp_path: Path, rows: Rows, damage: Callable[[Path], None]
) -> None:
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.put(APPEND, rows.make(("a", 0)))]
    lives.begin(tmp_path, *steps, lives.flush(PLAIN)).close(flush=False)
    (file,) = (tmp_path / "store" / lives.directory_of(PLAIN)).glob("*.parquet")
    (index,) = (tmp_path / "store" / lives.directory_of(PLAIN)).glob("index/*.idx")
    damage(file)
    index.unlink()
    engine = lives.open_life(tmp_path)
    with pytest.raises(FileCorrupted) as error:
        read(engine, PLAIN)
    assert file.name in error.value.file
    rows_of_others = lives.expected(*steps)[APPEND][1]
    assert len(read(engine, APPEND)) == len(rows_of_others) == 1
    lives.live(engine, lives.put(APPEND, rows.make(("b", 0))), lives.flush(APPEND))
    engine.close()


@pytest.mark.parametrize("damage", ["bytes", "disk"])
def test_a_manifest_that_cannot_be_read_quarantines_its_region_and_keeps_its_rows_in_the_log(
    tmp_path: Path, rows: Rows, damage: str
) -> None:
    steps = [*CREATED, lives.put(PLAIN, rows.make(("a", 0))), lives.put(APPEND, rows.make(("a", 0)))]
    lives.begin(tmp_path, *steps).close(flush=False)
    (file,) = (tmp_path / "store" / lives.directory_of(PLAIN) / "manifest").glob("*.json")
    content = file.read_bytes()
    files = FaultyFiles()
    if damage == "bytes":
        file.write_bytes(content[:-5])
    else:
        files.fail("open", errno.EIO, name=str(file), times=-1)
    engine = lives.open_life(tmp_path, files=files)
    assert set(engine.quarantined) == {PLAIN}
    assert file.name in engine.quarantined[PLAIN]
    lives.live(engine, lives.flush(APPEND), lives.purge(), lives.close())
    file.write_bytes(content)
    check_after_restart(tmp_path, *steps)

"""Regions are opened and closed while the engine runs, and taken over from the logs of other nodes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.engine.harness import SCHEMA, WAL_OPTIONS, open_engine, put, read
from tests.engine.lives import settle
from tests.engine.moves.nodes import FAST, ONE, OPTIONS, TWO, Cluster, ProcessEnds, directory_of, opening
from tests.engine.reads import scan_batches
from tsdb.engine import Acknowledge, Wal
from tsdb.engine.errors import (
    LogFenced,
    ManifestFenced,
    ManifestNotFound,
    RegionNotFound,
    RegionQuarantined,
    RegionReadOnly,
)
from tsdb.engine.region.takeover import SEQUENCE_GAP
from tsdb.errors import TsdbError, Unsupported
from tsdb.model import AddColumn, RegionOptions
from tsdb.store import LocalStore, StoreError
from tsdb.units import Duration, Size


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.end()


def test_a_region_that_may_have_lost_rows_is_not_opened_by_asking_again(cluster: Cluster) -> None:
    first = cluster.start(1)
    first.create()
    first.write(1)
    first.flush()
    first.write(2)
    damaged = cluster.objects(1)[-1]
    first.stop()
    cluster.inner.put(damaged, b"")
    first = cluster.start(1, opening(ONE, 1))
    assert damaged in first.engine.quarantined[ONE]
    # A move away that fails ends like this: it is closed, and opened again where it was.
    for epoch in (2, 3):
        first.close(flush=False)
        with pytest.raises(RegionQuarantined, match="0 bytes"):
            first.open(opening(ONE, epoch))
    first.engine.skip_log_object(damaged)
    first.open(opening(ONE, 4))
    first.write(3)
    assert first.times() == [1, 3]
    first.stop()
    assert cluster.start(1, opening(ONE, 4)).times() == [1, 3]


def test_a_region_that_is_not_served_is_not_handed_over_and_stays_as_it_is(cluster: Cluster) -> None:
    first = cluster.start(1)
    first.create()
    first.write(1)
    damaged = cluster.objects(1)[-1]
    first.stop()
    cluster.inner.put(damaged, b"")
    first = cluster.start(1, opening(ONE, 1))
    reason = first.engine.quarantined[ONE]
    with pytest.raises(RegionQuarantined, match="0 bytes"):
        first.close(flush=True)
    assert first.engine.quarantined == {ONE: reason}
    # Without a flush nobody relies on the rows that it may lack: so a node lets go of what is placed elsewhere.
    first.close(flush=False)
    assert first.engine.quarantined == {}


def test_a_region_is_closed_and_opened_elsewhere_and_comes_back(cluster: Cluster) -> None:
    first, second = cluster.start(1), cluster.start(2)
    first.create()
    first.write(1, 2)
    first.close()
    assert first.engine.region_ids() == ()
    with pytest.raises(RegionNotFound):
        first.write(3)
    second.open(opening(ONE, 1))
    second.write(3, 4)
    assert second.times() == [1, 2, 3, 4]
    second.close()
    first.open(opening(ONE, 2))
    first.write(5)
    assert first.times() == [1, 2, 3, 4, 5]
    # Its log had entries 1 and 2 of the region, then 5: a start finds that nothing is missing.
    again = cluster.start(1, opening(ONE, 2))
    assert again.times() == [1, 2, 3, 4, 5]
    again.write(6)
    assert again.times() == [1, 2, 3, 4, 5, 6]


def test_opening_and_closing_can_be_repeated_and_called_by_several_threads(cluster: Cluster) -> None:
    node = cluster.start(1)
    node.create()
    node.write(1)
    node.close()
    node.close(flush=False)
    results: list[object] = []
    threads = [
        threading.Thread(target=lambda: results.append(node.engine.open_regions([opening(ONE, 1)]))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [{ONE: None}] * 4
    node.write(2)
    closings = [node.engine.close_region(ONE, flush=True) for _ in range(3)]
    for closing in closings:
        closing.result(30)
    node.open(opening(ONE, 1))
    assert node.times() == [1, 2]


def test_a_region_that_is_not_there_or_dropped_is_not_opened(cluster: Cluster) -> None:
    node = cluster.start(1)
    found = node.engine.open_regions([opening(ONE, 1)])
    assert isinstance(found[ONE], ManifestNotFound)
    node.create(TWO)
    node.engine.drop(TWO).result(30)
    other = cluster.start(2)
    found = other.engine.open_regions([opening(TWO, 1)])
    assert isinstance(found[TWO], RegionNotFound)
    assert other.engine.region_ids() == ()
    # A region that did not exist yet can be created afterwards.
    node.create(ONE)


def test_rows_in_flight_are_flushed_or_refused_when_a_region_is_closed(cluster: Cluster) -> None:
    node = cluster.start(1)
    node.create()
    acknowledged: list[int] = []
    refusals: list[TsdbError] = []

    def write() -> None:
        for at in range(1000):
            try:
                node.write(at)
            except TsdbError as error:
                refusals.append(error)
                return
            acknowledged.append(at)

    writer = threading.Thread(target=write)
    writer.start()
    while len(acknowledged) < 20:
        writer.join(0.001)
    node.close()
    writer.join(30)
    (refusal,) = refusals
    assert isinstance(refusal, RegionNotFound) or (isinstance(refusal, RegionReadOnly) and refusal.leads_elsewhere)
    other = cluster.start(2, opening(ONE, 1))
    assert other.times() == acknowledged


def test_a_close_whose_flush_fails_lets_the_region_go_on(cluster: Cluster) -> None:
    node = cluster.start(1)
    node.create()
    node.write(1)
    cluster.store.fail("writer", times=1)
    with pytest.raises(StoreError):
        node.close()
    node.write(2)
    node.close()
    assert cluster.start(2, opening(ONE, 1)).times() == [1, 2]


def test_queries_that_run_go_on_when_a_region_is_closed(cluster: Cluster) -> None:
    node = cluster.start(1)
    node.create()
    node.write(1, 2)
    node.flush()
    node.write(3)
    snapshot = node.engine.snapshot(ONE)
    node.close(flush=False)
    found = scan_batches(snapshot, ["ts"])
    assert sum(batch.num_rows for batch in found) == 3
    assert node.engine.context.buffer.used == 0
    snapshot.release()
    with pytest.raises(RegionNotFound):
        node.engine.snapshot(ONE)


def test_a_writer_of_an_older_epoch_commits_nothing_and_is_told(cluster: Cluster) -> None:
    # After a checkpoint it could not know whether its commit was there, and would leave its files to a sweep.
    no_checkpoints = replace(OPTIONS, manifest_checkpoint_distance=0)
    old = cluster.start(1, options=no_checkpoints)
    old.create()
    old.write(1)
    old.flush()
    old.write(2)
    new = cluster.start(2, options=no_checkpoints)
    new.open(opening(ONE, 1, 1))
    files = {each.path for each in cluster.inner.list(directory_of(ONE)) if each.path.endswith(".parquet")}
    with pytest.raises(ManifestFenced):
        old.flush()
    with pytest.raises(RegionReadOnly, match="it leads elsewhere: another writer has the region"):
        old.engine.alter(ONE, [AddColumn("c", pa.int64())]).result(30)
    assert old.lost == [ONE]
    left = {each.path for each in cluster.inner.list(directory_of(ONE)) if each.path.endswith(".parquet")}
    assert left == files, "what it wrote is discarded"
    old.close(flush=False)
    assert old.engine.region_ids() == ()
    assert old.engine.context.buffer.used == 0
    new.write(3)
    assert new.times() == [1, 2, 3]


def test_rows_are_taken_over_from_the_log_of_a_node_that_is_gone(cluster: Cluster) -> None:
    first, second = cluster.start(1), cluster.start(2)
    for region in (ONE, TWO):
        first.create(region)
        first.write(1, 2, region=region)
        first.flush(region)
        first.write(3, region=region)
    first.delete(1)
    second.open(opening(ONE, 1, 1), opening(TWO, 1, 1))
    assert second.times() == [2, 3]
    assert second.times(TWO) == [1, 2, 3]
    assert not second.engine.context.buffer.used, "all rows are in data files"
    with pytest.raises(LogFenced):
        first.write(4)
    assert [type(error) for error in first.fatal] == [LogFenced]
    second.write(5)
    # The second one dies, and the first comes back.
    again = cluster.start(1)
    again.open(opening(ONE, 2, 2))
    assert again.times() == [2, 3, 5]


def test_a_node_takes_over_at_its_start(cluster: Cluster) -> None:
    first = cluster.start(1)
    first.create()
    first.write(1, 2)
    second = cluster.start(2, opening(ONE, 1, 1))
    assert second.times() == [1, 2]
    second.write(3)
    # It dies before anybody knows that it has opened the region: its own log has the rest.
    again = cluster.start(2, opening(ONE, 1, 1))
    assert again.times() == [1, 2, 3]


def test_a_third_node_takes_over_from_two(cluster: Cluster) -> None:
    first = cluster.start(1)
    first.create()
    first.write(1)
    second = cluster.start(2, opening(ONE, 1, 1))
    second.write(2)
    third = cluster.start(3)
    third.open(opening(ONE, 2, 1, 2))
    assert third.times() == [1, 2]


def test_rows_written_later_win_against_all_of_the_log_that_was_taken_over(cluster: Cluster) -> None:
    first = cluster.start(1)
    first.create()
    first.write(1, value=1.0)
    before = first.engine._region(ONE).written.sequence
    second = cluster.start(2, opening(ONE, 1, 1))
    assert second.engine._region(ONE).written.sequence == before + SEQUENCE_GAP
    second.write(1, value=2.0)
    second.flush()
    assert [row["a"] for row in second.rows()] == [2.0]
    third = cluster.start(3, opening(ONE, 2, 2))
    third.write(1, value=3.0)
    third.write(2)
    third.flush()
    third.engine.compact(ONE).result(30)
    settle(third.engine)
    assert [(row["ts"], row["a"]) for row in third.rows()] == [(1, 3.0), (2, 1.0)]
    again = cluster.start(3, opening(ONE, 2))
    again.delete(1)
    assert again.times() == [2]


def test_a_restart_of_the_old_node_neither_serves_the_region_nor_deletes_what_the_new_one_reads(
    cluster: Cluster,
) -> None:
    first = cluster.start(1)
    first.create()
    first.create(TWO)
    first.write(1, 2)
    first.write(1, region=TWO)
    # The region is placed on node 2, which has not begun. The old node starts again, and purges.
    first = cluster.start(1, opening(TWO, 0))
    first.flush(TWO)
    first.engine.housekeeping.purge()
    second = cluster.start(2, opening(ONE, 1, 1))
    assert second.times() == [1, 2]
    # Now the rows are in data files: the log lets go of them.
    before = len(cluster.objects(1))
    again = cluster.start(1, opening(TWO, 0))
    again.engine.housekeeping.purge()
    assert len(cluster.objects(1)) < before
    assert not [each for each in again.engine.wal_segments() if each[1].pinning]


def test_a_region_that_was_lost_keeps_its_log_until_the_new_owner_has_flushed(cluster: Cluster) -> None:
    first = cluster.start(1)
    first.create()
    first.write(1, 2)
    first.close(flush=False)
    first.engine.housekeeping.purge()
    assert len(cluster.objects(1)) == 2
    second = cluster.start(2, opening(ONE, 1, 1))
    assert second.times() == [1, 2]
    first.engine.housekeeping.purge()
    assert not [each for each in first.engine.wal_segments() if each[1].pinning]


def test_a_region_that_is_dropped_elsewhere_lets_go_of_the_log(cluster: Cluster) -> None:
    first = cluster.start(1)
    first.create()
    first.write(1, 2)
    first.close(flush=False)
    second = cluster.start(2, opening(ONE, 1))
    second.engine.drop(ONE).result(30)
    first.engine.housekeeping.purge()
    assert not [each for each in first.engine.wal_segments() if each[1].pinning]


def test_a_region_that_was_closed_without_a_flush_is_read_back_from_the_own_log(cluster: Cluster) -> None:
    node = cluster.start(1)
    node.create()
    node.write(1, 2)
    node.close(flush=False)
    node.open(opening(ONE, 1))
    assert node.times() == [1, 2]
    node.write(3)
    assert cluster.start(1, opening(ONE, 1)).times() == [1, 2, 3]


def test_a_region_that_is_open_is_opened_anew_under_a_newer_epoch(cluster: Cluster) -> None:
    node = cluster.start(1)
    node.create()
    node.write(1)
    node.open(opening(ONE, 3))
    assert node.engine._region(ONE).manifest.state.epoch == 3
    node.write(2)
    node.open(opening(ONE, 3))
    assert node.times() == [1, 2]
    # Another node took it, wrote nothing, and lost it again.
    other = cluster.start(2)
    other.open(opening(ONE, 4))
    node.open(opening(ONE, 5))
    assert node.times() == [1, 2]


def test_a_newer_epoch_refuses_an_older_one_at_a_start(cluster: Cluster) -> None:
    first = cluster.start(1)
    first.create()
    first.write(1)
    cluster.start(2, opening(ONE, 1, 1))
    again = cluster.start(1, opening(ONE, 0))
    assert again.engine.region_ids() == ()
    assert isinstance(again.engine.refused[ONE], ManifestFenced)
    assert not again.lost, "it never had it"


def test_an_older_process_of_the_same_node_commits_nothing_and_sweeps_nothing(cluster: Cluster) -> None:
    old = cluster.start(1)
    old.create()
    old.write(1)
    new = cluster.start(1, opening(ONE, 0))
    with pytest.raises(ManifestFenced):
        old.flush()
    new.flush()
    settle(new.engine)
    assert new.times() == [1]
    assert cluster.start(1, opening(ONE, 0)).times() == [1]


def test_damage_in_the_log_quarantines_only_the_regions_that_may_have_lost_rows(cluster: Cluster) -> None:
    first = cluster.start(1)
    first.create()
    first.create(TWO)
    first.write(1)
    first.write(2)
    first.write(1, region=TWO)
    first.write(2, region=TWO)
    path = cluster.objects(1)[1]
    content = cluster.inner.get(path)
    cluster.inner.put(path, content[:100] + bytes([content[100] ^ 1]) + content[101:])
    second = cluster.start(2)
    found = second.engine.open_regions([opening(ONE, 1, 1), opening(TWO, 1, 1)])
    assert isinstance(found[ONE], RegionQuarantined)
    assert path in str(found[ONE])
    assert path in second.engine.quarantined[ONE]
    assert found[TWO] is None
    assert second.times(TWO) == [1, 2]
    # The old node starts again without them, and does not delete what is damaged: another look must find it, too.
    old = cluster.start(1)
    old.engine.housekeeping.purge()
    assert path in cluster.objects(1)
    third = cluster.start(3)
    assert isinstance(third.engine.open_regions([opening(ONE, 2, 1, 2)])[ONE], RegionQuarantined)
    # When the object is whole again, so is the region.
    cluster.inner.put(path, content)
    third.open(opening(ONE, 2, 1, 2))
    assert third.times() == [1, 2]
    assert not third.engine.quarantined


def test_a_takeover_flushes_while_it_replays(cluster: Cluster) -> None:
    first = cluster.start(1)
    first.create(options=RegionOptions(append_mode=True))
    for at in range(40):
        first.write(at)
    small = replace(OPTIONS, global_write_buffer_size=Size(2000), global_write_buffer_reject_size=Size(40000))
    second = cluster.start(2, options=small)
    second.open(opening(ONE, 1, 1))
    assert second.times() == list(range(40))
    assert len(second.engine.files(ONE)) > 1


def test_the_log_of_another_node_is_refused_with_a_local_log_only(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    engine = open_engine(tmp_path / "one", store=store)
    engine.create_region(ONE, directory_of(ONE), SCHEMA)
    engine.close_region(ONE, flush=True).result(30)
    found = engine.open_regions([opening(ONE, 1, 7)])
    assert isinstance(found[ONE], Unsupported)
    assert "rows of the region may be in the log of node 7, and this node has only a local log" in str(found[ONE])
    assert engine.open_regions([opening(ONE, 1)]) == {ONE: None}
    assert not engine.prove_ownership()
    engine.close()


def test_ownership_is_proved_until_another_process_has_the_log(cluster: Cluster) -> None:
    node = cluster.start(1)
    assert node.engine.prove_ownership()
    assert node.engine.prove_ownership()
    cluster.store.down()
    assert not node.engine.prove_ownership(Duration.of_seconds(0.05))
    assert not node.engine.prove_ownership(Duration.of_seconds(0.05))
    assert len(node.log.shipper._outbox.appends) == 1, "at most one proof is under way"
    cluster.store.up()
    assert node.engine.prove_ownership(Duration.of_seconds(30))
    cluster.start(1)
    assert not node.engine.prove_ownership(Duration.of_seconds(30))
    assert not node.engine.prove_ownership()


def test_other_regions_of_the_store_are_not_looked_at(cluster: Cluster) -> None:
    first = cluster.start(1)
    first.create()
    first.create(TWO)
    marker = f"{directory_of(TWO)}/.dropping"
    cluster.inner.put(marker, b"")
    listed: list[str] = []
    cluster.store.before_call = lambda operation, path: listed.append(path) if operation == "list" else None
    second = cluster.start(2, opening(ONE, 1, 1))
    settle(second.engine)
    cluster.store.before_call = None
    assert not [path for path in listed if path.startswith("data") and directory_of(ONE) not in path]
    assert cluster.inner.head(marker)


def test_a_store_that_fails_refuses_the_opening_and_leaves_everything_to_the_next(cluster: Cluster) -> None:
    first, second = cluster.start(1), cluster.start(2)
    first.create()
    first.write(1)
    cluster.store.fail("list", "wal/1", times=-1)
    found = second.engine.open_regions([opening(ONE, 1, 1)])
    assert isinstance(found[ONE], StoreError)
    assert second.engine.region_ids() == ()
    cluster.store.up()
    second.open(opening(ONE, 1, 1))
    assert second.times() == [1]


def test_rows_that_only_a_local_disk_has_do_not_come_back_after_a_life_elsewhere(cluster: Cluster) -> None:
    local = replace(FAST, acknowledge=Acknowledge.LOCAL)
    first = cluster.start(1, settings=local)
    first.create()
    first.write(1)
    assert first.engine.prove_ownership(Duration.of_seconds(30))
    cluster.store.down()
    first.write(2)
    first.log.shipper.break_off(ProcessEnds("the process ends"))
    cluster.store.up()
    second = cluster.start(2, opening(ONE, 1, 1), settings=local)
    assert second.times() == [1], "the second row was acknowledged by a disk that is not here"
    second.write(3)
    assert second.engine.prove_ownership(Duration.of_seconds(30))
    for _ in range(2):
        first = cluster.start(1, opening(ONE, 2, 2), settings=local)
        assert first.times() == [1, 3]
    first.write(4)
    assert first.engine.prove_ownership(Duration.of_seconds(30))
    assert cluster.start(1, opening(ONE, 2), settings=local).times() == [1, 3, 4]


def test_a_region_moves_in_good_order_with_local_logs(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    engines = [
        open_engine(tmp_path / name, store=store, log=Wal.open(tmp_path / name / "wal", WAL_OPTIONS)[0], regions=())
        for name in ("one", "two")
    ]
    engines[0].create_region(ONE, directory_of(ONE), SCHEMA)
    for turn in range(4):
        here, there = engines[turn % 2], engines[(turn + 1) % 2]
        put(here, [{"host": "a", "ts": turn}], ONE)
        here.close_region(ONE, flush=True).result(30)
        assert there.open_regions([opening(ONE, turn + 1)]) == {ONE: None}
    put(engines[0], [{"host": "a", "ts": 4}], ONE)
    engines[0].close(flush=False)
    # Entries 1, 3 and 5 are in its log: what is between them was never there.
    again = open_engine(tmp_path / "one", store=store, regions=[opening(ONE, 4)])
    assert sorted(row["ts"] for row in read(again, ONE)) == [0, 1, 2, 3, 4]
    again.close_region(ONE, flush=False).result(30)
    assert "reads them only at a start" in str(again.open_regions([opening(ONE, 5)])[ONE])
    again.close()
    again = open_engine(tmp_path / "one", store=store, regions=[opening(ONE, 5)])
    assert sorted(row["ts"] for row in read(again, ONE)) == [0, 1, 2, 3, 4]
    again.close()
    engines[1].close()


def test_a_region_that_is_not_here_was_not_flushed(cluster: Cluster) -> None:
    first = cluster.start(1)
    first.create()
    first.write(1)
    first.stop()
    # It is started while the region is on its way to another node, and so without it.
    first = cluster.start(1)
    with pytest.raises(RegionNotFound):
        first.close()
    first.close(flush=False)
    second = cluster.start(2)
    second.open(opening(ONE, 1, 1))
    assert second.times() == [1]

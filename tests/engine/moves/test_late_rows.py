"""Rows that only the local log of a lost node has are handed in when it comes back, and lose against newer ones."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine.harness import SCHEMA, put
from tests.engine.moves.nodes import FAST, ONE, TWO, Cluster, Node, opening
from tsdb.engine import Acknowledge
from tsdb.engine.errors import LateRowsUnexpected, RegionNotFound
from tsdb.engine.manifest import SEQUENCE_GAP, Takeover
from tsdb.engine.region.hand_in import CRASH_POINTS, HandIn, plan_hand_in
from tsdb.engine.wal import LATE_CRASH_POINTS
from tsdb.errors import TsdbError
from tsdb.model import AddColumn, LateEntry, LateRows, RegionId, RegionOpening, RegionOptions
from tsdb.store import on_crash_point
from tsdb.units import Duration

LOCAL = replace(
    FAST,
    acknowledge=Acknowledge.LOCAL,
    retry_min=Duration.of_seconds(0.01),
    retry_max=Duration.of_seconds(0.05),
    close_timeout=Duration.of_seconds(0.2),
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.end()


def lossy(region: RegionId, epoch: int, node: int) -> RegionOpening:
    """An opening after a failover of a node that acknowledges locally."""
    return replace(opening(region, epoch, node), may_lack_rows=True)


def lose(cluster: Cluster, node: Node) -> None:
    """End a node whose log is behind: the store takes nothing of it any more."""
    node.stop()
    cluster.store.up()


def hand_in(back: Node, owner: Node, region: RegionId = ONE) -> list[LateRows]:
    """Hand in everything a node has of a region, as it does when it comes back."""
    late = back.engine.late
    assert late is not None
    found: list[LateRows] = []
    batches = list(late.read(region))
    for number, batch in enumerate(batches, 1):
        found = owner.engine.hand_in(region, back.number, batch, is_last=number == len(batches)).result(30)
    return found


def taken_over(cluster: Cluster, options: RegionOptions | None = None) -> tuple[Node, Node]:
    """A node that is back and had acknowledged 3, 4 and 5 locally only, and the owner of the region by then."""
    first = cluster.start(1, settings=LOCAL)
    first.create(options=options)
    first.write(1, 2)
    assert first.engine.prove_ownership()
    cluster.store.fail("put_if_absent", "wal/1/", times=-1)
    first.write(3, 4, 5, value=3.0)
    lose(cluster, first)
    second = cluster.start(2, settings=LOCAL)
    second.open(lossy(ONE, 1, 1))
    assert second.times() == [1, 2]
    return first, second


def back(cluster: Cluster, number: int = 1, *openings: RegionOpening) -> Node:
    return cluster.start(number, *openings, settings=LOCAL)


def test_rows_that_were_not_shipped_are_handed_in(cluster: Cluster) -> None:
    _, second = taken_over(cluster)
    ((epoch, last),) = second.engine.takeovers([ONE])[ONE]
    assert (epoch, last) == (1, 2)
    first = back(cluster)
    assert first.engine.late is not None
    assert first.engine.late.regions() == [ONE]
    assert hand_in(first, second) == [LateRows(1, 3, is_complete=True)]
    assert second.times() == [1, 2, 3, 4, 5]


def test_a_takeover_that_is_repeated_under_its_epoch_still_takes_late_rows(cluster: Cluster) -> None:
    _, second = taken_over(cluster, RegionOptions(append_mode=True))
    # Metasrv has not heard the answer, and asks again; or the node itself starts again.
    second.close()
    second.open(lossy(ONE, 1, 1))
    second.stop()
    second = cluster.start(2, lossy(ONE, 1, 1), settings=LOCAL)
    assert hand_in(back(cluster), second) == [LateRows(1, 3, is_complete=True)]
    assert second.times() == [1, 2, 3, 4, 5]


def test_late_rows_of_two_losses_leave_what_was_written_between(cluster: Cluster) -> None:
    first = cluster.start(1, settings=LOCAL)
    first.create()
    first.write(1, 3)
    assert first.engine.prove_ownership()
    cluster.store.fail("put_if_absent", "wal/1/", times=-1)
    first.delete(3)
    lose(cluster, first)
    second = cluster.start(2, settings=LOCAL)
    second.open(lossy(ONE, 1, 1))
    second.write(3, value=30.0)
    second.close()
    first = back(cluster)
    first.open(opening(ONE, 2))
    assert first.engine.prove_ownership()
    cluster.store.fail("put_if_absent", "wal/1/", times=-1)
    first.write(5)
    lose(cluster, first)
    third = cluster.start(3, settings=LOCAL)
    third.open(lossy(ONE, 3, 1))
    assert hand_in(back(cluster), third) == [LateRows(1, 1, is_complete=True), LateRows(3, 1, is_complete=True)]
    assert {row["ts"]: row["a"] for row in third.rows()} == {1: 1.0, 3: 30.0, 5: 1.0}


def test_rows_that_were_written_since_win_and_deletions_hold(cluster: Cluster) -> None:
    _, second = taken_over(cluster)
    second.write(4, value=40.0)
    second.delete(5)
    # Tombstones stay although no file has anything that they hide, and although files are merged.
    second.flush()
    second.write(6)
    second.engine.compact(ONE).result(30)
    hand_in(back(cluster), second)
    assert {row["ts"]: row["a"] for row in second.rows()} == {1: 1.0, 2: 1.0, 3: 3.0, 4: 40.0, 6: 1.0}
    second.engine.compact(ONE).result(30)
    assert {row["ts"]: row["a"] for row in second.rows()} == {1: 1.0, 2: 1.0, 3: 3.0, 4: 40.0, 6: 1.0}


def test_a_second_hand_in_changes_nothing_also_in_append_mode(cluster: Cluster) -> None:
    _, second = taken_over(cluster, RegionOptions(append_mode=True))
    first = back(cluster)
    late = first.engine.late
    assert late is not None
    ((*entries,),) = late.read(ONE)
    # The node is killed after a part was taken, and again before it knows that all was.
    assert second.engine.hand_in(ONE, 1, entries[:2], is_last=False).result(30) == [LateRows(1, 2, is_complete=False)]
    for _ in range(2):
        assert hand_in(first, second) == [LateRows(1, 3, is_complete=True)]
    assert second.times() == [1, 2, 3, 4, 5]
    # Nor do entries count that come after the last ones.
    again = replace(entries[-1], entry_id=entries[-1].entry_id + 1)
    assert second.engine.hand_in(ONE, 1, [again], is_last=True).result(30) == [LateRows(1, 3, is_complete=True)]
    assert second.times() == [1, 2, 3, 4, 5]


def test_what_was_handed_in_is_there_on_the_next_owner(cluster: Cluster) -> None:
    _, second = taken_over(cluster)
    second.write(10)
    first = back(cluster)
    hand_in(first, second)
    second.stop()
    third = cluster.start(3, settings=LOCAL)
    third.open(lossy(ONE, 2, 2))
    assert third.times() == [1, 2, 3, 4, 5, 10]
    assert hand_in(first, third) == [LateRows(1, 3, is_complete=True)]
    assert third.times() == [1, 2, 3, 4, 5, 10]


def test_entries_are_kept_through_restarts_until_they_are_settled(cluster: Cluster) -> None:
    _, second = taken_over(cluster)
    for _ in range(3):
        first = back(cluster)
        assert first.engine.late is not None
        assert [[each.entry_id for each in batch] for batch in first.engine.late.read(ONE)] == [[3, 4, 5]]
        first.engine.context.wal.purge()
        first.stop()
    first = back(cluster)
    hand_in(first, second)
    assert first.engine.late is not None
    first.engine.late.settle(ONE)
    assert first.engine.late.regions() == []
    assert second.times() == [1, 2, 3, 4, 5]


def test_a_region_that_comes_back_meanwhile_gets_its_late_rows_too(cluster: Cluster) -> None:
    _, second = taken_over(cluster)
    first = back(cluster)
    second.write(7)
    second.close()
    first.open(opening(ONE, 2))
    first.write(3, value=30.0)
    assert first.times() == [1, 2, 3, 7]
    hand_in(first, first)
    assert {row["ts"]: row["a"] for row in first.rows()} == {1: 1.0, 2: 1.0, 3: 30.0, 4: 3.0, 5: 3.0, 7: 1.0}
    first.stop()
    assert back(cluster, 1, opening(ONE, 2)).times() == [1, 2, 3, 4, 5, 7]


def test_a_node_that_gets_its_region_back_before_anybody_has_it_loses_nothing(cluster: Cluster) -> None:
    first = cluster.start(1, settings=LOCAL)
    first.create()
    first.write(1)
    assert first.engine.prove_ownership()
    cluster.store.fail("put_if_absent", "wal/1/", times=-1)
    first.write(2, 3)
    lose(cluster, first)
    # It starts while the region is moving, so that it is told nothing of it; then the move is given up.
    first = back(cluster)
    first.open(lossy(ONE, 2, 1))
    assert first.times() == [1]
    first.write(3, value=9.0)
    hand_in(first, first)
    assert {row["ts"]: row["a"] for row in first.rows()} == {1: 1.0, 2: 1.0, 3: 9.0}


def test_a_truncation_makes_late_rows_void(cluster: Cluster) -> None:
    _, second = taken_over(cluster)
    second.engine.truncate(ONE).result(30)
    second.write(9)
    assert hand_in(back(cluster), second) == [LateRows(1, 0, is_complete=True)]
    assert second.times() == [9]


def test_late_rows_follow_the_schema(cluster: Cluster) -> None:
    _, second = taken_over(cluster)
    second.engine.alter(ONE, [AddColumn("more", SCHEMA.by_name["a"].type, default=7.0)]).result(30)
    put(second.engine, [{"host": "a", "ts": 6, "a": 1.0, "more": 8.0}], ONE)
    hand_in(back(cluster), second)
    assert {row["ts"]: row["more"] for row in second.rows()} == {1: 7.0, 2: 7.0, 3: 7.0, 4: 7.0, 5: 7.0, 6: 8.0}


def test_deletions_are_handed_in_as_well(cluster: Cluster) -> None:
    first = cluster.start(1, settings=LOCAL)
    first.create()
    first.write(1, 2)
    assert first.engine.prove_ownership()
    cluster.store.fail("put_if_absent", "wal/1/", times=-1)
    first.delete(1)
    lose(cluster, first)
    second = cluster.start(2, settings=LOCAL)
    second.open(lossy(ONE, 1, 1))
    assert second.times() == [1, 2]
    hand_in(back(cluster), second)
    assert second.times() == [2]


def test_rows_of_a_dropped_region_are_not_kept(cluster: Cluster) -> None:
    _, second = taken_over(cluster)
    second.engine.drop(ONE).result(30)
    first = back(cluster)
    assert first.engine.late is not None
    assert first.engine.late.regions() == []
    with pytest.raises(RegionNotFound):
        second.engine.hand_in(ONE, 1, [], is_last=True)


def test_nothing_is_kept_of_what_was_shipped(cluster: Cluster) -> None:
    first = cluster.start(1, settings=LOCAL)
    first.create()
    first.write(1, 2)
    assert first.engine.prove_ownership()
    first.stop()
    second = cluster.start(2, settings=LOCAL)
    second.open(lossy(ONE, 1, 1))
    second.write(3)
    first = back(cluster)
    assert first.engine.late is not None
    assert first.engine.late.regions() == []
    assert second.engine.hand_in(ONE, 1, [], is_last=True, epochs=[1]).result(30) == [LateRows(1, 0, is_complete=True)]
    assert second.times() == [1, 2, 3]


def test_rows_that_nobody_waits_for_are_refused(cluster: Cluster) -> None:
    _, second = taken_over(cluster)
    first = back(cluster)
    late = first.engine.late
    assert late is not None
    ((*entries,),) = late.read(ONE)
    with pytest.raises(LateRowsUnexpected):
        second.engine.hand_in(ONE, 3, entries, is_last=True).result(30)
    second.create(TWO)
    with pytest.raises(LateRowsUnexpected):
        second.engine.hand_in(TWO, 1, entries, is_last=True).result(30)
    assert second.times() == [1, 2]


def entry(number: int, sequence: int) -> LateEntry:
    return LateEntry(number, sequence, 1, 1, 0, b"", 0, 0, 0)


def test_entries_belong_to_the_takeover_in_whose_gap_they_lie() -> None:
    lives = [Takeover(1, 5, 10, 100, 0), Takeover(1, 7, 14, 200 + SEQUENCE_GAP, 0), Takeover(2, 8, 20, 300, 0)]
    entries = (entry(9, 99), entry(11, 101), entry(12, 102), entry(15, 201 + SEQUENCE_GAP))
    news, changed = plan_hand_in(lives, HandIn(1, entries, is_last=True))
    assert [each.entry_id for each in news] == [11, 12, 15]
    assert [(each.epoch, each.late_entry_id, each.late_rows, each.is_complete) for each in changed] == [
        (5, 12, 2, True),
        (7, 15, 1, True),
    ]
    with pytest.raises(LateRowsUnexpected):
        plan_hand_in(lives, HandIn(1, (entry(99, 900 + 3 * SEQUENCE_GAP),), is_last=False))


@pytest.mark.parametrize("fault", ["fail", "lose_reply"])
def test_a_hand_in_whose_commit_fails_or_loses_its_reply_can_be_repeated(cluster: Cluster, fault: str) -> None:
    _, second = taken_over(cluster, RegionOptions(append_mode=True))
    first = back(cluster)
    before = cluster.store.calls["put_if_absent"]
    getattr(cluster.store, fault)("put_if_absent", "manifest/")
    with suppress(TsdbError):
        hand_in(first, second)
    assert cluster.store.calls["put_if_absent"] > before
    cluster.store.up()
    assert hand_in(first, second) == [LateRows(1, 3, is_complete=True)]
    assert second.times() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("point", [*LATE_CRASH_POINTS, *CRASH_POINTS])
def test_both_nodes_die_in_the_middle_of_a_hand_in(tmp_path: Path, point: str) -> None:
    """What the store and the disk of the returning node have at that moment is enough: every row is there, once."""
    cluster = Cluster(tmp_path / "first")
    _, second = taken_over(cluster, RegionOptions(append_mode=True))
    left: dict[str, tuple[bytes, int]] = {}

    def die(name: str) -> None:
        if name == point and not left:
            left.update(cluster.inner._objects)
            shutil.copytree(tmp_path / "first" / "wal-1", tmp_path / "again" / "wal-1")

    with on_crash_point(die):
        hand_in(back(cluster), second)
    assert left
    again = Cluster(tmp_path / "again")
    again.inner._objects = left
    owner = again.start(3, lossy(ONE, 2, 2), settings=LOCAL)
    assert hand_in(back(again), owner) == [LateRows(1, 3, is_complete=True)]
    assert owner.times() == [1, 2, 3, 4, 5]
    again.end()
    cluster.end()

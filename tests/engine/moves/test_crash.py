"""A node dies in the middle of a takeover: the next one that opens the region finds every acknowledged row, once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.engine.lives import settle
from tests.engine.moves.nodes import ONE, TWO, Cluster, Node, opening
from tsdb.engine.region import closing, flush, takeover
from tsdb.engine.region import opening as opening_module
from tsdb.model import RegionOptions
from tsdb.store import on_crash_point

POINTS = (
    *opening_module.CRASH_POINTS,
    *takeover.CRASH_POINTS,
    *flush.CRASH_POINTS,
    "manifest.commit.before_put",
    "manifest.commit.after_put",
)
"""Places that a takeover passes; each region passes all of them but those of the takeover itself."""
TIMES = {ONE: list(range(12)), TWO: [1, 1, 2]}


def prepare(cluster: Cluster) -> Node:
    """A node with rows in files and in its log; region TWO keeps duplicates."""
    node = cluster.start(1)
    node.create(ONE)
    node.create(TWO, RegionOptions(append_mode=True))
    node.write(*range(5))
    node.write(1, region=TWO)
    node.flush()
    node.write(*range(5, 12))
    node.write(1, 2, region=TWO)
    return node


def take_over(cluster: Cluster, number: int, epoch: int, *log_nodes: int) -> Node:
    return cluster.start(number, opening(ONE, epoch, *log_nodes), opening(TWO, epoch, *log_nodes))


def check(node: Node) -> None:
    for region, times in TIMES.items():
        assert node.times(region) == times
        node.write(99, region=region)
        assert node.times(region) == [*times, 99]


@pytest.mark.parametrize(
    ("point", "passing"),
    [*((point, 1) for point in POINTS), *((point, 2) for point in POINTS if point not in takeover.CRASH_POINTS)],
)
def test_a_takeover_that_was_interrupted_is_repeated(tmp_path: Path, point: str, passing: int) -> None:
    cluster = Cluster(tmp_path)
    old = prepare(cluster)
    counted: Counter[str] = Counter()
    left: dict[str, tuple[bytes, int]] = {}

    def die(name: str) -> None:
        counted[name] += 1
        if name == point and counted[name] == passing:
            left.update(cluster.inner._objects)

    with on_crash_point(die):
        check(take_over(cluster, 2, 1, 1))
    assert left
    for number, logs in ((2, (1,)), (3, (1, 2))):
        again = Cluster(tmp_path / str(number))
        again.inner._objects = dict(left)
        node = take_over(again, number, number - 1, *logs)
        settle(node.engine)
        check(node)
        # The old node comes back without the regions, and lets go of its log.
        back = again.start(1)
        back.engine.housekeeping.purge()
        check_again = take_over(again, 3, 3, *logs, number) if number != 3 else take_over(again, 2, 3, 1, 3)
        assert check_again.times(ONE) == [*TIMES[ONE], 99]
        again.end()
    assert old.engine.region_ids()
    cluster.end()


@pytest.mark.parametrize("point", closing.CRASH_POINTS)
def test_a_close_that_was_interrupted_leaves_every_row_to_the_next_owner(tmp_path: Path, point: str) -> None:
    cluster = Cluster(tmp_path)
    old = prepare(cluster)
    left: dict[str, tuple[bytes, int]] = {}

    def die(name: str) -> None:
        if name == point and not left:
            left.update(cluster.inner._objects)

    with on_crash_point(die):
        old.close(ONE)
        old.close(TWO)
    assert left
    again = Cluster(tmp_path / "again")
    again.inner._objects = left
    check(take_over(again, 2, 1, 1))
    again.end()
    cluster.end()

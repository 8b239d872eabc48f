"""Processes that die while they change the catalog: afterwards a change is there or not, and nothing is left over."""

from __future__ import annotations

import multiprocessing
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tsdb.catalog
from tests.catalog import crash_child
from tests.catalog.worlds import FILL, LIFE, World
from tsdb.catalog._catalog import CRASH_POINTS
from tsdb.store import on_crash_point

KILLED = 137
INSIDE = ("manifest.commit.before_put", "manifest.commit.after_put", "alter.after_manifest", "drop.after_marker")
"""Places in the engine that a change of the catalog passes."""


@pytest.fixture(scope="module")
def processes() -> multiprocessing.context.ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.catalog.crash_child"])
    return context


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Counter[str], list[dict[str, Any]]]:
    """How often a whole life passes each place, and what can be seen before each step and at the end."""
    counted: Counter[str] = Counter()
    world = World.open(tmp_path_factory.mktemp("undisturbed"))
    sights = [world.see()]
    with on_crash_point(lambda name: counted.update([name])):
        for step in LIFE:
            step(world)
            world.check_tidy()
            sights.append(world.see())
    world.close()
    return counted, sights


def kill(processes: multiprocessing.context.ForkServerContext, target: object, *arguments: object) -> None:
    child = processes.Process(target=target, args=arguments)  # type: ignore[arg-type]
    child.start()
    child.join(60)
    assert child.exitcode == KILLED


def check(root: Path, acknowledged: int, sights: list[dict[str, Any]]) -> int:
    """Open what is left, see that a step is there whole or not at all, and return with which one to go on."""
    world = World.open(root)
    world.check_tidy()
    seen = world.see()
    world.close()
    if acknowledged == FILL:
        assert sights[FILL].items() <= seen.items()
        assert seen.items() <= sights[FILL + 1].items()
        return FILL + (seen == sights[FILL + 1])
    assert seen in sights[acknowledged : acknowledged + 2]
    return acknowledged + (seen != sights[acknowledged])


def live_on(root: Path, first: int, sights: list[dict[str, Any]]) -> None:
    """The life goes on as if nothing had happened, and ends as it should."""
    world = World.open(root)
    for step in LIFE[first:]:
        step(world)
    world.check_tidy()
    assert world.see() == sights[-1]
    world.close()


@pytest.mark.parametrize("point", [*CRASH_POINTS, *INSIDE])
def test_a_change_that_dies_anywhere_is_there_or_not_and_leaves_nothing(
    point: str,
    tmp_path: Path,
    processes: multiprocessing.context.ForkServerContext,
    undisturbed: tuple[Counter[str], list[dict[str, Any]]],
) -> None:
    passes, sights = undisturbed
    count = passes[point]
    assert count, "the life does not pass this place"
    for turn in sorted({1, 2, count} & set(range(1, count + 1))):
        root = tmp_path / str(turn)
        root.mkdir()
        kill(processes, crash_child.live, str(root), f"{point}:{turn}", 0)
        following = check(root, crash_child.acknowledged(root), sights)
    live_on(root, following, sights)


LEFT_BEHIND = {
    "catalog.create.after_region": ("catalog.create.after_region:2", ("drop.after_marker", "drop.after_manifest")),
    "catalog.alter.after_region": (
        "catalog.alter.after_region:1",
        ("alter.after_manifest", "catalog.alter.after_publish"),
    ),
    "catalog.drop.after_tombstones": (
        "catalog.drop.after_tombstones:1",
        ("drop.after_marker", "catalog.drop.after_regions", "catalog.drop.after_delete"),
    ),
    "catalog.drop.after_move": ("catalog.drop.after_move:2", ("catalog.drop.after_move", "catalog.drop.after_regions")),
    "catalog.truncate.after_intent": (
        "catalog.truncate.after_intent:1",
        ("truncate.after_manifest", "catalog.truncate.after_region"),
    ),
    "catalog.spread.after_intent": ("catalog.spread.after_intent:1", ("catalog.spread.after_tables",)),
}


@pytest.mark.parametrize(
    ("place", "point"), [(place, point) for place, points in LEFT_BEHIND.values() for point in points]
)
def test_a_start_that_dies_anywhere_can_be_repeated(
    place: str,
    point: str,
    tmp_path: Path,
    processes: multiprocessing.context.ForkServerContext,
    undisturbed: tuple[Counter[str], list[dict[str, Any]]],
) -> None:
    root = tmp_path / "life"
    root.mkdir()
    kill(processes, crash_child.live, str(root), place, 0)
    copy = tmp_path / "again"
    shutil.copytree(root, copy)
    kill(processes, crash_child.start, str(copy), f"{point}:1")
    assert check(copy, crash_child.acknowledged(copy), undisturbed[1]) == check(
        root, crash_child.acknowledged(root), undisturbed[1]
    )


def test_every_crash_point_is_listed() -> None:
    package = Path(tsdb.catalog.__file__).parent
    announced = [
        name for path in package.rglob("*.py") for name in re.findall(r'crash_point\(\s*"([^"]+)"', path.read_text())
    ]
    assert set(announced) == set(CRASH_POINTS)

"""Stores at the other end of a network: whatever they answer or do not, acknowledged rows are there, once.

The scripted life is lived over a store of which one call fails, loses its reply or returns less than it should: each
kind of call, at many places, with and without a file cache, with and without a restart at that moment.
"""

from __future__ import annotations

import copy
import os
from contextlib import suppress
from pathlib import Path

import pytest

from tests.engine import lives
from tests.engine.lives import Step
from tests.engine.store_world import StoreWorld
from tsdb.engine.engine import Engine
from tsdb.engine.errors import RegionNotFound
from tsdb.errors import TsdbError
from tsdb.model import ColumnExists, ColumnNotFound

KINDS = ("fail", "lose_reply", "shorten")
LIVES = int(os.environ.get("TSDB_STORE_FAULTS", "1"))
"""How many places of a life are tried for each kind of fault, of each way to live it."""


def count_calls(root: Path) -> int:
    """How many calls the store gets in a whole life."""
    world = StoreWorld(root)
    before = sum(world.remote.calls.values())
    lives.live(world.engine, *life())
    lives.settle(world.engine)
    calls = sum(world.remote.calls.values()) - before
    world.end()
    return calls


def life() -> list[Step]:
    """The scripted life with compactions, without its end."""
    steps = [step for step in lives.scripted() if step.name != "close"]
    return [*steps, lives.compact(lives.PLAIN), lives.compact(lives.APPEND), lives.tick()]


def live_through(world: StoreWorld, steps: list[Step], *, restarts: bool) -> None:
    """Live all steps; one that fails is tried again, and must be in effect then."""
    model: lives.Model = {}
    for step in steps:
        before = lives.see_model(copy.deepcopy(model))
        step.apply(model)
        after = lives.see_model(copy.deepcopy(model))
        try:
            step.run(world.engine)
        except TsdbError as error:
            if step.name.startswith(("put", "delete", "purge")):
                raise AssertionError(f"{step.name} needs no store") from error
            world.remote.up()
            if restarts:
                world.restart()
                assert not world.engine.quarantined
                assert world.see() in (before, after)
            if world.see() != after or step.name.startswith(("flush", "compact")):
                _repeat(step, world.engine)
        assert world.see() == after, step.name


def _repeat(step: Step, engine: Engine) -> None:
    """Do a step again; it may have come into effect after all."""
    with suppress(ColumnExists, ColumnNotFound, RegionNotFound):
        step.run(engine)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> int:
    return count_calls(tmp_path_factory.mktemp("counted"))


@pytest.mark.parametrize("restarts", [False, True], ids=["goes on", "restarts"])
@pytest.mark.parametrize("has_cache", [False, True], ids=["bare", "cached"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_fault_of_a_call_costs_a_row(tmp_path: Path, calls: int, kind: str, has_cache: bool, restarts: bool) -> None:
    steps = life()
    offset = 4 * KINDS.index(kind) + 2 * has_cache + restarts
    for number in range(LIVES):
        nth = (number * calls + calls * offset // 12) // LIVES + 1
        world = StoreWorld(tmp_path / str(number), has_cache=has_cache)
        getattr(world.remote, kind)("any", nth=nth)
        live_through(world, steps, restarts=restarts)
        world.check(lives.expected(*steps))
        world.end()


@pytest.mark.parametrize("kind", KINDS)
def test_no_fault_of_an_index_costs_a_row_or_a_flush(tmp_path: Path, kind: str) -> None:
    """Every request for an index file fails, its reply is lost, or half of it arrives; no step notices."""
    steps = life()
    world = StoreWorld(tmp_path)
    getattr(world.remote, kind)("any", ".idx", times=-1)
    lives.live(world.engine, *steps)
    lives.settle(world.engine)
    assert world.see() == lives.expected(*steps)
    indexed = [file for region in world.engine.region_ids() for file in world.engine.files(region) if file.index_bytes]
    assert bool(indexed) == (kind == "shorten")
    world.check(lives.expected(*steps))
    world.end()

"""Seeds of the simulated cluster: none violates what a cluster promises, and each protection is needed for that.

`TSDB_SIMULATION_SEED=17` runs one seed and prints what happened; `TSDB_SIMULATION_SEEDS` is how many are tried. Each
runs with both values of `wal.shared.acknowledge`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace

import pytest

from tests.engine.moves.history import Violation
from tests.simulation.world import LOCAL, Simulation, Weights
from tsdb.engine import Acknowledge
from tsdb.engine.log.shared.chains import Chains
from tsdb.engine.log.shared.layout import TermListing
from tsdb.engine.log.shared.log import SharedLog
from tsdb.engine.log.shared.terms import list_terms
from tsdb.engine.manifest import Manifest, ManifestState, Takeover
from tsdb.engine.region import hand_in, recovery, takeover
from tsdb.kv import Compare, Leadership, SharedOperation
from tsdb.model import LateEntry

SEEDS = int(os.environ.get("TSDB_SIMULATION_SEEDS", "4"))
ONE_SEED = os.environ.get("TSDB_SIMULATION_SEED")
EVENTS = 50
MUTANT_SEEDS_MAX = 40


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "OPEN_RETRY_SECONDS", (0.0, 0.0, 0.0))


def simulate(
    seed: int,
    weights: Weights | None = None,
    *,
    acknowledge: Acknowledge = Acknowledge.STORE,
    faults_per_thousand: int = 15,
) -> None:
    """Run a seed; a violation is reported with what led to it."""
    simulation = Simulation(seed, acknowledge=acknowledge, weights=weights, faults_per_thousand=faults_per_thousand)
    try:
        simulation.run(EVENTS)
    except Violation as violation:
        happened = "\n".join(simulation.trace[-40:])
        raise Violation(f"{violation}\nTSDB_SIMULATION_SEED={seed}, {acknowledge}\n{happened}") from violation


@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", [int(ONE_SEED)] if ONE_SEED else range(SEEDS))
@pytest.mark.parametrize("acknowledge", list(Acknowledge))
def test_no_seed_loses_or_doubles_a_row(seed: int, acknowledge: Acknowledge) -> None:
    simulate(seed, acknowledge=acknowledge)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("acknowledge", list(Acknowledge))
def test_a_seed_can_be_run_again(acknowledge: Acknowledge) -> None:
    traces = []
    for _ in range(2):
        simulation = Simulation(5, acknowledge=acknowledge)
        simulation.run(EVENTS)
        traces.append(simulation.trace)
    assert traces[0] == traces[1]
    assert len(traces[0]) > EVENTS // 2


def without_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of other nodes are read as they are: the terms stay open."""

    def seal(chains: Chains, node: int, reason: str, *, before: int | None = None) -> list[TermListing]:
        found = list_terms(chains.store, node).values()
        return [each for each in found if before is None or each.term < before]

    monkeypatch.setattr(Chains, "seal", seal)


def without_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that were taken over are in memory only."""

    def start_flush(*_: object) -> Future[None]:
        done: Future[None] = Future()
        done.set_result(None)
        return done

    monkeypatch.setattr(takeover, "start_flush", start_flush)


def without_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest is opened without a commit under the new epoch."""

    def claim(manifest: Manifest, *, always: bool = False) -> ManifestState:
        return manifest.state

    monkeypatch.setattr(Manifest, "claim", claim)


def without_late_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is back does not keep what others could not read."""
    monkeypatch.setattr(SharedLog, "keep_late", lambda *_: None)


def without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A region does not know which late rows it has."""

    def plan(known: Sequence[Takeover], request: hand_in.HandIn) -> tuple[tuple[LateEntry, ...], tuple[Takeover, ...]]:
        forgotten = [replace(each, late_entry_id=0, is_complete=False) for each in known]
        return plan_hand_in(forgotten, request)

    plan_hand_in = hand_in.plan_hand_in
    monkeypatch.setattr(hand_in, "plan_hand_in", plan)


def without_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader of the past can change the metadata."""

    def transact(leadership: Leadership, compares: Sequence[Compare], operations: Sequence[SharedOperation]) -> bool:
        return leadership._store.transact(compares, operations)

    monkeypatch.setattr(Leadership, "transact", transact)


MOVES: Weights = {"write": 30, "fail_over": 12, "heal": 8, "recover_fenced": 8, "crash": 3, "restart": 4, "read": 8}
LOSSES: Weights = {**LOCAL, "fail_over": 15, "hand_in_rows": 12}
LEADERS: Weights = {**MOVES, "migrate": 12, "fail_over": 6, "time_passes": 8, "crash": 1, "restart": 2}
STARTS: Weights = {"write": 20, "flush": 10, "replace": 20, "read": 5, "time_passes": 2}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("mutate", "weights", "acknowledge"),
    [
        (without_fence, MOVES, Acknowledge.STORE),
        (without_flush, MOVES, Acknowledge.STORE),
        (without_claim, STARTS, Acknowledge.STORE),
        (without_late_rows, LOSSES, Acknowledge.LOCAL),
        (without_proof, LEADERS, Acknowledge.LOCAL),
        pytest.param(
            *(without_memory, LOSSES, Acknowledge.LOCAL),
            marks=pytest.mark.skipif(SEEDS < 100, reason="run by `make soak`: it takes some seeds"),
        ),
    ],
    ids=["fence", "flush", "claim", "late rows", "proof", "memory"],
)
def test_a_simulation_without_a_protection_finds_a_violation(
    mutate: Callable[[pytest.MonkeyPatch], None],
    weights: Weights,
    acknowledge: Acknowledge,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutate(monkeypatch)
    found = next((seed for seed in range(MUTANT_SEEDS_MAX) if is_violated(seed, weights, acknowledge)), None)
    assert found is not None, f"no violation in {MUTANT_SEEDS_MAX} seeds"


def is_violated(seed: int, weights: Weights, acknowledge: Acknowledge) -> bool:
    try:
        simulate(seed, weights, acknowledge=acknowledge, faults_per_thousand=0)
    except Violation:
        return True
    return False

"""Seeds of the simulated cluster: none violates what a cluster promises, and each protection is needed for that.

`TSDB_SIMULATION_SEED=17` runs one seed and prints what happened; `TSDB_SIMULATION_SEEDS` is how many are tried.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from tests.simulation.world import Simulation, Violation
from tsdb.engine.log.shared.chains import Chains
from tsdb.engine.log.shared.layout import TermListing
from tsdb.engine.log.shared.terms import list_terms
from tsdb.engine.manifest import Manifest, ManifestState
from tsdb.engine.region import recovery, takeover

SEEDS = int(os.environ.get("TSDB_SIMULATION_SEEDS", "4"))
ONE_SEED = os.environ.get("TSDB_SIMULATION_SEED")
EVENTS = 50
MUTANT_SEEDS_MAX = 40

Weights = dict[str, int]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "OPEN_RETRY_SECONDS", (0.0, 0.0, 0.0))


def simulate(seed: int, weights: Weights | None = None, *, faults_per_thousand: int = 15) -> None:
    """Run a seed; a violation is reported with what led to it."""
    simulation = Simulation(seed, weights=weights, faults_per_thousand=faults_per_thousand)
    try:
        simulation.run(EVENTS)
    except Violation as violation:
        happened = "\n".join(simulation.trace[-40:])
        raise Violation(f"{violation}\nTSDB_SIMULATION_SEED={seed}\n{happened}") from violation


@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", [int(ONE_SEED)] if ONE_SEED else range(SEEDS))
def test_no_seed_loses_or_doubles_a_row(seed: int) -> None:
    simulate(seed)


@pytest.mark.timeout(300)
def test_a_seed_can_be_run_again() -> None:
    traces = []
    for _ in range(2):
        simulation = Simulation(5)
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


MOVES: Weights = {"write": 30, "fail_over": 12, "heal": 8, "recover_fenced": 8, "crash": 3, "restart": 4, "read": 8}
STARTS: Weights = {"write": 20, "flush": 10, "replace": 20, "read": 5, "time_passes": 2}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("mutate", "weights"),
    [(without_fence, MOVES), (without_flush, MOVES), (without_claim, STARTS)],
    ids=["fence", "flush", "claim"],
)
def test_a_simulation_without_a_protection_finds_a_violation(
    mutate: Callable[[pytest.MonkeyPatch], None], weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    found = next((seed for seed in range(MUTANT_SEEDS_MAX) if is_violated(seed, weights)), None)
    assert found is not None, f"no violation in {MUTANT_SEEDS_MAX} seeds"


def is_violated(seed: int, weights: Weights) -> bool:
    try:
        simulate(seed, weights, faults_per_thousand=0)
    except Violation:
        return True
    return False

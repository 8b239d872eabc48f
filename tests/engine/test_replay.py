"""A life of the engine repeats with the same seed: the same files under the same names, with the same bytes."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from tests.engine import lives
from tests.engine.harness import REGION, create, open_engine, put
from tsdb.clock import ManualClock
from tsdb.ids import SeededIds, SystemIds

NOW_NS = 1_700_000_000_000_000_000


def live(root: Path, seed: int | None) -> dict[str, str]:
    """Write, flush, compact and reopen; returns the digests of all objects by their paths."""
    ids, clock = SystemIds() if seed is None else SeededIds(seed), ManualClock(NOW_NS)
    for life in range(2):
        engine = open_engine(root, ids=ids, clock=clock)
        lives.settle(engine)  # what the life before has left is removed before files are written again
        if not life:
            create(engine)
        for number in range(3):
            put(engine, [{"host": f"h{number}", "ts": life * 10 + number, "a": 1.5 * number}])
            engine.flush(REGION).result(30)
        engine.compact(REGION).result(60)
        engine.close()
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and "wal" not in path.parts]
    return {str(path.relative_to(root)): sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    first = live(tmp_path / "first", seed=7)
    assert any(name.endswith(".parquet") for name in first)
    assert live(tmp_path / "second", seed=7) == first


def test_another_seed_and_no_seed_give_other_names(tmp_path: Path) -> None:
    names = [frozenset(live(tmp_path / str(seed), seed)) for seed in (7, 8, None)]
    data = [{name for name in each if name.endswith(".parquet")} for each in names]
    assert not data[0] & data[1]
    assert not (data[0] | data[1]) & data[2]

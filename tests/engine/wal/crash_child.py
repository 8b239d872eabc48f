"""A process that works on a log until it dies. What it was promised, it writes down first."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.engine.wal.logs import Floors, make_entry, make_frame, open_wal, replayed
from tsdb.store import _crash

REGIONS = (1, 2, 3)


def work(directory: str, promises: str, crash_point: str, sync_write: bool, rounds: int) -> None:
    """Append, flush and purge; note `a region entry` for what is acknowledged, `f region entry` for what is flushed."""
    os.environ[_crash.ENVIRONMENT_VARIABLE] = crash_point
    _crash.arm_from_environment()
    notes = os.open(promises, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(kind: str, region: int, entry: int) -> None:
        os.write(notes, f"{kind} {region} {entry}\n".encode())

    floors = read_promises(Path(promises))[1]
    wal, _ = open_wal(Path(directory), file_size=900, sync_write=sync_write)
    last = {region: floors.get(region, 0) for region in REGIONS}
    for entry in replayed(wal, Floors(floors)):
        last[entry.region_id] = entry.entry_id
    for round_number in range(rounds):
        for region in REGIONS:
            last[region] += 1
        wal.append([make_frame(make_entry(region, last[region])) for region in REGIONS]).result(10)
        for region in REGIONS:
            note("a", region, last[region])
        if round_number % 4 == 3:
            for region in REGIONS:
                note("f", region, last[region])
                wal.floor(region, last[region])
            wal.purge()
    wal.seal()


def read_promises(path: Path) -> tuple[dict[int, int], dict[int, int]]:
    """The last acknowledged and the last flushed entry of each region."""
    acknowledged: dict[int, int] = {}
    flushed: dict[int, int] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        kind, region, entry = line.split()
        (acknowledged if kind == "a" else flushed)[int(region)] = int(entry)
    return acknowledged, flushed


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], "", sync_write=True, rounds=1_000_000)

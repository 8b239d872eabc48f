"""The process ends at every crash point; whatever was acknowledged before is there afterwards."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.engine.manifest.regions import create, file_id, make_file, names, reopen
from tsdb.engine.manifest import CRASH_POINTS, Edit
from tsdb.store import LocalStore, MemoryStore, on_crash_point

COMMITS = 7
DISTANCE = 2
PLACES = [
    *(f"{name}:{passing}" for name in CRASH_POINTS for passing in (1, 3)),
    "store.put_if_absent.before_link:3",
    "store.put_if_absent.after_link:3",
    "store.put.after_rename:2",
]
EXIT_CODE = 137

CHILD = """
import sys
from tests.engine.manifest.regions import write
from tsdb.store import LocalStore
write(LocalStore(sys.argv[1]), commits=int(sys.argv[2]), distance=int(sys.argv[3]))
"""


def run_child(directory: Path, place: str) -> list[int]:
    """Write until the process dies; return what it acknowledged."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(directory), str(COMMITS), str(DISTANCE)],
        env={"TSDB_CRASH_POINT": place, "PATH": ""},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == EXIT_CODE, done.stderr
    return [int(line) for line in done.stdout.split()]


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, list[int]]]:
    """The directories that dying at each place leaves. Starting a process is slow, so they run side by side."""
    directories = {place: tmp_path_factory.mktemp("crash") for place in PLACES}
    with ThreadPoolExecutor(4) as pool:
        acknowledged = pool.map(run_child, directories.values(), directories)
        return {place: (directories[place], acked) for place, acked in zip(directories, acknowledged, strict=True)}


@pytest.mark.parametrize("place", PLACES)
def test_what_was_acknowledged_survives_a_kill(place: str, crashed: dict[str, tuple[Path, list[int]]]) -> None:
    directory, acknowledged = crashed[place]
    store = LocalStore(directory)
    store.sweep_temporary()
    manifest = create(store, distance=DISTANCE)
    commits = manifest.state.version - 1
    assert commits in (len(acknowledged), len(acknowledged) + 1)
    assert list(manifest.state.files) == [file_id(number) for number in range(max(0, commits - 2), commits)]
    assert manifest.state.flushed_entry_id == commits

    if commits < COMMITS:
        manifest.commit(Edit(added=(make_file(100),)))
    manifest.checkpoint()
    assert names(store) == [f"{manifest.state.version}.checkpoint", "_last_checkpoint"]
    assert reopen(store).state == manifest.state


def test_every_crash_point_is_passed_and_listed() -> None:
    passed: list[str] = []
    with on_crash_point(passed.append):
        manifest = create(MemoryStore(), distance=1)
        manifest.commit(Edit(added=(make_file(0),)))
        manifest.checkpoint()
    assert {name for name in passed if name.startswith("manifest.")} == set(CRASH_POINTS)

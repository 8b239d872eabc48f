"""The process ends at every crash point; whatever was acknowledged before is there afterwards."""

from __future__ import annotations

import subprocess
import sys
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

CHILDREN = """
import os, sys
from pathlib import Path
from tests.engine.manifest.regions import write
from tsdb.store import LocalStore
from tsdb.store._crash import ENVIRONMENT_VARIABLE, arm_from_environment

home, commits, distance = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
for number, place in enumerate(sys.argv[4:]):
    child = os.fork()
    if child == 0:
        os.dup2(os.open(home / f"{number}.acknowledged", os.O_CREAT | os.O_WRONLY), 1)
        os.environ[ENVIRONMENT_VARIABLE] = place
        arm_from_environment()
        write(LocalStore(home / str(number)), commits=commits, distance=distance)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""
"""Writes until it dies, once for every place, and says how each ended. One process forks them: importing is slow."""


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, list[int]]]:
    """The directories that dying at each place leaves, with what was acknowledged there."""
    home = tmp_path_factory.mktemp("crash")
    done = subprocess.run(
        [sys.executable, "-c", CHILDREN, str(home), str(COMMITS), str(DISTANCE), *PLACES],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.stdout.split() == [str(EXIT_CODE)] * len(PLACES), done.stderr
    return {
        place: (home / str(number), [int(line) for line in (home / f"{number}.acknowledged").read_text().split()])
        for number, place in enumerate(PLACES)
    }


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

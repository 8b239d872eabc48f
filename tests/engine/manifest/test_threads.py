"""What may run beside the writer: readers of the state, and one checkpoint."""

from __future__ import annotations

import threading

from tests.engine.manifest.regions import create, file_id, make_file, reopen
from tsdb.engine.manifest import Edit
from tsdb.store import MemoryStore, on_crash_point


def test_commits_go_on_while_a_checkpoint_is_written() -> None:
    store = MemoryStore()
    manifest = create(store, distance=1)
    manifest.commit(Edit(added=(make_file(0),)))
    has_begun, may_end = threading.Event(), threading.Event()

    def wait(name: str) -> None:
        if name == "manifest.checkpoint.after_put":
            has_begun.set()
            assert may_end.wait(10)

    with on_crash_point(wait):
        thread = threading.Thread(target=manifest.checkpoint)
        thread.start()
        assert has_begun.wait(10)
        manifest.commit(Edit(added=(make_file(1),)))
        manifest.commit(Edit(added=(make_file(2),), removed=(file_id(0),)))
        may_end.set()
        thread.join(10)
    assert manifest.needs_checkpoint
    assert reopen(store).state == manifest.state
    assert list(manifest.state.files) == [file_id(1), file_id(2)]


def test_readers_beside_commits_and_checkpoints_always_see_a_whole_manifest() -> None:
    store = MemoryStore()
    manifest = create(store, distance=2)
    is_done = threading.Event()
    seen: list[int] = []
    failures: list[Exception] = []

    def read() -> None:
        try:
            while not is_done.is_set():
                state = reopen(store).state
                assert list(state.files) == [file_id(number) for number in range(state.version - 1)]
                seen.append(state.version)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    for number in range(100):
        manifest.commit(Edit(added=(make_file(number),)))
        if manifest.needs_checkpoint:
            manifest.checkpoint()
    is_done.set()
    thread.join(30)
    assert not failures
    assert seen == sorted(seen)

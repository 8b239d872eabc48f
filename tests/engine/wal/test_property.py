"""Whatever happens between starts: what was acknowledged and is still needed comes back, in order and unchanged."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.wal.logs import Entry, Floors, make_entry, make_frame, open_wal, replayed
from tsdb.engine.wal import Wal

_regions = st.integers(1, 4)
_steps = st.one_of(
    st.tuples(st.just("append"), st.lists(st.tuples(_regions, st.sampled_from([0, 1, 60, 300, 5000])), max_size=6)),
    st.tuples(st.just("restart"), st.booleans()),
    st.tuples(st.just("flush"), _regions),
    st.tuples(st.just("drop"), _regions),
    st.tuples(st.just("purge"), st.none()),
)


class _Model:
    """A log, and what it should hold."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self._directory = directory
        self._settings = settings
        self._wal: Wal = open_wal(directory, **settings)[0]
        self._entries: list[Entry] = []
        self._last: dict[int, int] = {}
        self._floors: dict[int, int] = {}

    def append(self, sizes: list[tuple[int, int]]) -> None:
        entries = []
        for region, size in sizes:
            self._last[region] = self._last.get(region, 0) + 1
            entries.append(make_entry(region, self._last[region], size))
        self._wal.append([make_frame(entry) for entry in entries]).result(10)
        self._entries += entries

    def flush(self, region: int) -> None:
        if region in self._last:
            self._floors[region] = self._last[region]
            self._wal.floor(region, self._last[region])

    def drop(self, region: int) -> None:
        self._wal.drop_region(region).result(10)
        self._entries = [entry for entry in self._entries if entry.region_id != region]
        self._last.pop(region, None)
        self._floors.pop(region, None)

    def purge(self, _: None) -> None:
        self._wal.purge()

    def restart(self, clean: bool) -> None:
        self._wal.seal(clean=clean)
        self._wal, recovery = open_wal(self._directory, **self._settings)
        assert recovery.was_clean == clean
        assert recovery.torn is None
        assert recovery.corruptions == ()
        replay = self._wal.read(Floors(self._floors))
        assert replay.quarantined == {}
        needed = [entry for entry in self._entries if entry.entry_id > self._floors.get(entry.region_id, 0)]
        assert replayed(self._wal, Floors(self._floors)) == needed
        for region, floor in self._floors.items():
            self._wal.floor(region, floor)

    def close(self) -> None:
        self._wal.seal()


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(_steps, max_size=20),
    file_size=st.integers(100, 3000),
    sync_write=st.booleans(),
    read_batch_size=st.integers(1, 5),
)
def test_what_was_acknowledged_is_replayed_in_order(
    steps: list[tuple[str, Any]], file_size: int, sync_write: bool, read_batch_size: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        model = _Model(
            Path(directory),
            file_size=file_size,
            sync_write=sync_write,
            read_batch_size=read_batch_size,
            purge_threshold=2000,
        )
        try:
            for action, argument in steps:
                getattr(model, action)(argument)
            model.restart(clean=False)
            model.restart(clean=True)
        finally:
            model.close()

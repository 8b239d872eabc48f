"""Databases that exist for one statement: tables of a backup, opened beside the database that they are copied to."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tsdb.components._local import LocalOptions, open_directory
from tsdb.database import Services
from tsdb.engine import EngineOptions, WalSettings
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.query import QueryEngineOptions
from tsdb.store import Files, ObjectStore, make_directories
from tsdb.units import Size

_ID_BYTES = 8
_MEMORY = Size.parse("256MiB")
"""What queries of such a database may take before they spill."""


class ScratchDatabases:
    """Makes them below a directory, which is emptied first: what is there was left by a process that was killed."""

    def __init__(self, root: Path, ids: Ids = SYSTEM_IDS) -> None:
        self._root = root
        self._ids = ids
        shutil.rmtree(root, ignore_errors=True)

    @contextmanager
    def open(self, fill: Callable[[Path], ObjectStore]) -> Iterator[Services]:
        """Open what `fill` puts into a new directory, until the block ends; it returns the store of the data files."""
        home = self._root / self._ids.token(_ID_BYTES)
        make_directories(Files(), home)
        try:
            store = fill(home)
            opened = open_directory(home, store=store, options=_options(home))
            opened.flushes_at_close = False
            try:
                yield opened.database.services
            finally:
                opened.close()
        finally:
            shutil.rmtree(home, ignore_errors=True)


def _options(home: Path) -> LocalOptions:
    return LocalOptions(
        engine=EngineOptions(num_workers=1, max_background_jobs=1),
        wal=WalSettings(ballast_bytes=Size(0)),
        query=QueryEngineOptions(memory_bytes=_MEMORY, spill_dir=home / "spill"),
        has_housekeeping=False,
        address="restore",
    )

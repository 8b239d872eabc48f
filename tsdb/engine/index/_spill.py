"""External sorting: postings that do not fit into memory are sorted in runs on disk, which are then merged.

    values ─ piece by piece ─▶ sorted runs on disk ─ a block of each, up to the least last value ─▶ merged

A build has a directory of its own, which is removed when it ends. What a crash leaves is removed at the next start.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.engine.index._options import IndexOptions
from tsdb.engine.index._postings import Postings, join_postings, sort_postings
from tsdb.store import crash_point

CRASH_POINTS = ("index.spill.after_run", "index.spill.before_merge", "index.spill.before_remove")

_PREFIX = "tsdb-index-"
_BLOCK_VALUES = 4096
_SERIES_BYTES = 4
_PIECES_MAX = 512
"""Runs of one build: each is an open file while they are merged."""


def clean_spills(directory: Path) -> int:
    """Remove what builds of an earlier process left; return how many there were. Other files are left alone."""
    left = [path for path in directory.glob(f"{_PREFIX}*") if path.is_dir()] if directory.is_dir() else []
    for path in left:
        shutil.rmtree(path, ignore_errors=True)
    return len(left)


def iter_postings(values: pa.Array, options: IndexOptions) -> Iterator[Postings]:
    """Yield the postings of all series in the order of values, sorted on disk if they take too much memory."""
    nbytes = values.nbytes + len(values) * _SERIES_BYTES
    limit = options.memory_bytes_max
    if limit is None or options.spill_directory is None or nbytes <= limit:
        yield sort_postings(values)
        return
    count = min(_PIECES_MAX, len(values), -(-nbytes // max(1, limit)))
    with _directory(options.spill_directory) as directory:
        bounds = np.linspace(0, len(values), count + 1).astype(np.int64).tolist()
        for number, (start, stop) in enumerate(pairwise(bounds)):
            _write_run(directory / f"{number}.run", sort_postings(values.slice(start, stop - start), start))
            crash_point("index.spill.after_run")
        crash_point("index.spill.before_merge")
        yield from _merge([_Run(directory / f"{number}.run") for number in range(count)])
        crash_point("index.spill.before_remove")


@contextmanager
def _directory(parent: Path) -> Iterator[Path]:
    directory = parent / f"{_PREFIX}{secrets.token_hex(8)}"
    directory.mkdir(parents=True)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _write_run(path: Path, postings: Postings) -> None:
    schema = pa.schema([("value", postings.values.type), ("series", pa.list_(pa.uint32()))])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for start in range(0, len(postings), _BLOCK_VALUES):
            part = postings.slice(start, min(start + _BLOCK_VALUES, len(postings)))
            lists = pa.ListArray.from_arrays(pa.array(part.offsets, pa.int32()), pa.array(part.series))
            writer.write_batch(pa.record_batch([part.values, lists], schema=schema))


class _Run:
    """A sorted run, of which one block is in memory."""

    def __init__(self, path: Path) -> None:
        self._file = pa.OSFile(str(path))
        self._reader = pa.ipc.open_file(self._file)
        self._next = 0
        self.block: Postings | None = None
        self.advance()

    def advance(self) -> None:
        """Read the next block; None is left at the end."""
        if self._next == self._reader.num_record_batches:
            self.block = None
            self._file.close()
            return
        batch = self._reader.get_batch(self._next)
        self._next += 1
        lists = batch.column(1)
        offsets = lists.offsets.to_numpy().astype(np.int64)
        self.block = Postings(batch.column(0), offsets, lists.values.to_numpy())

    def take_until(self, last: pa.Scalar) -> Postings | None:
        """Return what the block has up to a value, and keep the rest."""
        block = self.block
        assert block is not None
        count = len(block)
        if last.is_valid:
            is_inside = pc.fill_null(pc.less_equal(block.values, last), True)
            count = int(pc.sum(is_inside).as_py())
        elif block.values[0].is_valid:
            return None
        else:
            count = 1
        if not count:
            return None
        taken = block.slice(0, count)
        if count == len(block):
            self.advance()
        else:
            self.block = block.slice(count, len(block))
        return taken


def _merge(runs: list[_Run]) -> Iterator[Postings]:
    """Yield the postings of runs, whose series follow each other, in the order of values."""
    while runs := [run for run in runs if run.block is not None]:
        last = min((run.block.values[-1] for run in runs if run.block is not None), key=_key)
        pieces = [taken for run in runs if (taken := run.take_until(last)) is not None]
        yield join_postings(pieces)


def _key(value: pa.Scalar) -> tuple[bool, Any]:
    return (True, value.as_py()) if value.is_valid else (False, 0)

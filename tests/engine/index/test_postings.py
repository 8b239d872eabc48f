"""Postings against a dictionary: sorted in memory and on disk, in pages that hold what their directory says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsdb.engine.index import (
    IndexDamaged,
    IndexFile,
    IndexOptions,
    InvertedIndex,
    TagTest,
    ValueSpan,
    clean_spills,
    directory_blob,
    encode_index,
    encode_inverted,
    inverted_blob,
)
from tsdb.engine.index._spill import iter_postings
from tsdb.engine.tuning import IndexTuning
from tsdb.store import MemoryStore

FILE_ID = "0" * 32
TEXTS = st.lists(st.none() | st.sampled_from(["", "a", "b", "ä", "aa", "\U0010ffff"]) | st.text(max_size=3), min_size=1)
NUMBERS = st.lists(st.none() | st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1), min_size=1)
COLUMNS = TEXTS.map(lambda values: pa.array(values, pa.string())) | NUMBERS.map(
    lambda values: pa.array(values, pa.int64())
)
TUNINGS = st.builds(IndexTuning, page_values=st.integers(1, 4), page_postings=st.integers(1, 6))


def postings_of(values: pa.Array) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for place, value in enumerate(values.to_pylist()):
        found.setdefault(value, []).append(place)
    nulls = {None: found.pop(None)} if None in found else {}
    return {**nulls, **dict(sorted(found.items()))}


def read_postings(values: pa.Array, options: IndexOptions) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for postings in iter_postings(values, options):
        for at, value in enumerate(postings.values.to_pylist()):
            assert value not in found
            found[value] = postings.series[postings.offsets[at] : postings.offsets[at + 1]].tolist()
    return found


@settings(max_examples=150, deadline=None)
@given(COLUMNS)
def test_sorting_in_memory_gives_each_value_its_series(values: pa.Array) -> None:
    assert list(read_postings(values, IndexOptions()).items()) == list(postings_of(values).items())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(COLUMNS, st.integers(1, 64))
def test_sorting_on_disk_gives_the_same_and_leaves_nothing_behind(
    tmp_path: Path, values: pa.Array, memory_bytes_max: int
) -> None:
    found = read_postings(values, IndexOptions(memory_bytes_max, tmp_path))
    assert list(found.items()) == list(postings_of(values).items())
    assert not list(tmp_path.iterdir())


def test_runs_of_many_blocks_are_merged(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    values = pa.array([f"v{number}" for number in random.integers(0, 20_000, 60_000)])
    assert read_postings(values, IndexOptions(100_000, tmp_path)) == postings_of(values)


def test_values_are_sorted_on_disk_only_above_the_threshold(tmp_path: Path) -> None:
    values = pa.array([f"v{number % 50}" for number in range(1000)])
    pieces: Iterator[Any] = iter_postings(values, IndexOptions(1 << 20, tmp_path / "spill"))
    next(pieces)
    assert not (tmp_path / "spill").exists()
    pieces = iter_postings(values, IndexOptions(1000, tmp_path / "spill"))
    next(pieces)
    (directory,) = (tmp_path / "spill").iterdir()
    assert len(list(directory.glob("*.run"))) > 1
    pieces.close()  # type: ignore[attr-defined]
    assert not list((tmp_path / "spill").iterdir())


def test_what_a_crash_left_is_removed_and_other_files_stay(tmp_path: Path) -> None:
    left = tmp_path / "tsdb-index-0123"
    left.mkdir()
    (left / "0.run").write_bytes(b"x")
    (tmp_path / "mine").mkdir()
    (tmp_path / "tsdb-index-notes").write_text("a file")
    assert clean_spills(tmp_path) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "tsdb-index-notes"]
    assert clean_spills(tmp_path / "missing") == 0


def open_index(values: pa.Array, tuning: IndexTuning, damage: int | None = None) -> InvertedIndex:
    blob, directory = encode_inverted(values, IndexOptions(tuning=tuning))
    name = inverted_blob(7)
    content = bytearray(b"".join(encode_index(FILE_ID, {name: blob, directory_blob(name): directory})))
    if damage is not None:
        content[damage] ^= 1
    store = MemoryStore()
    store.put("x.idx", bytes(content))
    return InvertedIndex(IndexFile(store, "x.idx", len(content), file_id=FILE_ID), 7, values.type)


@settings(max_examples=200, deadline=None)
@given(COLUMNS, TUNINGS, st.data())
def test_pages_of_a_span_have_all_series_with_values_in_it(
    values: pa.Array, tuning: IndexTuning, data: st.DataObject
) -> None:
    index = open_index(values, tuning)
    bounds = st.none() | st.sampled_from([value for value in values.to_pylist() if value is not None] or [None])
    span = ValueSpan(data.draw(bounds), data.draw(bounds))

    def is_inside(value: Any) -> bool:
        return (
            value is not None and (span.low is None or span.low <= value) and (span.high is None or value <= span.high)
        )

    test = TagTest(7, (span,), lambda own: np.array([is_inside(value) for value in own.to_pylist()], np.bool_))
    read = [index.blob.read(int(page)) for page in index.pages_of(test)]
    expected = [place for place, value in enumerate(values.to_pylist()) if is_inside(value)]
    assert index.match(read, test).tolist() == expected


@settings(max_examples=100, deadline=None)
@given(COLUMNS, TUNINGS)
def test_without_spans_every_value_is_looked_at_null_included(values: pa.Array, tuning: IndexTuning) -> None:
    index = open_index(values, tuning)
    wanted = TagTest(7, None, lambda own: own.is_null().to_numpy(zero_copy_only=False))
    read = [index.blob.read(int(page)) for page in index.pages_of(wanted)]
    expected = [place for place, value in enumerate(values.to_pylist()) if value is None]
    assert index.match(read, wanted).tolist() == expected


def test_a_page_of_a_few_values_is_a_small_part_of_the_index() -> None:
    values = pa.array([f"host_{number:05}" for number in range(20_000)])
    index = open_index(values, IndexTuning())
    test = TagTest(7, (ValueSpan("host_07777", "host_07777"),), lambda own: np.zeros(len(own), np.bool_))
    pages = index.pages_of(test)
    assert len(pages) == 1
    assert index.blob.bytes_of(pages) < index.blob.size_bytes / 8


def test_a_damaged_page_is_found_out() -> None:
    values = pa.array([f"host_{number:05}" for number in range(10_000)])
    index = open_index(values, IndexTuning(), damage=2000)
    with pytest.raises(IndexDamaged, match="checksum of a page"):
        index.blob.read(0)
    assert index.blob.read(1).num_rows == IndexTuning().page_values

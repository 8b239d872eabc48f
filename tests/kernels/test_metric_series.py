"""`MetricSeries`: series by their places; what a log holds of them is read back by the engine's reader of entries."""

from __future__ import annotations

import struct
import subprocess
import sys
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb import _kernels
from tsdb.engine.entry import unpack_columns

Drawn = tuple[list[str], list[tuple[int, int]]]


def make(table_ids: list[int], text_of: list[int], texts: list[str], *, add_in: int = 1) -> _kernels.MetricSeries:
    """Make series with their places as hashes, added in some parts."""
    series = _kernels.MetricSeries()
    places = np.arange(len(table_ids), dtype=np.uint64)
    for chosen in np.array_split(places, add_in):
        start = series.add(
            pa.array(chosen),
            pa.array(chosen + np.uint64(1 << 40)),
            pa.array([table_ids[at] for at in chosen], pa.uint32()),
            pa.array([text_of[at] for at in chosen], pa.int32()),
            pa.array(texts, pa.string()),
        )
        assert start == (chosen[0] if len(chosen) else start)
    return series


def as_bytes(places: list[int]) -> bytes:
    return np.array(places, np.uint32).tobytes()


def seal(series: _kernels.MetricSeries, places: bytes) -> bytes:
    """Make a log entry without rows and without compression."""
    nothing = memoryview(b"")
    stored, _, is_compressed, size = series.seal(
        places, (b"", b""), nothing, 2, nothing, nothing, compress_from=1 << 40
    )
    assert not is_compressed
    assert size == len(stored)
    return stored


def read_packed(series: _kernels.MetricSeries, places: list[int]) -> list[pa.Array]:
    """Return the tags as the log holds them."""
    stored = seal(series, as_bytes(places))
    none, tags, none_either, fields, count, rows, tags_form, fields_form = struct.unpack_from("<8I", stored)
    assert (none, none_either, fields, count, rows, tags_form, fields_form) == (0, 0, 0, len(places), 0, 1, 2)
    assert len(stored) == 32 + tags + 16 * len(places)
    columns = unpack_columns(pa.py_buffer(stored[32 : 32 + tags]), columns=2, rows=len(places))
    return [column.take(np.arange(len(places), dtype=np.uint32)) for column in columns]


def drawn_series() -> st.SearchStrategy[Drawn]:
    return st.lists(st.text(max_size=5), min_size=1, max_size=400).flatmap(
        lambda texts: st.tuples(
            st.just(texts),
            st.lists(
                st.tuples(st.integers(0, 2**32 - 1) | st.integers(1, 3), st.integers(0, len(texts) - 1)),
                min_size=1,
                max_size=600,
            ),
        )
    )


@given(drawn_series(), st.integers(1, 3), st.data())
def test_what_was_added_is_read_back_in_every_form(drawn: Drawn, add_in: int, data: st.DataObject) -> None:
    texts, described = drawn
    series = make([table for table, _ in described], [text for _, text in described], texts, add_in=add_in)
    assert len(series) == len(described)
    chosen = data.draw(st.lists(st.integers(0, len(described) - 1), max_size=50))
    tables = [described[at][0] for at in chosen]
    labels = [texts[described[at][1]] for at in chosen]

    tsid, check = series.hashes(as_bytes(chosen))
    assert np.frombuffer(tsid, np.uint64).tolist() == chosen
    assert np.frombuffer(check, np.uint64).tolist() == [at + (1 << 40) for at in chosen]
    read = [pa.array(column).to_pylist() for column in series.tags(as_bytes(chosen))]
    assert read == [tables, labels]
    assert [column.to_pylist() for column in read_packed(series, chosen)] == [[str(table) for table in tables], labels]


def test_many_distinct_values_have_wider_codes() -> None:
    count = 70_000
    texts = [str(at) for at in range(count)]
    series = make([7] * count, list(range(count)), texts)
    owners, labels = read_packed(series, list(range(count)))
    assert labels.to_pylist() == texts
    assert set(owners.to_pylist()) == {"7"}


@pytest.mark.parametrize("wrong", [-1, 1, 2**30])
def test_a_text_that_is_not_there_is_refused(wrong: int) -> None:
    with pytest.raises(ValueError, match=f"there is no text {wrong}"):
        make([1], [wrong], ["a"])


def test_a_place_that_is_not_there_is_refused() -> None:
    series = make([1, 2], [0, 0], ["a"])
    for ask in (series.hashes, partial(seal, series), series.tags):
        with pytest.raises(ValueError, match="there is no series 2"):
            ask(as_bytes([0, 2]))
        with pytest.raises(ValueError, match="not numbers of four bytes"):
            ask(b"123")


def test_columns_of_other_types_and_lengths_are_refused() -> None:
    series = _kernels.MetricSeries()
    hashes, owner, text_of = pa.array([1], pa.uint64()), pa.array([1], pa.uint32()), pa.array([0], pa.int32())
    with pytest.raises(ValueError, match="differ in length"):
        series.add(hashes, hashes, owner, pa.array([0, 0], pa.int32()), pa.array(["a"]))
    with pytest.raises(TypeError, match="expected an array of strings"):
        series.add(hashes, hashes, owner, text_of, pa.array([1.0]))
    broken = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff"))
    with pytest.raises(ValueError, match="not UTF-8"):
        series.add(hashes, hashes, owner, text_of, broken)
    assert len(series) == 0


def test_an_entry_has_a_series_for_each_of_its_rows() -> None:
    series = make([1], [0], ["a"])
    times, index = memoryview(bytes(16)), memoryview(bytes(4))
    with pytest.raises(ValueError, match="a series for each time"):
        series.seal(as_bytes([0]), (b"", b""), times, 2, times, index, compress_from=0)


_ADD_AND_SEAL = """
import threading
import numpy as np, pyarrow as pa
from tsdb import _kernels

series = _kernels.MetricSeries()
numbers = np.arange(2000, dtype=np.uint64)
owner, text_of = pa.array(numbers.astype(np.uint32)), pa.array(numbers.astype(np.int32))
texts = pa.array(map(str, numbers))

def add():
    series.add(pa.array(numbers), pa.array(numbers), owner, text_of, texts)

def seal():
    times, index = memoryview(bytes(16_000)), memoryview(bytes(8_000))
    places = numbers.astype(np.uint32).tobytes()
    while len(series) < 400_000:
        series.seal(places, (b"", b""), times, 2, times, index, compress_from=0)

add()
threads = [threading.Thread(target=seal, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
while len(series) < 400_000:
    add()
for thread in threads:
    thread.join()
"""


def test_series_are_added_while_entries_are_made() -> None:
    # In a process of its own: threads that wait for each other and for the interpreter would stop this one as well.
    subprocess.run([sys.executable, "-c", _ADD_AND_SEAL], check=True, timeout=100)

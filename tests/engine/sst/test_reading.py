"""How much of a file is read, from where, and by how many at once."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.sst.files import HOSTS, LARGE, Files, content_of, hosts, run_of
from tsdb._kernels import SteppedTimes
from tsdb.engine.rows.cache import Caches, ColumnKey
from tsdb.engine.rows.slices import Slices
from tsdb.engine.rows.vectors import CarryOver
from tsdb.engine.sst import DataFile, WrittenFile
from tsdb.model import ColumnId
from tsdb.store import MemoryStore

USAGE = HOSTS.by_name["usage"].id
ROW_GROUP = 100


class CountingStore(MemoryStore):
    """Counts reads."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = 0
        self.ranges = 0

    def open_input(self, path: str) -> pa.NativeFile:
        self.opened += 1
        return super().open_input(path)

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        self.ranges += 1
        return super().get_range(path, offset, length)

    @property
    def reads(self) -> int:
        return self.opened + self.ranges


def make_file(caches: Caches) -> tuple[Files, WrittenFile, DataFile, CountingStore]:
    store = CountingStore()
    files = Files(HOSTS, store=store, row_group_rows=ROW_GROUP)
    written = files.write(hosts(HOSTS, series=20, points=50))
    store.opened = store.ranges = 0
    return files, written, files.open(written, caches), store


def caches(*, meta: int = LARGE, vectors: int = 0, pages: int = 0) -> Caches:
    return Caches.of(sst_meta_bytes=meta, vector_bytes=vectors, page_bytes=pages)


@pytest.mark.parametrize(
    ("rows", "groups"),
    [
        (Slices.one(0, 1), 1),
        (Slices.one(99, 100), 1),
        (Slices.one(99, 101), 2),
        (Slices.one(100, 200), 1),
        (Slices.one(0, 1000), 10),
        (Slices.one(500, 500), 0),
        (Slices(np.array([10, 30, 950]), np.array([20, 40, 960])), 2),
        (Slices(np.array([0, 150, 150]), np.array([0, 150, 250])), 2),
        (Slices(np.arange(0, 1000, 100), np.arange(0, 1000, 100) + 1), 10),
    ],
)
def test_only_row_groups_that_rows_lie_in_are_decoded(rows: Slices, groups: int) -> None:
    shared = caches(vectors=LARGE)
    *_, opened, _ = make_file(shared)
    file = opened.reader()
    file.times(rows)
    assert shared.vectors.statistics().misses == groups
    file.field(USAGE, rows)
    assert shared.vectors.statistics().misses == 2 * groups


def test_nothing_is_read_before_it_is_asked_for() -> None:
    *_, file, store = make_file(caches())
    assert file.facts.rows == 1000
    assert store.reads == 0


def test_what_was_written_is_remembered_without_a_read() -> None:
    shared = caches()
    _, written, file, store = make_file(shared)
    written.remember(shared)
    assert len(file.block) == 20
    assert file.schema == HOSTS
    assert store.reads == 0


def test_a_slice_within_a_cached_vector_shares_its_memory() -> None:
    *_, opened, _ = make_file(caches(vectors=LARGE))
    file = opened.reader()
    assert np.array_equal(file.times(Slices.one(0, 100))[20:30], file.times(Slices.one(20, 30)))
    values = file.field(USAGE, Slices.one(0, 100))
    part = file.field(USAGE, Slices.one(20, 30))
    assert values is not None
    assert part is not None
    assert part.buffers()[1].address == values.buffers()[1].address


def test_decoded_columns_are_not_read_again() -> None:
    shared = caches(vectors=LARGE)
    *_, file, store = make_file(shared)
    first = content_of(file.reader())
    reads = store.reads
    content_of(file.reader()).check_equal(first)
    assert store.reads == reads
    assert shared.vectors.statistics().hits == shared.vectors.statistics().misses


def test_stored_columns_are_decoded_again_without_touching_the_store() -> None:
    shared = caches(pages=LARGE)
    *_, file, store = make_file(shared)
    first = content_of(file.reader())
    reads = store.reads
    content_of(file.reader()).check_equal(first)
    assert store.reads == reads
    assert shared.pages.statistics().hits == shared.pages.statistics().misses == 10 * 3


def test_without_caches_every_read_goes_to_the_store() -> None:
    *_, file, store = make_file(Caches.disabled())
    first = content_of(file.reader())
    reads = store.reads
    content_of(file.reader()).check_equal(first)
    assert store.reads == 2 * reads


@pytest.mark.parametrize("meta", [0, 1000, LARGE])
@pytest.mark.parametrize("vectors", [0, 1000, LARGE])
@pytest.mark.parametrize("pages", [0, 1000, LARGE])
def test_cache_sizes_change_no_answer(meta: int, vectors: int, pages: int) -> None:
    shared = caches(meta=meta, vectors=vectors, pages=pages)
    files, written, file, _ = make_file(shared)
    expected = content_of(files.read(written))
    for _ in range(2):
        content_of(file.reader()).check_equal(expected)
    for cache in (shared.sst_meta, shared.vectors):
        found = cache.statistics()
        assert found.bytes <= cache.capacity_bytes
        if cache.capacity_bytes == 0:
            assert (found.hits, found.entries) == (0, 0)
        if cache.capacity_bytes == LARGE:
            assert found.hits > 0
    # What is decoded already is not asked for as stored.
    assert (shared.pages.statistics().hits > 0) is (pages == LARGE and vectors < LARGE)


def test_an_uncached_view_decodes_each_row_group_once_and_leaves_no_trace() -> None:
    shared = caches(vectors=LARGE, pages=LARGE)
    *_, file, store = make_file(shared)
    view = file.passing_reader()
    assert len(view.block) == 20
    reads = store.reads
    stripes = [Slices.one(start, min(start + 130, 1000)) for start in range(0, 1000, 130)]
    pieces = [view.times(rows) for rows in stripes]
    # The file is opened once and stays open; the last stripe lies in a row group that is at hand.
    assert store.reads == reads + 1
    assert [len(reader.decoded) for reader in view._idle] == [10]
    assert [each.entries for each in shared.statistics()] == [0, 0, 0]
    assert np.array_equal(np.concatenate(pieces), file.reader().times(Slices.one(0, 1000)))
    assert shared.vectors.statistics().misses == 10
    assert shared.pages.statistics().misses == 10


def test_carrying_over_keeps_the_last_row_group_of_each_column() -> None:
    carried = CarryOver()
    loads: list[tuple[int, int]] = []

    def get(row_group: int, column: int) -> object:
        def load() -> tuple[int, int]:
            loads.append((row_group, column))
            return row_group, column

        return carried.get_or_load(ColumnKey("f", ColumnId(column), row_group), load, lambda _: 1)

    for row_group, column in [(0, 1), (0, 2), (0, 1), (1, 1), (0, 2), (1, 1), (0, 1)]:
        assert get(row_group, column) == (row_group, column)
    assert loads == [(0, 1), (0, 2), (1, 1), (0, 1)]


def test_a_deleted_file_leaves_the_caches() -> None:
    shared = caches(vectors=LARGE, pages=LARGE)
    files, _, file, _ = make_file(shared)
    other = files.open(files.write(hosts(HOSTS, series=1, points=5)), shared)
    content_of(file.reader())
    content_of(other.reader())
    shared.evict_file(file.meta.file_id)
    assert shared.vectors.statistics().entries == 3
    assert shared.pages.statistics().entries == 3
    assert shared.sst_meta.statistics().entries == 2


@pytest.mark.parametrize("vectors", [0, 5_000, LARGE])
def test_many_readers_at_once_get_the_same_answers(vectors: int) -> None:
    shared = caches(vectors=vectors, pages=LARGE)
    files, written, file, _ = make_file(shared)
    expected = content_of(files.read(written))
    usage = expected.fields[USAGE]

    def read(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(40):
            reader = file.reader()
            start = chance.randrange(1000)
            rows = Slices.one(start, chance.randint(start, 1000))
            assert np.array_equal(reader.times(rows), expected.times[start : int(rows.stops[0])])
            part = reader.field(USAGE, rows)
            assert part is not None
            assert part.equals(usage.slice(start, rows.rows))
        assert len(reader.block) == 20

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(8)))
    if vectors == LARGE:
        assert shared.vectors.statistics().misses == 20
    assert shared.sst_meta.statistics().misses == 2


@pytest.mark.parametrize(
    ("low", "high", "held"), [(-9, 100, pa.int8()), (0, 200, pa.int16()), (0, 1 << 40, pa.int64())]
)
def test_integers_are_held_narrow_and_read_in_the_type_they_were_written_with(
    low: int, high: int, held: pa.DataType
) -> None:
    count = HOSTS.by_name["count"].id
    values = pa.array([None if at % 11 == 5 else (low if at % 2 else high) for at in range(400)], pa.int64())
    run = run_of(
        HOSTS,
        {
            "host": pa.array(["a"] * 400),
            "ts": pa.array(range(400), pa.int64()).cast(HOSTS.time.type),
            "usage": pa.array(range(400), pa.float64()),
            "count": values,
        },
    )
    files = Files(HOSTS, row_group_rows=300)
    written = files.write(run)
    for vectors in (0, LARGE):
        opened = files.open(written, caches(vectors=vectors))
        file = opened.reader()
        for rows in (Slices.one(3, 9), Slices.one(0, 400), Slices.one(250, 310), Slices.one(3, 9)):
            found = file.field(count, rows)
            assert found is not None
            assert found.equals(rows.take_arrow(values))
        assert [array.type for array in file.pieces_as_held([0, 1], [count])[0]] == [held, held]
        assert [array.type for array in file.pieces([0, 1], [count])[0]] == [pa.int64(), pa.int64()]
    passing = opened.passing_reader()
    assert not passing.holds_narrow
    assert [array.type for array in passing.pieces_as_held([0], [count])[0]] == [pa.int64()]


@pytest.mark.parametrize(
    ("low", "high", "held"), [(-9.0, 100.0, pa.int8()), (0.0, 200.0, pa.int16()), (0.0, 1.5, pa.float64())]
)
def test_whole_doubles_are_held_as_integers_and_read_as_doubles(low: float, high: float, held: pa.DataType) -> None:
    values = pa.array([None if at % 11 == 5 else (low if at % 2 else high) for at in range(400)], pa.float64())
    times = pa.array(range(0, 4_000_000, 10_000), pa.int64())
    run = run_of(
        HOSTS,
        {
            "host": pa.array(["a"] * 400),
            "ts": times.cast(HOSTS.time.type),
            "usage": values,
            "count": pa.array([None] * 400, pa.int64()),
        },
    )
    files = Files(HOSTS, row_group_rows=300)
    file = files.open(files.write(run), caches(vectors=LARGE)).reader()
    for rows in (Slices.one(3, 9), Slices.one(0, 400), Slices.one(250, 310)):
        found = file.field(USAGE, rows)
        assert found is not None
        assert found.equals(rows.take_arrow(values))
        assert np.array_equal(file.times(rows), rows.take(times.to_numpy()))
    wanted = [HOSTS.time.id, USAGE]
    in_memory, usage = file.pieces_as_held([0, 1], wanted)
    assert [type(piece) for piece in in_memory] == [SteppedTimes] * 2
    assert sum(piece.nbytes for piece in in_memory) == 2 * 400
    assert [piece.type for piece in usage] == [held, held]
    assert [pa.concat_arrays(pieces) for pieces in file.pieces([0, 1], wanted)] == [times, values]

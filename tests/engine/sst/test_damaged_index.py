"""Every block of an index file, damaged: the verification names it, and queries are answered without it."""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.engine.reads import scan_batches
from tests.engine.scan.regions import rows_of
from tests.engine.sst.files import DIRECTORY, Files, run_of, schema_of
from tsdb.engine.index import IndexOptions, encode_index, encode_inverted, encode_pages
from tsdb.engine.manifest import FileMeta
from tsdb.engine.rows.cache import Caches
from tsdb.engine.scan import ScanStatistics, Snapshot
from tsdb.engine.sst import DataFile
from tsdb.engine.tuning import IndexTuning
from tsdb.model import FulltextIndex, RegionOptions, SkippingIndex
from tsdb.store import MemoryStore

SERIES, POINTS = 400, 10
ROWS = SERIES * POINTS
SCHEMA = schema_of({"host": pa.string(), "zone": pa.int64()}, {"id": pa.string(), "msg": pa.string()})
HOST, ZONE, ID, MSG = (SCHEMA.by_name[name].id for name in ("host", "zone", "id", "msg"))
OPTIONS = RegionOptions(
    skipping=(SkippingIndex(ID, 100, 0.001),), fulltext=(FulltextIndex(MSG, 500, 0.01, "English", False),)
)
BUILD = IndexOptions(tuning=IndexTuning(series_min=100, page_series=32, page_values=32))
INDEXES = [f"inverted.{HOST}", f"inverted.{ZONE}", f"bloom.{ID}", f"fulltext.{MSG}"]
BLOBS = [*INDEXES, "series", "series.pages", *(f"{name}.pages" for name in INDEXES)]


def request_id(number: int) -> str:
    return f"request-{number * 7919 % 1_000_003:07}"


def message(number: int) -> str:
    return f"row {number % POINTS} of host {number // POINTS:04} took {number * 31 % 977} ms"


QUERIES = {
    "a host": (pc.field("host") == "h0077", POINTS),
    "a host in a zone": ((pc.field("host") == "h0077") & (pc.field("zone") == 7), POINTS),
    "a zone": (pc.field("zone") == 3, ROWS // 10),
    "an id": (pc.field("id") == request_id(1234), 1),
    "a message": (pc.field("msg") == message(1234), 1),
    "all rows": (None, ROWS),
}


@cache
def write_file() -> tuple[FileMeta, dict[str, bytes]]:
    """Write a data file with an index of every kind; return it and what is in the store."""
    store = MemoryStore()
    files = Files(SCHEMA, options=OPTIONS, row_group_rows=1000, index=BUILD, store=store)
    hosts = np.repeat(np.arange(SERIES), POINTS)
    columns = {
        "host": pa.array([f"h{host:04}" for host in hosts]),
        "zone": pa.array(hosts % 10),
        "ts": pa.array(np.tile(np.arange(POINTS), SERIES), pa.timestamp("ms")),
        "id": pa.array([request_id(number) for number in range(ROWS)]),
        "msg": pa.array([message(number) for number in range(ROWS)]),
    }
    meta = files.write(run_of(SCHEMA, columns)).meta
    return meta, {path: store.get(path) for path in files.paths}


class IndexedFile:
    """A data file with an index of every kind, in a store of its own."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.meta, objects = write_file()
        for path, content in objects.items():
            self.store.put(path, content)
        self.path = f"{DIRECTORY}/index/{self.meta.file_id}.idx"

    @property
    def content(self) -> bytes:
        return self.store.get(self.path)

    def places(self) -> dict[str, range]:
        """Where each blob is, and the directory of them."""
        content = self.content
        (length,) = struct.unpack_from("<I", content, len(content) - 16)
        blobs = json.loads(content[-16 - length : -16])["blobs"]
        found = {name: range(blob["offset"], blob["offset"] + blob["length"]) for name, blob in blobs.items()}
        return {**found, "its directory": range(len(content) - 16 - length, len(content) - 16)}

    def flip(self, place: int) -> None:
        content = self.content
        self.store.put(self.path, content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])

    def build_with(self, changes: Mapping[str, bytes | None]) -> None:
        """Build the index anew with other blobs, or without some: all its checksums are right."""
        content, places = self.content, self.places()
        blobs = {name: content[places[name].start : places[name].stop] for name in BLOBS}
        kept = {name: blob for name, blob in {**blobs, **changes}.items() if blob is not None}
        parts = encode_index(self.meta.file_id, kept)
        self.store.put(self.path, parts)
        self.meta = replace(self.meta, index_size_bytes=sum(map(len, parts)))

    def open(self) -> DataFile:
        return DataFile(self.meta, store=self.store, directory=DIRECTORY, caches=Caches.disabled())


def verify(file: DataFile) -> str | None:
    return file.verify(lambda: None)


def ask(file: DataFile, filter: Any) -> tuple[list[dict[str, Any]], ScanStatistics]:
    counters = ScanStatistics()
    snapshot = Snapshot(SCHEMA, OPTIONS, (file,))
    return rows_of(list(scan_batches(snapshot, ["host", "ts", "id"], filter, statistics=counters))), counters


def check_queries(file: DataFile) -> None:
    for filter, rows in QUERIES.values():
        assert len(ask(file, filter)[0]) == rows


def test_a_whole_index_is_found_to_be_whole_and_is_used() -> None:
    indexed = IndexedFile()
    assert set(indexed.places()) == {*BLOBS, "its directory"}
    file = indexed.open()
    assert verify(file) is None
    check_queries(file)
    assert ask(file, QUERIES["a host"][0])[1].series_excluded_by_index > 0
    assert ask(file, QUERIES["an id"][0])[1].rows_excluded_by_index > 0
    assert ask(file, QUERIES["a message"][0])[1].rows_excluded_by_fulltext > 0


@pytest.mark.parametrize("blob", [*BLOBS, "its directory"])
@pytest.mark.parametrize("share", [0.0, 0.6, 1.0], ids=lambda share: f"at {share}")
def test_a_damaged_block_is_named_and_queries_do_without_it(
    blob: str, share: float, caplog: pytest.LogCaptureFixture
) -> None:
    indexed = IndexedFile()
    place = indexed.places()[blob]
    indexed.flip(place[int(share * (len(place) - 1))])
    file = indexed.open()
    with caplog.at_level(logging.WARNING, "tsdb.sst"):
        for _ in range(2):
            check_queries(file)
    assert len(caplog.records) <= 1, "it is told once"
    reason = verify(file)
    assert reason is not None
    assert blob in reason
    check_queries(file)
    assert [record.name for record in caplog.records] == ["tsdb.sst"]
    assert indexed.path in caplog.text


def test_all_damaged_blocks_are_named() -> None:
    indexed = IndexedFile()
    for blob in INDEXES:
        indexed.flip(indexed.places()[blob].start + 300)
    reason = verify(indexed.open())
    assert reason is not None
    assert all(blob in reason for blob in INDEXES)


@pytest.mark.parametrize("damage", [lambda content: content[:-10], lambda content: content[: len(content) // 2], None])
def test_an_index_that_is_short_or_missing_is_told_and_queries_do_without_it(
    damage: Callable[[bytes], bytes] | None, caplog: pytest.LogCaptureFixture
) -> None:
    indexed = IndexedFile()
    if damage is None:
        indexed.store.delete(indexed.path)
    else:
        indexed.store.put(indexed.path, damage(indexed.content))
    file = indexed.open()
    check_queries(file)
    assert verify(file) is not None
    assert len(caplog.records) == 1


class CutOffStore(MemoryStore):
    """A store whose replies lack the last bytes for some objects."""

    suffix = "no object"

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        found = super().get_range(path, offset, length)
        return found[:-1] if path.endswith(self.suffix) else found


def test_an_index_of_which_the_store_returns_too_little_costs_no_answer() -> None:
    store = CutOffStore()
    file = IndexedFile(store).open()
    store.suffix = ".idx"
    check_queries(file)
    assert verify(file) is not None


def test_an_index_that_was_restored_is_used_again_after_it_was_verified() -> None:
    indexed = IndexedFile()
    content = indexed.content
    indexed.flip(indexed.places()[f"bloom.{ID}"].start + 300)
    file = indexed.open()
    assert verify(file) is not None
    assert ask(file, QUERIES["a host"][0])[1].index_files == 0
    indexed.store.put(indexed.path, content)
    assert verify(file) is None
    assert ask(file, QUERIES["a host"][0])[1].index_files == 1


def swapped_zones() -> dict[str, bytes]:
    """An index of zones in which two series have each other's."""
    zones = np.arange(SERIES) % 10
    zones[[3, 4]] = zones[[4, 3]]
    blob, directory = encode_inverted(pa.array(zones), BUILD)
    return {f"inverted.{ZONE}": blob, f"inverted.{ZONE}.pages": directory}


def short_filters() -> dict[str, bytes]:
    """A skipping index of half of the rows."""
    schema = pa.schema([("hashes", pa.uint8()), ("bits", pa.binary())])
    filters = pa.record_batch([pa.array([7] * 20, pa.uint8()), pa.array([b"\xff" * 8] * 20)], schema=schema)
    facts = {"row_start": pa.array([0]), "granularity": pa.array([100])}
    blob, directory = encode_pages(schema, [filters], lambda: facts)
    return {f"bloom.{ID}": blob, f"bloom.{ID}.pages": directory}


WRONG: dict[str, tuple[dict[str, bytes | None], str]] = {
    "series of a value": ({**swapped_zones()}, f"inverted.{ZONE}"),
    "number of filters": ({**short_filters()}, f"bloom.{ID}"),
    "no inverted index": ({f"inverted.{HOST}": None}, f"inverted.{HOST}"),
    "no directory of filters": ({f"fulltext.{MSG}.pages": None}, f"fulltext.{MSG}"),
    "no directory of series": ({"series.pages": None}, "series"),
}


@pytest.mark.parametrize(("changes", "named"), WRONG.values(), ids=WRONG.keys())
def test_an_index_that_does_not_fit_its_file_is_found_although_its_checksums_are_right(
    changes: dict[str, bytes | None], named: str
) -> None:
    indexed = IndexedFile()
    indexed.build_with(changes)
    reason = verify(indexed.open())
    assert reason is not None
    assert named in reason


def test_a_block_of_a_kind_that_is_not_known_is_checked_and_left_alone() -> None:
    indexed = IndexedFile()
    indexed.build_with({"spatial.9": bytes(3 << 20)})
    assert verify(indexed.open()) is None
    indexed.flip(indexed.places()["spatial.9"].stop - 1)
    file = indexed.open()
    assert verify(file) == "the checksum of spatial.9 is wrong"

"""What full-text indexes cost and spare: a million lines of logs of 20 hosts, in one data file.

Queries are cold: every one begins with empty caches. A line has a request id of 16 hexadecimal digits, numbers, words;
one line has a rare word. Rows that are left are checked as queries do it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import Measurement, measure
from tsdb.clock import SystemClock
from tsdb.engine.reading import Conditions, ScanRequest, TextNode, TextTest
from tsdb.engine.region.reader import LocalReader
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.merge import Merge, Selection
from tsdb.engine.rows.run import Run, make_run
from tsdb.engine.scan import SeriesRegisters, Snapshot
from tsdb.engine.sst import ROW_GROUP_ROWS, DataFile, WrittenFile, write_sst
from tsdb.model import FulltextIndex, RegionId, RegionOptions, RegionSchema, Semantic, SeriesTable, TimeRange
from tsdb.query.functions import query_needs, term_needs
from tsdb.query.functions._match_query import matches
from tsdb.query.functions._term import find_term
from tsdb.store import LocalStore

HOSTS = 20
ROWS = 1_000_000
RARE_ROW = 777_777
COLUMNS = ["host", "ts", "msg"]


def make_schema() -> RegionSchema:
    return RegionSchema.create(
        [
            ("host", pa.string(), Semantic.TAG),
            ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
            ("msg", pa.string(), Semantic.FIELD),
        ]
    )


def make_lines() -> list[str]:
    random = np.random.default_rng(7)
    verbs = ("GET", "POST", "PUT", "DELETE")
    paths = ("/api/v1/query", "/api/v1/write", "/login", "/static/app.js", "/metrics", "/users/profile")
    ends = ("finished", "finished with retries", "failed: connection reset by peer", "failed: deadline exceeded")
    ids = random.integers(0, 1 << 62, ROWS).tolist()
    users, tooks = random.integers(0, 100_000, ROWS).tolist(), random.integers(1, 5000, ROWS).tolist()
    kinds = random.integers(0, 1 << 30, ROWS).tolist()
    lines = [
        f"request {number:016x} {verbs[kind % 4]} {paths[kind % 6]} of user {user} "
        f"from 10.{kind % 7}.{kind % 251}.{kind % 241} {ends[kind % 40 if kind % 40 < 4 else 0]} in {took} ms"
        for number, user, took, kind in zip(ids, users, tooks, kinds, strict=True)
    ]
    lines[RARE_ROW] += ": checksum mismatch in segment"
    return lines


def make_rows(schema: RegionSchema, lines: list[str]) -> Run:
    hosts = pa.array([f"host_{number:02}" for number in range(HOSTS)])
    per_host = ROWS // HOSTS
    times = np.tile(np.arange(per_host, dtype=np.int64) * 1000 + 1_700_000_000_000, HOSTS)
    return make_run(
        schema,
        SeriesTable.of_tags(schema, [hosts], HOSTS),
        np.repeat(np.arange(HOSTS, dtype=np.uint32), per_host),
        times,
        np.arange(ROWS, dtype=np.uint64),
        None,
        {schema.by_name["msg"].id: pa.array(lines)},
        is_unique=True,
    )


def write(store: LocalStore, schema: RegionSchema, run: Run, options: RegionOptions) -> WrittenFile:
    written = write_sst(
        Merge(schema, options, [Selection.all_of(run)], keep_tombstones=False),
        schema=schema,
        options=options,
        store=store,
        directory="data",
        write_buffer_bytes=8 << 20,
        level=0,
        clock=SystemClock(),
        row_group_rows=ROW_GROUP_ROWS,
    )
    assert written is not None
    return written


def ask(
    store: LocalStore,
    schema: RegionSchema,
    written: WrittenFile,
    wanted: TextNode,
    test: Callable[[pa.Array], pa.Array],
    *,
    applies_index: bool,
) -> tuple[int, int]:
    """Run a query with empty caches; return the number of rows and of bytes that it read."""
    caches = Caches.of(sst_meta_bytes=128 << 20, vector_bytes=512 << 20, page_bytes=512 << 20)
    source = DataFile(written.meta, store=store, directory="data", caches=caches, applies_index=applies_index)
    reader = LocalReader(RegionId(1), Snapshot(schema, RegionOptions(), (source,)), SeriesRegisters())
    plan = reader.plan_scan(Conditions(TimeRange.ALL, (), None, (TextTest("msg", wanted),)))
    batches = reader.scan(ScanRequest(plan.number, 0, COLUMNS))
    rows = sum(pc.sum(test(batch.column("msg"))).as_py() or 0 for batch in batches)
    counts = reader.statistics()
    return rows, counts["bytes_read"] + counts["index_bytes_read"]


def queries(lines: list[str]) -> Iterator[tuple[str, TextNode, Callable[[pa.Array], pa.Array]]]:
    identifier = lines[RARE_ROW].split()[1]
    for term in (identifier, "checksum", "finished"):
        wanted = term_needs(term)
        assert wanted is not None
        yield f"matches_term(msg, '{term}')", wanted, partial(find_term, term=term)
    for query in ("checksum", '"deadline exceeded" AND DELETE'):
        wanted = query_needs(query)
        assert wanted is not None
        yield f"matches(msg, '{query}')", wanted, partial(_matches, query)


def _matches(query: str, texts: pa.Array) -> pa.Array:
    return matches.body(texts, pa.array([query] * len(texts)))


def main() -> Iterator[Measurement]:
    schema, lines = make_schema(), make_lines()
    rows = make_rows(schema, lines)
    declared = FulltextIndex(schema.by_name["msg"].id, 10_240, 0.01, "English", case_sensitive=False)
    with tempfile.TemporaryDirectory() as root:
        store = LocalStore(Path(root))
        for name, options in (("without index", RegionOptions()), ("with index", RegionOptions(fulltext=(declared,)))):
            start = time.process_time()
            written = write(store, schema, rows, options)
            took = time.process_time() - start
            sizes = f"data {written.meta.size_bytes / 1e6:.1f} MB, index {written.meta.index_size_bytes / 1e6:.2f} MB"
            print(f"  written {name}: {took:.2f} s of CPU, {sizes}")
        total = written.meta.size_bytes + written.meta.index_size_bytes
        for text, wanted, test in queries(lines):
            for name, applies_index in (("all rows", False), ("index", True)):
                query = partial(ask, store, schema, written, wanted, test, applies_index=applies_index)
                found, read = query()
                print(f"  {text} by {name}: {read:,} bytes, {100 * read / total:.1f} % of the table, {found} rows")
                yield measure(f"cold {text} by {name}", query, amount=1, unit="queries", repeats=3)

"""The checksum of what a region shows: files and memory leave it as it is, and every change of a row changes it."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.engine import lives
from tests.engine.compaction.flushes import MODES, data_files, deleted, flushed, row, zero_pages
from tests.engine.harness import REGION, batch_of, create, delete, open_engine, put
from tsdb.engine import Engine
from tsdb.model import AddColumn, RegionOptions, RegionSchema, Semantic

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "double": (pa.float64(), [0.5, -0.5, float("inf"), float("nan")]),
    "float": (pa.float32(), [0.5, 1.5]),
    "int": (pa.int32(), [0, 1, -1]),
    "unsigned": (pa.uint64(), [0, 2**64 - 1]),
    "bool": (pa.bool_(), [True, False]),
    "text": (pa.string(), ["", "a", "ab"]),
    "bytes": (pa.binary(), [b"", b"\xff"]),
    "time": (pa.timestamp("us"), [datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2)]),
    "day": (pa.date32(), [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)]),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.10"), Decimal("1.20")]),
}


def content(engine: Engine) -> tuple[int, int]:
    found = engine.verify(REGION).result(60)
    assert found.visible_rows is not None
    assert found.checksum is not None
    return found.visible_rows, found.checksum


@pytest.mark.parametrize("options", MODES)
def test_files_memory_and_restarts_leave_it_as_it_is(tmp_path: Path, options: RegionOptions) -> None:
    engine = open_engine(tmp_path)
    create(engine, options=options)
    flushed(engine, row("h", 1, 1.0), row("i", 1, 2.0))
    flushed(engine, row("h", 1, 3.0), row("h", 2, 4.0))
    if not options.append_mode:
        deleted(engine, row("i", 1, 0.0))
    put(engine, [row("j", 5, 6.0)])
    before = content(engine)
    assert before[0] == (5 if options.append_mode else 3)
    engine.flush(REGION).result(60)
    assert content(engine) == before
    engine.compact(REGION).result(60)
    lives.settle(engine)
    assert content(engine) == before
    engine.alter(REGION, [AddColumn("new", pa.string())]).result(60)
    assert content(engine) == before, "no row has a value of the new column"
    engine.close()
    again = open_engine(tmp_path)
    assert content(again) == before
    again.close()


def test_rows_of_the_same_kind_count_each(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    assert content(engine) == (0, 0)
    seen = set()
    for change in ([row("h", 1, 1.0)], [row("h", 2, 1.0)], [row("i", 1, 1.0)], [row("h", 1, 2.0)]):
        put(engine, change)
        seen.add(content(engine))
    delete(engine, [row("h", 2, 0.0)])
    seen.add(content(engine))
    assert len(seen) == 5
    engine.close(flush=False)


@pytest.mark.parametrize("kind", KINDS)
def test_each_value_of_each_type_makes_a_difference(tmp_path: Path, kind: str) -> None:
    data_type, values = KINDS[kind]
    fields = [(name, data_type, Semantic.FIELD) for name in ("one", "two")]
    schema = RegionSchema.create([*fields, ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP)])
    engine = open_engine(tmp_path)
    create(engine, schema)
    seen: dict[tuple[int, int], tuple[Any, Any]] = {}
    for one in (None, *values):
        for two in (None, *values):
            engine.write(REGION, batch_of(schema, [{"ts": 1, "one": one, "two": two}])).result(60)
            found = content(engine)
            assert found not in seen, (seen.get(found), one, two)
            seen[found] = one, two
    engine.flush(REGION).result(60)
    assert content(engine) == found
    engine.close()


def test_there_is_none_if_a_file_is_damaged_or_only_quarantined_ones_are_read(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    flushed(engine, row("h", 1, 1.0))
    assert engine.verify(REGION, is_quarantined=True).result(60).checksum is None
    (victim,) = data_files(tmp_path)
    zero_pages(victim)
    found = engine.verify(REGION).result(60)
    assert (len(found.damaged), found.visible_rows, found.checksum) == (1, None, None)
    engine.close(flush=False)


def test_it_leaves_no_trace_in_the_caches(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    flushed(engine, *(row(f"h{number}", number, 1.0) for number in range(100)))
    before = [each.bytes for each in engine.cache_statistics()]
    content(engine)
    assert [each.bytes for each in engine.cache_statistics()] == before
    engine.close()

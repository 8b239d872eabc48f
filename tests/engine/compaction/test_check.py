"""A merge that would lose or change something is given up, whatever the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine import lives
from tests.engine.compaction.flushes import MODES, data_files, deleted, flushed, row, values
from tests.engine.harness import REGION, create, open_engine
from tsdb.engine import Engine
from tsdb.engine.compaction import _check
from tsdb.engine.errors import FileCorrupted, MergeMismatch
from tsdb.engine.rows.merge import Merge, MergeInput, Stripe
from tsdb.engine.sst import _write
from tsdb.engine.sst._sample import column_checksum
from tsdb.model import RegionOptions


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(tmp_path)
    yield engine
    engine.close()


def without_a_row(stripe: Stripe) -> Stripe:
    return replace(stripe, ranks=stripe.ranks[1:], times=stripe.times[1:], sequences=stripe.sequences[1:])


def with_another_time(stripe: Stripe) -> Stripe:
    return replace(stripe, times=np.append(stripe.times[:-1], stripe.times[-1] + 1))


def with_an_older_version(stripe: Stripe) -> Stripe:
    return replace(stripe, sequences=stripe.sequences - np.uint64(1))


@pytest.mark.parametrize("options", MODES)
@pytest.mark.parametrize("wrong", [without_a_row, with_another_time, with_an_older_version])
def test_a_merge_that_is_wrong_leaves_the_files_as_they_are(
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: RegionOptions,
    wrong: Callable[[Stripe], Stripe],
) -> None:
    create(engine, options=options)
    for number in range(3):
        flushed(engine, row("a", 1, float(number)), row("b", number))
    before, paths = values(engine), data_files(tmp_path)
    original = Merge._merge

    def merge(self: Merge, pieces: list[object]) -> Stripe:
        audit, self._audit = self._audit, None
        kept: list[MergeInput] = []
        self._audit = lambda merged, stripe: kept.append(merged)
        stripe = wrong(original(self, pieces))  # type: ignore[arg-type]
        self._audit = audit
        if audit is not None:
            audit(kept[0], stripe)
        return stripe

    with monkeypatch.context() as patch:
        patch.setattr(Merge, "_merge", merge)
        with pytest.raises(MergeMismatch):
            engine.compact(REGION).result(60)
    lives.settle(engine)
    assert (values(engine), data_files(tmp_path)) == (before, paths)
    assert engine.stat(REGION).quarantined_files == 0
    engine.compact(REGION).result(60)
    assert values(engine) == before


def test_a_file_without_some_of_the_rows_that_were_merged_is_not_used(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(engine)
    flushed(engine, row("a", 1))
    flushed(engine, row("a", 2))
    paths = data_files(tmp_path)
    see = _check.MergeAudit.see

    def see_more(self: _check.MergeAudit, merged: MergeInput, stripe: Stripe) -> None:
        see(self, merged, stripe)
        self.rows_out += 1

    monkeypatch.setattr(_check.MergeAudit, "see", see_more)
    with pytest.raises(MergeMismatch, match="3 rows came out of the merge, 2 are in the file"):
        engine.compact(REGION).result(60)
    lives.settle(engine)
    assert data_files(tmp_path) == paths


def test_values_that_are_encoded_wrongly_are_found_by_reading_them_back(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(engine)
    flushed(engine, row("a", 1, 1.5))
    flushed(engine, row("a", 2, 2.5))
    before, paths = values(engine), data_files(tmp_path)
    original = _write.ParquetWriter.write

    def write(self: _write.ParquetWriter, table: pa.Table) -> None:
        place = table.schema.get_field_index("a")
        changed = pa.array(table["a"].to_numpy() + 1.0)
        original(self, table.set_column(place, table.schema.field(place), changed))

    with monkeypatch.context() as patch:
        patch.setattr(_write.ParquetWriter, "write", write)
        with pytest.raises(FileCorrupted, match="column a of row group 0 is not what was written"):
            engine.compact(REGION).result(60)
    lives.settle(engine)
    assert (values(engine), data_files(tmp_path)) == (before, paths)
    engine.compact(REGION).result(60)
    assert values(engine) == before


def test_tombstones_and_versions_of_a_merge_are_counted_right(engine: Engine) -> None:
    create(engine)
    flushed(engine, *(row(f"h{number % 9}", number) for number in range(500)))
    deleted(engine, *(row(f"h{number % 9}", number) for number in range(0, 500, 3)))
    flushed(engine, *(row(f"h{number % 9}", number, 2.0) for number in range(0, 500, 5)))
    before = values(engine)
    engine.compact(REGION).result(60)
    assert values(engine) == before


COLUMNS = st.one_of(
    st.lists(st.none() | st.floats(allow_nan=True)).map(lambda values: pa.array(values, pa.float64())),
    st.lists(st.none() | st.integers(-(2**40), 2**40)).map(lambda values: pa.array(values, pa.int64())),
    st.lists(st.none() | st.text(max_size=5)).map(lambda values: pa.array(values, pa.string())),
    st.lists(st.none() | st.booleans()).map(lambda values: pa.array(values, pa.bool_())),
    st.lists(st.none() | st.integers(0, 9)).map(lambda values: pa.array(values, pa.timestamp("ms"))),
    st.lists(st.none() | st.lists(st.integers(0, 9))).map(lambda values: pa.array(values, pa.list_(pa.int64()))),
)


@given(COLUMNS, st.data())
def test_a_checksum_depends_on_values_and_not_on_their_layout(values: pa.Array, data: st.DataObject) -> None:
    expected = column_checksum(pa.chunked_array([values]))
    cut = data.draw(st.integers(0, len(values)))
    assert column_checksum(pa.chunked_array([values[:cut], values[cut:]])) == expected
    if pa.types.is_string(values.type):
        assert column_checksum(pa.chunked_array([values.dictionary_encode()])) == expected
    if len(values):
        place = data.draw(st.integers(0, len(values) - 1))
        plain = values.to_pylist()
        other = [*plain[:place], None if plain[place] is not None else _some(values.type), *plain[place + 1 :]]
        assert column_checksum(pa.chunked_array([pa.array(other, values.type)])) != expected


def _some(kind: pa.DataType) -> object:
    if pa.types.is_list(kind):
        return [1]
    return "x" if pa.types.is_string(kind) else True if pa.types.is_boolean(kind) else 1

"""The keys of a memtable against a dictionary: numbers, tags, order, and what the next memtable takes over."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.harness import SCHEMA
from tsdb.engine.rows.keys import SeriesKeys
from tsdb.model import LateTags, RegionSchema, Semantic, SeriesTable, distinct_series

TAGS = st.tuples(st.sampled_from([None, "", "a", "b", "ä", "zz"]), st.sampled_from([None, *"0123456789"]))
Tags = tuple[str | None, str | None]


def table_of(tags: list[Tags]) -> SeriesTable:
    columns = [pa.array([each[at] for each in tags], pa.string()) for at in range(2)]
    return distinct_series(columns, ["host", "dc"], len(tags))[0]


def rows_of(tags: pa.RecordBatch) -> list[Tags]:
    return [(row["host"], row["dc"]) for row in tags.to_pylist()]


def many(count: int, prefix: str = "h") -> SeriesTable:
    return table_of([(f"{prefix}{number:05}", "x") for number in range(count)])


@given(st.lists(st.lists(TAGS, min_size=1, max_size=20), max_size=6), st.integers(1, 7), st.data())
def test_numbers_tags_and_order_agree_with_a_dictionary(
    batches: list[list[Tags]], shard_keys: int, data: st.DataObject
) -> None:
    keys, known = SeriesKeys(SCHEMA.arrow_tags, shard_keys=shard_keys), dict[Tags, int]()
    for tags in batches:
        table = table_of(tags)
        distinct = rows_of(table.read_tags())
        for each in distinct:
            known.setdefault(each, len(known))
        assert keys.number(table).tolist() == [known[each] for each in distinct]
    assert len(keys) == len(known)
    assert keys.shards == -(-len(known) // shard_keys)
    chosen = data.draw(st.lists(st.sampled_from(range(len(known))), unique=True)) if known else []
    numbers = np.array(chosen, np.uint32)
    names = list(known)
    assert rows_of(keys.read_tags(numbers)) == [names[number] for number in chosen]
    expected = sorted((names[number] for number in chosen), key=lambda tags: [(tag is not None, tag) for tag in tags])
    assert rows_of(keys.read_tags(keys.order(numbers))) == expected
    shown = keys.table(numbers)
    again = table_of([names[number] for number in chosen]) if chosen else None
    if again is not None:
        assert shown.tsid.tolist() == again.tsid.tolist()
        assert shown.check.tolist() == again.check.tolist()


def test_without_tags_there_is_one_key() -> None:
    schema = RegionSchema.create([("ts", pa.timestamp("ms"), Semantic.TIMESTAMP), ("v", pa.int64(), Semantic.FIELD)])
    keys = SeriesKeys(schema.arrow_tags, shard_keys=1)
    one = SeriesTable.of_tags(schema, [], 1)
    assert keys.number(one).tolist() == keys.number(one).tolist() == [0]
    assert keys.read_tags(np.zeros(1, np.uint32)).num_rows == 1


def test_keys_whose_tags_cannot_be_read_are_not_registered() -> None:
    keys = SeriesKeys(SCHEMA.arrow_tags, shard_keys=4)
    keys.number(many(3))
    other = many(2, "new")

    class Broken(SeriesKeys):
        def read_tags(self, numbers: object) -> pa.RecordBatch:
            raise MemoryError

    broken = Broken(SCHEMA.arrow_tags, shard_keys=4)
    late = LateTags(SCHEMA.arrow_tags, np.arange(2, dtype=np.uint32), broken)
    with pytest.raises(MemoryError):
        keys.number(SeriesTable(other.tsid, other.check, late))
    assert len(keys) == 3
    assert keys.number(other).tolist() == [3, 4]
    assert rows_of(keys.read_tags(np.array([3, 1], np.uint32))) == [("new00000", "x"), ("h00001", "x")]


def test_keys_that_had_rows_are_handed_on_as_they_are() -> None:
    keys = SeriesKeys(SCHEMA.arrow_tags, shard_keys=100)
    keys.number(many(1000))
    assert keys.fork(keys.nbytes) is keys
    keys.number(many(600))
    assert keys.fork(keys.nbytes) is keys, "most of them had rows"


def test_keys_without_rows_are_left_behind_when_they_are_the_most() -> None:
    keys = SeriesKeys(SCHEMA.arrow_tags, shard_keys=100)
    keys.number(many(1000))
    assert keys.fork(keys.nbytes) is keys
    alive = many(300, "h0000")
    keys.number(alive)
    after = keys.fork(1 << 30)
    assert after is not None
    assert len(after) == 300
    assert after.number(alive).tolist() == list(range(300)), "they need not be registered again"


@pytest.mark.parametrize("share", [0, 2, 10])
def test_no_more_keys_are_handed_on_than_there_is_room_for(share: int) -> None:
    keys = SeriesKeys(SCHEMA.arrow_tags, shard_keys=100)
    keys.number(many(5000))
    bytes_max = keys.nbytes // share if share else 0
    after = keys.fork(bytes_max)
    if not share:
        assert after is None
        return
    assert after is not None
    assert 0 < len(after) < 5000
    assert after.nbytes <= bytes_max

"""Series of a request: each once, and every row finds its own."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tsdb.model import DataType, Kind, Semantic
from tsdb.servers.grpc._rows import group_tags
from tsdb.servers.grpc._types import GivenColumn

_TEXT = st.none() | st.sampled_from(["", "a", "b", "ü"])
_NUMBER = st.none() | st.integers(-2, 2)


@given(st.lists(st.tuples(_TEXT, _NUMBER, _TEXT), max_size=30), st.integers(0, 3))
def test_rows_keep_their_tags_and_series_are_distinct(rows: list[tuple[object, ...]], count: int) -> None:
    kinds = [Kind.STRING, Kind.INT64, Kind.STRING][:count]
    tags = [
        GivenColumn(f"t{at}", Semantic.TAG, DataType(kind), pa.array([row[at] for row in rows], DataType(kind).arrow))
        for at, kind in enumerate(kinds)
    ]
    series, index = group_tags(tags, len(rows))
    assert series.schema.names == [tag.name for tag in tags]
    found = [tuple(each.values()) for each in series.to_pylist()]
    assert [found[at] for at in index] == [row[:count] for row in rows]
    assert len(set(found)) == len(found) == len({row[:count] for row in rows})


def test_many_tags_of_many_values_do_not_run_over() -> None:
    rows = 500
    tags = [
        GivenColumn(
            f"t{at}", Semantic.TAG, DataType(Kind.INT64), pa.array([(row * (at + 1)) % rows for row in range(rows)])
        )
        for at in range(12)
    ]
    series, index = group_tags(tags, rows)
    assert series.num_rows == rows
    assert series.column("t0").take(pa.array(index)).to_pylist() == list(range(rows))

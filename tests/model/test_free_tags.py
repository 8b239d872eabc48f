"""`TableInfo.free_tags`: which tables take any tags without a look at them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tsdb.model import ColumnDefault, ColumnId, ColumnInfo, DataType, Kind, Semantic, TableInfo

_HOST = ColumnInfo(ColumnId(0), "host", DataType(Kind.STRING), Semantic.TAG)
_RACK = ColumnInfo(ColumnId(1), "rack", DataType(Kind.STRING), Semantic.TAG)
_TIME = ColumnInfo(ColumnId(2), "ts", DataType(Kind.TIMESTAMP_NANOSECOND), Semantic.TIMESTAMP, nullable=False)


def table(*tags: ColumnInfo) -> TableInfo:
    return TableInfo(
        id=1, database="public", name="cpu", columns=(*tags, _TIME), primary_key=tuple(tag.name for tag in tags)
    )


def test_tags_are_free_if_they_are_strings_that_may_be_null() -> None:
    assert table(_HOST, _RACK).free_tags == frozenset({"host", "rack"})
    assert table().free_tags == frozenset()


@pytest.mark.parametrize(
    "tag",
    [
        replace(_RACK, type=DataType(Kind.INT64)),
        replace(_RACK, nullable=False),
        replace(_RACK, default=ColumnDefault("r1")),
    ],
    ids=["number", "not null", "default"],
)
def test_one_tag_that_not_every_row_fits_keeps_all_from_being_free(tag: ColumnInfo) -> None:
    assert table(_HOST, tag).free_tags is None

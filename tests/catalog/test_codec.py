"""Changes of a schema are stored and read back as they were."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from tsdb.catalog._codec import change_from_json, change_to_json, decode, encode
from tsdb.model import AddColumn, DropColumn, RenameColumn, RetypeColumn, SchemaChange, Semantic, WidenColumn


@pytest.mark.parametrize(
    "change",
    [
        AddColumn("a", pa.int8()),
        AddColumn("a", pa.string(), Semantic.TAG, nullable=False, default="x"),
        AddColumn("a", pa.timestamp("ns"), default=datetime.datetime(2024, 1, 1, 0, 0, 1)),
        AddColumn("a", pa.decimal128(10, 2)),
        AddColumn("a", pa.binary(), default=b"\x00\xff"),
        DropColumn("ä/b"),
        RenameColumn("a", "b"),
        WidenColumn("a", pa.float64()),
        RetypeColumn("a", pa.int32()),
    ],
)
def test_a_change_comes_back_as_it_was(change: SchemaChange) -> None:
    assert decode("key", encode(change_to_json(change)), change_from_json) == change

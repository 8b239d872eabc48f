"""The objects of a backup are read back as they were written, in pieces of any size; other bytes are damage."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.backup import BackupDamaged, BackupSummary, ClusterPosition, LogPosition
from tsdb.backup._format import (
    BackedUpRegion,
    MetadataPair,
    StoredFile,
    encode_item,
    parse_content,
    parse_summary,
)
from tsdb.backup._position import NodePosition
from tsdb.model import RegionId

_TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)
_COUNT = st.integers(0, 2**63 - 1)
_FILE = st.builds(StoredFile, path=_TEXT, size_bytes=_COUNT, sha256=_TEXT, is_index=st.booleans())
_JSON: Any = st.recursive(
    st.none() | st.booleans() | _COUNT | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_REGION = st.builds(
    BackedUpRegion,
    region_id=_COUNT.map(RegionId),
    directory=_TEXT,
    table=_TEXT,
    manifest=st.dictionaries(_TEXT, _JSON, max_size=3),
    files=st.lists(_FILE, max_size=3).map(tuple),
)
_PAIR = st.builds(MetadataPair, key=_TEXT, value=st.binary(max_size=30))
_POSITION = st.builds(
    LogPosition,
    place=_TEXT,
    node=_COUNT,
    term=_COUNT,
    number=_COUNT,
    captured_ms=_COUNT,
    acknowledges_locally=st.booleans(),
)
_NODE = st.builds(NodePosition, node=_COUNT, term=_COUNT, number=_COUNT, is_kept=st.booleans())
_CLUSTER = st.builds(
    ClusterPosition,
    place=_TEXT,
    nodes=st.lists(_NODE, max_size=3).map(tuple),
    order=st.tuples(_COUNT, _COUNT),
    captured_ms=_COUNT,
)
_SUMMARY = st.builds(
    BackupSummary,
    **{
        field.name: _TEXT if field.type == "str" else _COUNT
        for field in fields(BackupSummary)
        if field.name not in ("damaged", "log", "cluster_log")
    },
    damaged=st.lists(_TEXT, max_size=3).map(tuple),
    log=st.none() | _POSITION,
    cluster_log=st.none() | _CLUSTER,
)


@given(items=st.lists(_PAIR | _REGION, max_size=6), piece=st.integers(1, 50))
def test_content_is_read_back_from_pieces(items: list[Any], piece: int) -> None:
    content = b"".join(map(encode_item, items))
    pieces = (content[at : at + piece] for at in range(0, len(content), piece))
    assert list(parse_content(pieces, path="p")) == items


@given(items=st.lists(_PAIR, min_size=1, max_size=3), data=st.data())
def test_content_that_is_cut_off_is_damage_or_shorter(items: list[Any], data: st.DataObject) -> None:
    content = b"".join(map(encode_item, items))
    end = data.draw(st.integers(0, len(content) - 1))
    try:
        found = list(parse_content([content[:end]], path="p"))
    except BackupDamaged:
        return
    assert found == items[: len(found)]


@given(summary=_SUMMARY)
def test_a_summary_is_read_back(summary: BackupSummary) -> None:
    assert parse_summary(summary.encode(), path="p") == summary


@given(summary=_SUMMARY, data=st.data())
def test_a_changed_summary_is_damage(summary: BackupSummary, data: st.DataObject) -> None:
    content = bytearray(summary.encode())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    try:
        found = parse_summary(bytes(content), path="p")
    except BackupDamaged:
        return
    # Blanks between values are no part of what they say.
    assert found == summary


@given(summary=_SUMMARY)
def test_a_summary_of_an_earlier_version_has_no_log(summary: BackupSummary) -> None:
    value = orjson.loads(replace(summary, log=None).encode())
    del value["backup"]["log"]
    value["sha256"] = hashlib.sha256(orjson.dumps(value["backup"])).hexdigest()
    assert parse_summary(orjson.dumps(value), path="p") == replace(summary, log=None)


def test_a_later_format_is_refused() -> None:
    with pytest.raises(BackupDamaged, match="format 2"):
        parse_summary(b'{"format": 2}', path="p")

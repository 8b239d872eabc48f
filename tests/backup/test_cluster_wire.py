"""What nodes tell each other for a backup arrives as it was sent; anything else is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.backup.test_format import _REGION
from tsdb.backup import BackupFailed
from tsdb.backup._files import CopiedRegion, FailedRegion
from tsdb.backup.cluster._wire import (
    Counts,
    PinFacts,
    counts_from_wire,
    counts_to_wire,
    facts_from_wire,
    facts_to_wire,
    outcome_from_wire,
    outcome_to_wire,
    read_regions,
)
from tsdb.errors import InvalidArguments
from tsdb.model import RegionId
from tsdb.remote.codec import decode_value, encode_value

_TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)
_COUNT = st.integers(0, 2**63 - 1)
_REGION_ID = _COUNT.map(RegionId)
_FACTS = st.builds(
    PinFacts,
    region_id=_REGION_ID,
    table=_TEXT,
    files=_COUNT,
    size_bytes=_COUNT,
    schema_version=_COUNT,
    truncated_entry_id=st.none() | _COUNT,
    damaged=st.lists(_TEXT, max_size=3).map(tuple),
)
_COPIED = st.builds(CopiedRegion, region=_REGION, rows=_COUNT, damaged=st.lists(_TEXT, max_size=3).map(tuple))
_ANYTHING: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | _TEXT | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(["region", "region_id", "rows", "damaged", "error", "table", "files"]), inner)
    ),
    max_leaves=8,
)


def _travel(value: Any) -> Any:
    return decode_value(encode_value(value))


@given(_FACTS, _COPIED, st.builds(Counts, _COUNT, _COUNT, _COUNT, _COUNT))
def test_what_is_sent_arrives(facts: PinFacts, copied: CopiedRegion, counts: Counts) -> None:
    assert facts_from_wire(_travel(facts_to_wire(facts))) == facts
    assert outcome_from_wire(_travel(outcome_to_wire(copied))) == copied
    assert counts_from_wire(_travel(counts_to_wire(counts))) == counts


@given(_REGION_ID, _TEXT)
def test_a_failure_arrives_as_its_class(region_id: RegionId, text: str) -> None:
    sent = FailedRegion(region_id, BackupFailed(text, table="cpu"))
    arrived = outcome_from_wire(_travel(outcome_to_wire(sent)))
    assert isinstance(arrived, FailedRegion)
    assert arrived.region_id == region_id
    assert (type(arrived.error), str(arrived.error)) == (BackupFailed, str(sent.error))


@given(_ANYTHING)
def test_anything_else_is_refused_or_a_sound_value(value: Any) -> None:
    for read in (facts_from_wire, outcome_from_wire, counts_from_wire, lambda each: read_regions({"regions": each})):
        try:
            read(value)
        except InvalidArguments:
            continue


def test_a_request_names_a_bounded_number_of_regions() -> None:
    with pytest.raises(InvalidArguments, match="at most"):
        read_regions({"regions": list(range(5000))})

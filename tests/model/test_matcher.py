"""Conditions on labels: lists of values are looked up, and that changes no answer."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsdb.model import Matcher, anchored, listed_values, match_values

PATTERNS = st.text(alphabet="ab|.é-", max_size=8)
VALUES = st.lists(st.none() | st.text(alphabet="ab|.é-\n", max_size=4), min_size=1, max_size=20)


@settings(deadline=None)
@given(PATTERNS, VALUES, st.sampled_from(["=~", "!~"]))
def test_a_list_is_answered_as_the_expression_would_be(pattern: str, values: list[str | None], op: str) -> None:
    texts = pa.array(values, pa.string())
    wanted = pc.match_substring_regex(pc.fill_null(texts, ""), anchored(pattern)).to_pylist()
    found = match_values(Matcher("label", op, pattern), texts).tolist()
    assert found == [is_match == (op == "=~") for is_match in wanted]


@pytest.mark.parametrize(
    ("pattern", "listed"),
    [
        ("a", ("a",)),
        ("a|b|a", ("a", "b")),
        ("", ("",)),
        ("a|", ("a", "")),
        ("a.c", None),
        ("(a|b)", None),
        ("a+", None),
    ],
)
def test_only_plain_texts_are_a_list(pattern: str, listed: tuple[str, ...] | None) -> None:
    assert listed_values(pattern) == listed

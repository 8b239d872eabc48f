"""The text of labels: injective, ordered, and read back as it was."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tsdb.model import decode_labels, encode_labels

CHARACTERS = st.characters(min_codepoint=0, max_codepoint=0x2FF) | st.sampled_from("\x00\x01\x02\x03\x04\x05é🦉")
TEXTS = st.text(CHARACTERS, max_size=6)
NAMES = st.text(CHARACTERS, min_size=1, max_size=4)
LABEL_SETS = st.lists(st.dictionaries(NAMES, TEXTS, max_size=4), min_size=1, max_size=8)


def _columns(sets: list[dict[str, str]]) -> dict[str, pa.Array]:
    names = {name for labels in sets for name in labels}
    return {name: pa.array([labels.get(name) for labels in sets], pa.string()) for name in names}


@given(LABEL_SETS)
def test_labels_come_back_as_they_were(sets: list[dict[str, str]]) -> None:
    columns = _columns(sets)
    decoded = decode_labels(encode_labels(columns, len(sets)), list(columns))
    assert dict(zip(columns, decoded, strict=True)) == columns


@given(LABEL_SETS)
def test_only_equal_sets_of_labels_have_equal_texts(sets: list[dict[str, str]]) -> None:
    texts = encode_labels(_columns(sets), len(sets)).to_pylist()
    assert len(set(texts)) == len({frozenset(labels.items()) for labels in sets})


@given(LABEL_SETS)
def test_texts_are_in_the_order_of_names_and_values(sets: list[dict[str, str]]) -> None:
    texts = encode_labels(_columns(sets), len(sets)).to_pylist()
    by_text = sorted(range(len(sets)), key=lambda at: texts[at].encode())
    keys = [sorted((name.encode(), value.encode()) for name, value in labels.items()) for labels in sets]
    assert [keys[at] for at in by_text] == sorted(keys)


def test_labels_that_a_text_lacks_are_null() -> None:
    texts = encode_labels({"host": pa.array(["a", None, ""])}, 3)
    assert [column.to_pylist() for column in decode_labels(texts, ["host", "job"])] == [["a", None, ""], [None] * 3]


def test_no_labels_are_an_empty_text() -> None:
    assert encode_labels({}, 2).to_pylist() == ["", ""]
    assert decode_labels(pa.array(["", ""]), ["host"])[0].to_pylist() == [None, None]
    assert decode_labels(pa.array([], pa.string()), ["host"])[0].to_pylist() == []


def test_a_value_that_looks_like_a_name_is_a_value() -> None:
    columns = {"a": pa.array(["job"]), "job": pa.array(["a"])}
    assert [each.to_pylist() for each in decode_labels(encode_labels(columns, 1), ["job", "a"])] == [["a"], ["job"]]

"""What texts must hold for `matches` and `matches_term`: an index that knows no more than that rules no match out."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsdb.engine.index import (
    IndexFile,
    TextAll,
    TextAny,
    TextBuilder,
    TextHolds,
    TextIndex,
    TextNode,
    directory_blob,
    encode_index,
    fulltext_blob,
    is_selective,
)
from tsdb.model import FulltextIndex
from tsdb.query.functions import query_needs, term_needs
from tsdb.query.functions._match_query import matches
from tsdb.query.functions._term import matches_term
from tsdb.store import MemoryStore

ALPHABET = "aAbBnN01 -_./éжЖßİı磁盘满\U0001f600"
WORDS = ["disk", "Disk", "full", "on", "磁盘", "磁盘满", "жёлтый", "x1", "/dev", "a", ""]
TEXTS = st.text(st.sampled_from(ALPHABET), max_size=20) | st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)


def rows_left(texts: list[str | None], wanted: TextNode, declared: FulltextIndex) -> list[bool]:
    """Tell of each row whether an index leaves it in."""
    builder = TextBuilder(declared, None)
    builder.add(pa.chunked_array([pa.array(texts, pa.string())]))
    blob, directory = builder.finish()
    store = MemoryStore()
    name = fulltext_blob(declared.column)
    parts = encode_index("f", {name: blob, directory_blob(name): directory})
    store.put("f.idx", parts)
    index = TextIndex(IndexFile(store, "f.idx", sum(map(len, parts)), file_id="f"), declared.column, rows=len(texts))
    pages, test = index.pages, index.test(wanted)
    found = [
        span for page in pages.pages_of(0, len(texts)) for span in pages.rows_where(page, pages.blob.read(page), test)
    ]
    return [any(start <= row < stop for start, stop in found) for row in range(len(texts))]


DECLARED = st.builds(
    FulltextIndex,
    st.just(3),
    st.integers(1, 4),
    st.sampled_from([0.5, 0.01]),
    st.sampled_from(["English", "Chinese"]),
    st.booleans(),
)


def check_safe(
    texts: list[str | None], matched: list[bool | None], wanted: TextNode | None, declared: FulltextIndex
) -> None:
    if wanted is None or not is_selective(wanted):
        return
    left = rows_left(texts, wanted, declared)
    assert all(is_left for is_left, is_match in zip(left, matched, strict=True) if is_match)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.none() | TEXTS, min_size=1, max_size=8), TEXTS, DECLARED)
def test_no_text_with_a_term_is_ruled_out(texts: list[str | None], term: str, declared: FulltextIndex) -> None:
    matched = matches_term.body(pa.array(texts, pa.string()), pa.array([term] * len(texts))).to_pylist()
    check_safe(texts, matched, term_needs(term), declared)


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS, TEXTS, DECLARED)
def test_no_text_around_a_term_is_ruled_out(before: str, term: str, after: str, declared: FulltextIndex) -> None:
    text = before + term + after
    matched = matches_term.body(pa.array([text, None]), pa.array([term, term])).to_pylist()
    check_safe([text, None], matched, term_needs(term), declared)


ITEM = st.sampled_from(
    ["disk", "Disk", "ull", "磁盘", "жёл", "x1", "/dev", '"disk full"', '"k f"', '"磁盘满 "', '""', "1"]
)
MARKED = st.tuples(st.sampled_from(["", "", "+", "-"]), ITEM).map("".join)
QUERIES = st.recursive(
    MARKED,
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda items: st.sampled_from([" ", " AND ", " OR "]).map(lambda join: f"({join.join(items)})")
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | TEXTS, min_size=1, max_size=8), QUERIES, DECLARED)
def test_no_text_that_a_query_finds_is_ruled_out(texts: list[str | None], query: str, declared: FulltextIndex) -> None:
    matched = matches.body(pa.array(texts, pa.string()), pa.array([query] * len(texts))).to_pylist()
    check_safe(texts, matched, query_needs(query), declared)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("disk", TextHolds("disk")),
        ("disk full", TextAny((TextHolds("disk"), TextHolds("full")))),
        ("disk AND full", TextAll((TextHolds("disk"), TextHolds("full")))),
        ("disk -full", TextAll((TextHolds("disk"),))),
        ("+disk full", TextHolds("disk")),
        ("-disk", None),
        ("disk OR (full AND -on)", TextAny((TextHolds("disk"), TextAll((TextHolds("full"),))))),
        ("disk OR (-full AND -on)", None),
        ('"disk full"', TextHolds("disk full")),
        ('""', None),
        ("(disk", None),
    ],
)
def test_what_a_query_needs(query: str, expected: TextNode | None) -> None:
    assert query_needs(query) == expected


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ("disk", TextHolds("disk", starts_word=True, ends_word=True)),
        ("/dev", TextHolds("/dev", ends_word=True)),
        ("dev/", TextHolds("dev/", starts_word=True)),
        ("磁盘x", TextHolds("磁盘x")),
        ("xж", TextHolds("xж", starts_word=True)),
        ("", None),
    ],
)
def test_what_a_term_needs(term: str, expected: TextNode | None) -> None:
    assert term_needs(term) == expected


def test_texts_that_are_too_long_or_no_texts_are_not_looked_up() -> None:
    declared = FulltextIndex(3, 2, 0.001, "English", case_sensitive=False)
    texts: list[str | None] = ["disk full", None]
    for held in ("no" * 2049, "no \ud800", ""):
        assert not is_selective(TextHolds(held))
        assert not is_selective(TextAny((TextHolds(held), TextHolds("disk"))))
        both = TextAll((TextHolds(held), TextHolds("disk")))
        assert is_selective(both)
        assert rows_left(texts, both, declared) == [True, True]
    assert not is_selective(TextAny((TextHolds("disk"),) * 257))
    assert is_selective(TextAny((TextHolds("disk"),) * 256))


def test_an_index_rules_out_what_is_not_there() -> None:
    declared = FulltextIndex(3, 2, 0.001, "English", case_sensitive=False)
    texts: list[str | None] = ["disk full", "ramdisk", "nothing", None, "Disk ok", "磁盘已满"]
    for wanted, left in (
        (term_needs("disk"), [True, True, False, False, True, True]),
        (query_needs("amdis"), [True, True, False, False, False, False]),
        (query_needs("nothing AND disk"), [False] * 6),
        (query_needs("nothing disk"), [True] * 6),
        (query_needs("磁盘已"), [False, False, False, False, True, True]),
    ):
        assert wanted is not None
        assert rows_left(texts, wanted, declared) == left
    wanted = term_needs("disk")
    assert wanted is not None
    sensitive = FulltextIndex(3, 2, 0.001, "Chinese", case_sensitive=True)
    assert rows_left(texts, wanted, sensitive) == [True, True, False, False, False, False]
    wanted = query_needs("磁盘")
    assert wanted is not None
    assert rows_left(texts, wanted, sensitive) == [False, False, False, False, True, True]

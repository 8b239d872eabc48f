"""matches_term and the query language of matches."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.query.functions.asking import check, column, error
from tsdb.query.functions._term import find_term

TERMS = [
    ("a dog!", "dog", True),
    ("dogma", "dog", False),
    ("hotdog", "dog", False),
    ("hotdog dog", "dog", True),
    ("dog1", "dog", False),
    ("dog_1", "dog", True),
    ("Dog", "dog", False),
    ("x/dog", "/dog", True),
    ("x/dogs", "/dog", False),
    ("dog/x", "dog/", True),
    ("hotdog/x", "dog/", False),
    ("v2.0.1", "v2.0", True),
    ("v2.01", "v2.0", False),
    ("big  dog", "big dog", False),
    ("naïve!", "naïve", True),
    ("naïvety", "naïve", False),
    ("naïve狗", "naïve", False),
    ("狗dog狗", "dog", True),
    ("ädog", "dog", True),
    ("小狗狗", "狗", True),
    ("号12345", "号123", True),
    ("a.*b", ".*", True),
    ("a\nb", "b", True),
    ("", "", True),
    ("a", "", False),
    ("", "a", False),
]


@pytest.mark.parametrize(("text", "term", "expected"), TERMS)
def test_matches_term(text: str, term: str, expected: bool) -> None:
    check(f"matches_term('{text}', '{term}')", expected)


@pytest.mark.parametrize("call", ["matches_term(NULL, 'a')", "matches_term('a', NULL)", "matches(NULL, 'a')"])
def test_matching_with_null_is_null(call: str) -> None:
    check(call, None)


def test_matches_term_takes_a_term_per_row() -> None:
    table = pa.table({"s": ["a dog", "a cat", "cats", None, "x"], "term": ["dog", "dog", "cat", "cat", None]})
    assert column("matches_term(s, term)", table) == [True, False, False, None, None]
    assert column("matches_term(s, 'cat')", table) == [False, True, False, None, False]


_ALPHABET = st.text("ab/ 1é狗.", max_size=8)


@given(texts=st.lists(_ALPHABET, min_size=1), term=_ALPHABET)
def test_matches_term_agrees_with_looking_at_every_occurrence(texts: list[str], term: str) -> None:
    assert find_term(pa.array(texts), term).to_pylist() == [_holds(text, term) for text in texts]


def _holds(text: str, term: str) -> bool:
    if not term:
        return not text
    is_han, is_ascii = "狗" in term, "é" not in term

    def stops(own: str, neighbour: str) -> bool:
        if is_han or not own.isalnum() or not neighbour:
            return False
        return neighbour.isalnum() and (neighbour.isascii() or not is_ascii)

    starts = (match.start() for match in re.finditer(f"(?={re.escape(term)})", text))
    return any(
        not stops(term[0], text[start - 1 : start]) and not stops(term[-1], text[start + len(term) :][:1])
        for start in starts
    )


TEXTS = ["red green blue", "red blue", "green", "green blue", "Red"]
QUERIES = [
    ("red", [0, 1]),
    ("red green", [0, 1, 2, 3]),
    ("red OR green", [0, 1, 2, 3]),
    ("red or green", [0, 1, 2, 3]),
    ("red AND green", [0]),
    ("red and blue", [0, 1]),
    ("red AND green OR blue", [0, 1, 3]),
    ("red AND (green OR blue)", [0, 1]),
    ('"red green"', [0]),
    ('"green blue" Red', [0, 3, 4]),
    ("green +blue", [0, 1, 3]),
    ("+green +blue", [0, 3]),
    ("green -blue", [2]),
    ("-blue", [2, 4]),
    ("-blue -green", [4]),
    ("red -(green blue)", []),
    ("blue -(red AND green)", [1, 3]),
    ("blue AND -red", [3]),
    ("blue AND -(-red)", [0, 1]),
    ("(+red +green) Red", [0, 4]),
    ("+(red green) AND blue", [0, 1, 3]),
    ("+blue -red green", [3]),
    ("gre\\en", [0, 2, 3]),
    ("ee", [0, 2, 3]),
]


@pytest.mark.parametrize(("query", "expected"), QUERIES, ids=[case[0] for case in QUERIES])
def test_matches_finds_the_texts_of_a_query(query: str, expected: list[int]) -> None:
    found = column(f"matches(s, '{query}')", pa.table({"s": TEXTS}))
    assert [position for position, is_found in enumerate(found) if is_found] == expected


def test_escaped_signs_are_looked_for() -> None:
    check("matches('a+b', 'a\\+b')", True)
    check('matches(\'say "hi"\', \'"say \\"hi"\')', True)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "a word is missing"),
        ("  ", "a word is missing"),
        ("a AND", "a word is missing"),
        ("OR a", "a word is missing"),
        ("(a", "a closing bracket is missing"),
        ("a)", "an opening bracket is missing"),
        ("()", "a word is missing"),
        ('"a', "the quote does not end"),
        ('"a"b', "a blank must follow"),
        ("+ a", "without a blank"),
        ("+-a", "without a blank"),
        ("a -", "without a blank"),
        ("(" * 100 + "a" + ")" * 100, "brackets inside each other"),
    ],
)
def test_a_query_that_cannot_be_read_is_refused_with_the_place(query: str, reason: str) -> None:
    message = error(f"matches('x', '{query}')")
    assert reason in message
    assert "at character" in message

"""`TextFilters` and `text_needs` against words and pieces that are found character by character."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import TextFilters, text_needs

TEXTS = st.text(st.sampled_from("aAbZ09 _-.éжЖ磁盘\U0001f600"), max_size=24)
CODES = 36**3


def is_word(character: str) -> bool:
    return character.isascii() and character.isalnum()


def runs(text: str) -> list[tuple[int, str]]:
    """Return the runs of a text, each with its place."""
    found: list[tuple[int, str]] = []
    before = ""
    for at, character in enumerate(text):
        kind = "word" if is_word(character) else "" if character.isascii() else "beyond"
        if kind and kind == before:
            found[-1] = found[-1][0], found[-1][1] + character
        elif kind:
            found.append((at, character))
        before = kind
    return found


def parts(text: str, gram: int, *, folds_case: bool) -> set[tuple[str, str]]:
    """Return the words and the pieces of a text."""
    found = set()
    for _, run in runs(text):
        size = 3 if is_word(run[0]) else gram
        found |= {("piece", run[at : at + size].lower()) for at in range(len(run) - size + 1) if is_word(run[0])}
        found |= {("piece", run[at : at + size]) for at in range(len(run) - size + 1) if not is_word(run[0])}
        if is_word(run[0]):
            found.add(("word", run.lower() if folds_case else run))
    return found


Filters: TypeAlias = tuple[pa.Array, pa.Array, pa.Array]
Needs: TypeAlias = tuple[list[int], list[int], list[int]]


def may_hold(filters: Filters, at: int, needs: Needs) -> bool:
    count, bits, bitmap = (column[at].as_py() for column in filters)
    hashes, pieces, hashed = needs
    if bitmap is not None:
        if not all(bitmap[piece // 8] >> (piece % 8) & 1 for piece in pieces):
            return False
    else:
        hashes = [*hashes, *hashed]
    size = 8 * len(bits)
    for each in hashes:
        step = (each << 32 | each >> 32) & (2**64 - 1) | 1
        places = [((each + number * step) & (2**64 - 1)) % size for number in range(count)]
        if not all(bits[place // 8] >> (place % 8) & 1 for place in places):
            return False
    return True


def made_of(texts: Sequence[str | None], *given: object) -> Filters:
    filters = TextFilters(*given)  # type: ignore[arg-type]
    array = pa.array(["before", *texts], pa.string())[1:]
    middle = len(array) // 2
    filters.add(array[:middle])
    filters.add(array[middle:])
    counts, bits, bitmaps = filters.finish()
    return pa.array(counts), pa.array(bits), pa.array(bitmaps)


def needed(*given: object) -> Needs:
    hashes, pieces, hashed = text_needs(*given)  # type: ignore[arg-type]
    return pa.array(hashes).to_pylist(), pa.array(pieces).to_pylist(), pa.array(hashed).to_pylist()


@given(st.lists(st.none() | TEXTS, min_size=1, max_size=12), st.integers(1, 5), st.integers(1, 4), st.booleans(), TEXTS)
def test_a_filter_has_what_the_texts_of_its_rows_are_made_of(
    texts: list[str | None], granularity: int, gram: int, folds_case: bool, other: str
) -> None:
    filters = made_of(texts, granularity, 0.0001, gram, folds_case, 1 << 30)
    assert len(filters[0]) == -(-len(texts) // granularity)
    for at in range(len(filters[0])):
        rows = [text for text in texts[at * granularity : (at + 1) * granularity] if text is not None]
        own = set().union(*(parts(text, gram, folds_case=folds_case) for text in rows))
        for text in rows:
            assert may_hold(filters, at, needed(text, True, True, gram, folds_case))
        if parts(other, gram, folds_case=folds_case) <= own:
            assert may_hold(filters, at, needed(other, True, True, gram, folds_case))


@given(TEXTS, TEXTS, TEXTS, st.integers(1, 4), st.booleans())
def test_a_text_that_holds_another_is_not_ruled_out(
    before: str, held: str, after: str, gram: int, folds_case: bool
) -> None:
    filters = made_of([before + held + after], 1, 0.01, gram, folds_case, 1 << 30)
    starts_word = not before or not is_word(before[-1])
    ends_word = not after or not is_word(after[0])
    assert may_hold(filters, 0, needed(held, starts_word, ends_word, gram, folds_case))
    assert may_hold(filters, 0, needed(held, False, False, gram, folds_case))


@given(TEXTS, st.booleans(), st.booleans())
def test_only_words_that_cannot_be_parts_of_longer_ones_are_needed(
    held: str, starts_word: bool, ends_word: bool
) -> None:
    whole = [
        run
        for at, run in runs(held)
        if is_word(run[0]) and (at > 0 or starts_word) and (at + len(run) < len(held) or ends_word)
    ]
    beyond = sum(max(0, len(run) - 1) for _, run in runs(held) if not is_word(run[0]))
    hashes, pieces, hashed = needed(held, starts_word, ends_word, 2, False)
    assert len(hashes) == len(whole) + beyond
    assert len(pieces) == len(hashed) == sum(max(0, len(run) - 2) for _, run in runs(held) if is_word(run[0]))
    assert all(piece < CODES for piece in pieces)


def test_many_pieces_are_in_a_bitmap() -> None:
    random = np.random.default_rng(1)
    texts = ["".join(random.choice(list("abcdefghijklmnopqrstuvwxyz"), 40)) for _ in range(1000)]
    counts, bits, bitmaps = made_of([*texts, "one"], 1000, 0.01, 3, True, 1 << 30)
    assert bitmaps.is_null().to_pylist() == [False, True]
    assert len(bitmaps[0].as_py()) == CODES // 8
    assert len(bits[0].as_py()) < 1300
    assert counts[0].as_py() == 7
    filters = counts, bits, bitmaps
    assert all(may_hold(filters, 0, needed(text[7:19].upper(), False, False, 3, True)) for text in texts)
    assert not may_hold(filters, 0, needed("0123", False, False, 3, True))
    assert not may_hold(filters, 0, needed(texts[0][1:], True, True, 3, True))


def test_the_share_of_wrong_hits_is_about_the_rate() -> None:
    filters = made_of([f"w{number}" for number in range(5000)], 5000, 0.05, 3, True, 1 << 30)
    hashes = [needed(f"other{number}", True, True, 3, True)[0] for number in range(4000)]
    wrong = sum(may_hold(filters, 0, (each, [], [])) for each in hashes)
    assert 100 < wrong < 350


def test_filters_beyond_the_bound_rule_nothing_out() -> None:
    texts = [f"text number {number}" for number in range(100)]
    counts, bits, _ = made_of(texts, 10, 0.01, 3, True, 100)
    assert counts[0].as_py() > 0
    assert counts[-1].as_py() == 0
    assert sum(len(each.as_py()) for each in bits) <= 100 + 8 * len(bits)
    # So does the filter of rows with too many words.
    words = " ".join(f"{number:x}" for number in range(1 << 20, (2 << 20) + 2))
    counts, _, _ = made_of([words, "few words"], 1, 0.01, 3, True, 1 << 30)
    assert counts[0].as_py() == 0
    assert counts[1].as_py() > 0


def test_wrong_arguments_are_refused() -> None:
    for wrong in ((0, 0.1, 2), (1, 0.0, 2), (1, 1.5, 2), (1, float("nan"), 2), (1, 0.1, 0)):
        with pytest.raises(ValueError, match="above 0"):
            TextFilters(*wrong, True, 1000)
    with pytest.raises(TypeError, match="expected an array of strings, received Int64"):
        TextFilters(1, 0.1, 2, True, 1000).add(pa.array([1]))
    with pytest.raises(ValueError, match="above 0"):
        text_needs("a", True, True, 0, True)

"""matches_term: does a text hold a term, whole?

What may stand beside an occurrence depends on the kind of term:

    with a Han character       anything: there are no blanks between words
    with another letter        nothing that is a letter or digit of any script
    ASCII                      no ASCII letter or digit

A side on which the term itself has neither letter nor digit (`/start`) is not looked at. The check is one regular
expression over those texts that hold the term at all.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from tsdb.engine.reading import TextHolds, TextNode
from tsdb.query.functions._define import STRING, by_distinct, function

_HAN = re.compile(
    "[\u2e80-\u2fd5\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufad9"
    "\U00016fe2-\U00016ff1\U00020000-\U000323af]"
)


@function("matches_term", [STRING, STRING], pa.bool_())
def matches_term(text: pa.Array, term: pa.Array) -> pa.Array:
    return by_distinct(text, term, pa.bool_(), find_term)


def find_term(texts: pa.Array, term: str) -> pa.Array:
    if not term:
        return pc.equal(texts, "")
    holds = pc.match_substring(texts, term)
    pattern = term_pattern(term)
    candidates = pc.indices_nonzero(holds.fill_null(False))
    if pattern is None or not len(candidates):
        return holds
    confirmed = pc.match_substring_regex(texts.take(candidates), pattern)
    return pc.replace_with_mask(holds, holds.fill_null(False), confirmed)


def term_pattern(term: str) -> str | None:
    """Return the regular expression of a whole occurrence, None where every occurrence is one."""
    if _HAN.search(term):
        return None
    is_ascii = not any(character.isalnum() and not character.isascii() for character in term)
    other = "[^0-9A-Za-z]" if is_ascii else r"[^\p{L}\p{N}]"
    before = rf"(?:\A|{other})" if term[0].isalnum() else ""
    after = rf"(?:\z|{other})" if term[-1].isalnum() else ""
    return f"{before}{_escape(term)}{after}" if before or after else None


def term_needs(term: str) -> TextNode | None:
    """Return what every text must hold that has a term; None if that is not known."""
    if not term:
        return None
    has_edges = _HAN.search(term) is None
    return TextHolds(term, starts_word=has_edges and _is_word(term[0]), ends_word=has_edges and _is_word(term[-1]))


def _is_word(character: str) -> bool:
    return character.isascii() and character.isalnum()


def _escape(term: str) -> str:
    """As RE2 wants it: only ASCII punctuation behind a backslash."""
    return "".join(
        f"\\x{{{ord(character):x}}}" if character.isascii() and not character.isalnum() else character
        for character in term
    )


FUNCTIONS = [matches_term]

"""`FULLTEXT | SKIPPING | INVERTED | VECTOR INDEX [WITH (…)]`: options checked, missing ones filled in, keys sorted.

What an index keeps is its options in full, so that a table shows the same text whether they were written or implied.
"""

from __future__ import annotations

from collections.abc import Callable

from tsdb.errors import InvalidArguments, Reason, Status
from tsdb.model import ColumnIndex
from tsdb.sql.lexer import TokenKind
from tsdb.sql.parser._cursor import TokenCursor
from tsdb.sql.parser._options import Options, parse_with

INDEX_WORDS = ("FULLTEXT", "SKIPPING", "INVERTED", "VECTOR")


class InvalidIndexOption(InvalidArguments):
    """An option of an index has a value it cannot have."""

    status = Status.UNEXPECTED
    sql_reason = Reason.INVALID_PARAMETER


def parse_index(cursor: TokenCursor, column: str) -> ColumnIndex:
    """An index behind its first word, which the caller has seen."""
    kind = cursor.expect_any(*INDEX_WORDS)
    if not cursor.accept("INDEX"):
        raise InvalidArguments(f"expected INDEX after {kind}, found '{cursor.token.text[:40]}'", column=column)
    return make_index(kind.lower(), parse_with(cursor), column)


def parse_index_kind(cursor: TokenCursor) -> str:
    """`FULLTEXT INDEX` without options, as UNSET names it."""
    kind = cursor.expect_any(*INDEX_WORDS)
    cursor.expect("INDEX")
    return kind.lower()


def is_index(cursor: TokenCursor) -> bool:
    return cursor.token.kind == TokenKind.WORD and cursor.word in INDEX_WORDS


def make_index(kind: str, options: Options, column: str) -> ColumnIndex:
    """Check the options of an index and add those that were not given."""
    rules = _RULES[kind]
    given = dict(options)
    for key in given:
        if key not in rules:
            known = f"one of {', '.join(sorted(rules))}" if rules else "none: it takes no options"
            raise InvalidArguments(f"invalid option of a {kind} index: {key}", column=column, hint=f"known: {known}")
    full = {}
    for key, (default, read) in rules.items():
        value = read(given.get(key, default))
        if value is None:
            raise InvalidIndexOption(
                f"invalid value of option {key} of a {kind} index: '{given[key]}'", column=column, hint=_EXPECTED[key]
            )
        full[key] = value
    if full.get("backend") == "tantivy":
        del full["false_positive_rate"], full["granularity"]
    return ColumnIndex(kind, tuple(sorted(full.items())))


def _choice(*values: str) -> Callable[[str], str | None]:
    by_fold = {value.lower(): value for value in values}
    return lambda text: by_fold.get(text.lower())


def _positive(text: str) -> str | None:
    return str(int(text)) if text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) < 2**32 else None


def _rate(text: str) -> str | None:
    try:
        rate = float(text)
    except ValueError:
        return None
    return _shortest(rate) if 0 < rate <= 1 else None


def _shortest(rate: float) -> str:
    return str(int(rate)) if rate == int(rate) else repr(rate)


_BLOOM: dict[str, tuple[str, Callable[[str], str | None]]] = {
    "granularity": ("10240", _positive),
    "false_positive_rate": ("0.01", _rate),
}
_RULES: dict[str, dict[str, tuple[str, Callable[[str], str | None]]]] = {
    "fulltext": {
        "analyzer": ("English", _choice("English", "Chinese")),
        "case_sensitive": ("false", _choice("true", "false")),
        "backend": ("bloom", _choice("bloom", "tantivy")),
        **_BLOOM,
    },
    "skipping": {"type": ("BLOOM", _choice("BLOOM")), **_BLOOM},
    "inverted": {},
    "vector": {
        "engine": ("usearch", _choice("usearch")),
        "metric": ("l2sq", _choice("l2sq", "cosine", "dot")),
        "connectivity": ("16", _positive),
        "expansion_add": ("128", _positive),
        "expansion_search": ("64", _positive),
    },
}
_EXPECTED = {
    "analyzer": "English or Chinese",
    "case_sensitive": "true or false",
    "backend": "bloom or tantivy",
    "granularity": "a whole number above 0",
    "false_positive_rate": "a number above 0, at most 1",
    "type": "BLOOM",
    "engine": "usearch",
    "metric": "l2sq, cosine or dot",
    "connectivity": "a whole number above 0",
    "expansion_add": "a whole number above 0",
    "expansion_search": "a whole number above 0",
}

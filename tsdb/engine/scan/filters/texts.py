"""What conditions say about the texts of a column, for full-text indexes.

msg LIKE '%disk % full'   ─▶   it holds "disk " and " full", the second of which is at its end
msg = 'ok'                ─▶   it holds "ok", with nothing before or after it
"""

from __future__ import annotations

import re

from tsdb.engine.index import TextAll, TextAny, TextHolds, TextNode, TextTest
from tsdb.engine.scan.filters.expression import Call, Constant, Node, Ref
from tsdb.engine.scan.filters.filter import Check

_WILDCARDS = re.compile("[%_]+")
_VALUES_MAX = 100


def text_test(check: Check) -> TextTest | None:
    """Return what a check asks of the text of a column; None if it asks nothing that an index can tell."""
    if not isinstance(check, Call):
        return None
    if check.function in ("or", "or_kleene"):
        return _either(check)
    column, wanted = _of_column(check)
    return None if wanted is None else TextTest(column, wanted)


def _either(check: Call) -> TextTest | None:
    """Conditions of which one must hold, if all are about one column."""
    found = [text_test(each) for each in check.arguments]
    tests = [each for each in found if each is not None]
    if len(tests) < len(found) or len({each.column for each in tests}) != 1:
        return None
    return TextTest(tests[0].column, TextAny(tuple(each.wanted for each in tests)))


def _of_column(check: Call) -> tuple[str, TextNode | None]:
    left, *others = check.arguments
    if check.function == "equal":
        (right,) = others
        column, constant = (left, right) if isinstance(left, Ref) else (right, left)
        values = [constant.value.as_py()] if isinstance(constant, Constant) else []
        return _name(column), _one_of(values)
    if check.options is None:
        return "", None
    if check.function == "is_in":
        return _name(left), _one_of(check.options["value_set"].values.drop_null().to_pylist())
    if check.function not in ("match_like", "match_substring") or check.options["ignore_case"].as_py():
        return "", None
    pattern = check.options["pattern"].as_py()
    return _name(left), like_pieces(pattern) if check.function == "match_like" else TextHolds(pattern)


def _name(node: Node) -> str:
    return node.name if isinstance(node, Ref) else ""


def _one_of(values: list[object]) -> TextNode | None:
    texts = [TextHolds(each, starts_word=True, ends_word=True) for each in values if isinstance(each, str)]
    if not texts or len(texts) < len(values) or len(texts) > _VALUES_MAX:
        return None
    return texts[0] if len(texts) == 1 else TextAny(tuple(texts))


def like_pieces(pattern: str) -> TextNode | None:
    """Return what a text like a pattern without escapes must hold; None if it may be anything."""
    if "\\" in pattern:
        return None
    pieces = _WILDCARDS.split(pattern)
    last = len(pieces) - 1
    found = [TextHolds(piece, starts_word=at == 0, ends_word=at == last) for at, piece in enumerate(pieces) if piece]
    return TextAll(tuple(found)) if found else None

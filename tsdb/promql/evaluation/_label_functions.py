"""Functions that change labels or order by them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cmp_to_key

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tsdb.model import anchored
from tsdb.promql._checks import is_utf8
from tsdb.promql._errors import PromqlFailure
from tsdb.promql._lexer import go_quote
from tsdb.promql.evaluation._context import EvalContext
from tsdb.promql.evaluation._labels import NAME, LabelColumn, LabelTable
from tsdb.promql.evaluation._values import Bools, Rows, Vector, merge_same

_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+)|\$)")
_GROUPS_MAX = 9


def label_replace(
    context: EvalContext, vector: Vector, target: str, template: str, source: str, pattern: str
) -> Vector:
    """Set a label of the series whose other label matches."""
    _check_name(target, "label_replace")
    try:
        whole = anchored(pattern)
    except ValueError as error:
        raise PromqlFailure(f"invalid regular expression in label_replace(): {pattern}") from error
    column = vector.labels.column(source)
    texts = column.values.arrow
    matches = pc.match_substring_regex(texts, whole).to_numpy(zero_copy_only=False)
    where = matches[column.codes]
    if not where.any():
        return vector
    rewrite = _rewrite(template, pattern)
    # Each reference stands for no more than the whole text.
    lengths = len(rewrite) + len(_REFERENCE.findall(template)) * _lengths(column)
    context.reserve_labels(max(int(lengths[matches].sum()), int(lengths[column.codes[where]].sum())))
    replaced = pc.replace_substring_regex(texts, whole, rewrite, max_replacements=1).to_pylist()
    before = vector.labels.column(target).texts()
    after = [replaced[code] if hit else old for code, hit, old in zip(column.codes, where, before, strict=True)]
    return _set(vector, target, after, where)


def label_join(context: EvalContext, vector: Vector, target: str, separator: str, sources: Sequence[str]) -> Vector:
    """Set a label to others put together."""
    for name in sources:
        _check_name(name, "label_join", "source ")
    _check_name(target, "label_join")
    found = {name: vector.labels.column(name) for name in sources}
    chars = {name: int(_lengths(column)[column.codes].sum()) for name, column in found.items()}
    context.reserve_labels(sum(chars[name] for name in sources) + len(separator) * len(sources) * vector.rows)
    columns = [found[name].texts() for name in sources]
    texts = [separator.join(row) for row in zip(*columns, strict=True)] if columns else [""] * vector.rows
    return _set(vector, target, texts, np.ones(vector.rows, np.bool_))


def _lengths(column: LabelColumn) -> npt.NDArray[np.int64]:
    """Return how many characters each value of a label has."""
    lengths: npt.NDArray[np.int64] = pc.utf8_length(column.values.arrow).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _check_name(name: str, function: str, kind: str = "destination ") -> None:
    if not name or not is_utf8(name):
        raise PromqlFailure(f"invalid {kind}label name in {function}(): {name if is_utf8(name) else go_quote(name)}")


def _set(vector: Vector, target: str, texts: list[str], where: Bools) -> Vector:
    labels = vector.labels.with_column(target, LabelColumn.of_texts(texts))
    drops = vector.drops_name & ~where if target == NAME else vector.drops_name
    return merge_same(replace(vector, labels=labels, drops_name=drops, is_ordered=False))


def _rewrite(template: str, pattern: str) -> str:
    """Return a template with references `$1`, `${name}` in the form of RE2's rewrites."""
    names, count = _group_names(pattern)
    out, position = [], 0
    for match in _REFERENCE.finditer(template):
        out.append(template[position : match.start()].replace("\\", "\\\\"))
        position = match.end()
        name = match.group(1) or match.group(2)
        if name is None:
            out.append("$")
            continue
        number = int(name) if name.isascii() and name.isdigit() and len(name) < 4 else names.get(name)
        if number is None or number > count:
            continue
        if number > _GROUPS_MAX:
            raise PromqlFailure(f"label_replace() can refer to the first {_GROUPS_MAX} groups only, not to {name}")
        out.append(f"\\{number}")
    out.append(template[position:].replace("\\", "\\\\"))
    return "".join(out)


def _group_names(pattern: str) -> tuple[dict[str, int], int]:
    """Return the numbers of named groups, and how many groups an expression has."""
    names: dict[str, int] = {}
    count, position, in_class = 0, 0, False
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position += 2
            continue
        if in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
            position += 1 if pattern[position + 1 : position + 2] == "]" else 0
        elif character == "(":
            named = re.match(r"\(\?P?<(\w+)>", pattern[position:])
            if named or pattern[position + 1 : position + 2] != "?":
                count += 1
            if named:
                names[named.group(1)] = count
        position += 1
    return names, count


# Order

_CHUNK = re.compile(r"\d+|\D+")


def sort_by_label(labels: LabelTable, names: Sequence[str], *, is_descending: bool) -> Rows:
    """Return the series in the natural order of some labels, then of all."""
    columns = [labels.column(name) for name in names]
    ranks = []
    for column in columns:
        order = sorted(range(len(column.values)), key=lambda code: _natural(column.values[code]))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        ranks.append(rank[column.codes])
    whole = np.empty(labels.rows, np.int64)
    whole[labels.order()] = np.arange(labels.rows)
    rows = np.lexsort((whole, *reversed(ranks)))
    return rows[::-1] if is_descending else rows


def _compare(left: str, right: str) -> int:
    """Compare texts so that numbers in them count as numbers."""
    for one, other in zip(_CHUNK.findall(left), _CHUNK.findall(right), strict=False):
        if one == other:
            continue
        if one.isdigit() and other.isdigit() and int(one) != int(other):
            return -1 if int(one) < int(other) else 1
        return -1 if one < other else 1
    return (len(left) > len(right)) - (len(left) < len(right))


_natural = cmp_to_key(_compare)

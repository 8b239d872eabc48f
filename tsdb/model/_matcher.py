"""Conditions on labels, decided on distinct values; regular expressions are RE2's, by way of Arrow.

RE2 takes time linear in the text, whatever the expression. An expression must match the whole value. Dashboards mostly
send lists of values (`a|b|c`): those are looked up, without any expression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.weighted_cache import WeightedCache

MatchOp: TypeAlias = Literal["=", "!=", "=~", "!~"]

REGEX_CHARS_MAX = 1 << 16
KEPT_BYTES_MAX = 8 << 20
"""The size of each of the three caches of expressions."""
_VALUE_BYTES = 64
"""The overhead of a text besides its characters."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on a label; a label that a series does not have is empty."""

    name: str
    op: MatchOp
    value: str


def _anchor(pattern: str) -> str:
    """Return the expression that matches whole texts; ValueError if this is none."""
    if len(pattern) > REGEX_CHARS_MAX:
        raise ValueError(f"the regular expression is longer than {REGEX_CHARS_MAX} characters")
    whole = f"^(?s:{pattern})$"
    try:
        pc.match_substring_regex(pa.array([""]), whole)
        # Unbalanced parentheses must not pass because of the ones around the expression.
        pc.match_substring_regex(pa.array([""]), pattern)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise ValueError(str(error).removeprefix("Invalid regular expression: ")) from error
    return whole


_SPECIAL = frozenset("\\.+*?()[]{}^$")


anchored = WeightedCache(
    _anchor,
    weigh=lambda pattern, whole: 2 * _VALUE_BYTES + len(pattern) + len(whole),
    weight_max=KEPT_BYTES_MAX,
    owner="regular_expressions",
)


def _list_values(pattern: str) -> tuple[str, ...] | None:
    """Return the texts that an expression lists, None if it is more than a list."""
    return None if _SPECIAL.intersection(pattern) else tuple(dict.fromkeys(pattern.split("|")))


listed_values = WeightedCache(
    _list_values,
    weigh=lambda pattern, values: 2 * len(pattern) + _VALUE_BYTES * (1 + len(values or ())),
    weight_max=KEPT_BYTES_MAX,
    owner="regular_expressions",
)


def compile_matcher(matcher: Matcher) -> None:
    """Raise ValueError if a regular expression is wrong."""
    if matcher.op in ("=~", "!~"):
        anchored(matcher.value)


def match_values(matcher: Matcher, values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return for each of several texts whether it satisfies a condition; null is empty."""
    if len(values) == 0:
        return np.zeros(0, dtype=np.bool_)
    texts = pc.fill_null(values, "") if values.null_count else values
    if matcher.op in ("=", "!="):
        found = pc.equal(texts, pa.scalar(matcher.value, texts.type))
    elif (listed := listed_values(matcher.value)) is not None:
        found = pc.is_in(texts, pa.array(listed, texts.type))
    else:
        found = pc.match_substring_regex(texts, anchored(matcher.value))
    result: npt.NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return ~result if matcher.op.startswith("!") else result


def matches(matcher: Matcher, value: str) -> bool:
    """Return whether one text satisfies a condition."""
    if matcher.op == "=":
        return value == matcher.value
    if matcher.op == "!=":
        return value != matcher.value
    return bool(match_values(matcher, pa.array([value], pa.string()))[0])


def _matches_empty(matcher: Matcher) -> bool:
    """Return whether series without the label satisfy a condition."""
    return matches(matcher, "")


matches_empty = WeightedCache(
    _matches_empty,
    weigh=lambda matcher, _: 4 * _VALUE_BYTES + len(matcher.value),
    weight_max=KEPT_BYTES_MAX,
    owner="regular_expressions",
)

"""Finding series by the inverted indexes of data files: conditions on tags as the indexes take them.

A condition on one tag is decided on the distinct values that the index has, so any condition can use it. Where the
values that can fulfil it lie in ranges, only the pages of these are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from tsdb.engine.index import TagTest, ValueSpan
from tsdb.engine.rows.series import FoundSeries
from tsdb.engine.rows.source import SourceReader, finds_series
from tsdb.engine.scan.filters.compare import FLIPPED
from tsdb.engine.scan.filters.expression import Call, Constant, Ref
from tsdb.engine.scan.filters.filter import Mask, ScanFilter, SeriesCheck, SeriesFrame, TagIs, TagMatch, as_mask
from tsdb.model import Column, Matcher, RegionSchema, listed_values, matches_empty

Spans = tuple[ValueSpan, ...]

_VALUES_MAX = 1000
"""A condition on more values is decided on all values of the tag."""
_REGEX_SPECIAL = frozenset("\\.+*?()[]{}^$|")
_REPEATING = frozenset("*?{")
_LIKE_SPECIAL = frozenset("%_\\")
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True, eq=False)
class Indexed:
    """What the indexes of a file found."""

    found: FoundSeries
    series_count: int
    """How many series the file has."""


def find_indexed(source: SourceReader, schema: RegionSchema, wanted: ScanFilter) -> Indexed | None:
    """Return series of a source among which are all that match; None if its series block is to be looked at."""
    if not wanted.on_series or not finds_series(source) or source.has_block:
        return None
    tests = list(_tests(wanted, schema, source.schema, source.indexed_tags))
    found = source.find_series(tests) if tests else None
    return None if found is None else Indexed(found, source.series_count)


def _tests(
    wanted: ScanFilter, schema: RegionSchema, written: RegionSchema, indexed: frozenset[int]
) -> Iterator[TagTest]:
    """Yield the conditions that indexes can decide: on one tag that has the type in which it was written."""
    for check in wanted.on_series:
        if len(check.names) != 1:
            continue
        (name,) = check.names
        tag = schema.by_name[name]
        if tag.id in indexed and written.by_id[tag.id].type == tag.type:
            yield TagTest(tag.id, spans_of(check, tag), _decider(check, name))


def _decider(check: SeriesCheck, name: str) -> Any:
    def decide(values: pa.Array) -> Mask:
        frame = SeriesFrame(pa.RecordBatch.from_arrays([values], names=[name]), frozenset((name,)))
        return as_mask(frame.value(check))

    return decide


def spans_of(check: SeriesCheck, tag: Column) -> Spans | None:
    """Return ranges of values outside of which no value fulfils a condition, nor null does; None if there are none."""
    if isinstance(check, TagIs):
        return _points(list(check.values), tag)
    if isinstance(check, TagMatch):
        return _spans_of_matcher(check.matcher, tag)
    return _spans_of_call(check, tag) if isinstance(check, Call) else None


def _points(values: list[Any], tag: Column) -> Spans | None:
    if len(values) > _VALUES_MAX or not all(_fits(value, tag) for value in values):
        return None
    return tuple(ValueSpan(value, value) for value in values)


def _fits(value: object, tag: Column) -> bool:
    """Whether Python compares a value with those of a tag as Arrow does."""
    if pt.is_string(tag.type):
        return isinstance(value, str)
    if pt.is_boolean(tag.type):
        return isinstance(value, bool)
    return pt.is_integer(tag.type) and isinstance(value, int) and not isinstance(value, bool)


def _spans_of_matcher(matcher: Matcher, tag: Column) -> Spans | None:
    if not pt.is_string(tag.type) or matcher.op not in ("=", "=~") or matches_empty(matcher):
        return None
    if matcher.op == "=":
        return _points([matcher.value], tag)
    listed = listed_values(matcher.value)
    if listed is not None:
        return _points(list(listed), tag)
    return None if "|" in matcher.value else prefix_span(_literal_prefix(matcher.value))


def _literal_prefix(pattern: str) -> str:
    """Return the text that everything begins with that a regular expression matches as a whole."""
    length = next((at for at, character in enumerate(pattern) if character in _REGEX_SPECIAL), len(pattern))
    # What follows may say that the last character need not be there.
    is_optional = pattern[length : length + 1] in _REPEATING and length > 0
    return pattern[: length - is_optional]


def prefix_span(prefix: str) -> Spans | None:
    """Return the range of all texts that begin with a prefix."""
    if not prefix:
        return None
    for length in range(len(prefix), 0, -1):
        code = ord(prefix[length - 1])
        if code < _LAST_CHARACTER:
            after = _SURROGATES.stop if code + 1 in _SURROGATES else code + 1
            return (ValueSpan(prefix, prefix[: length - 1] + chr(after)),)
    return (ValueSpan(prefix, None),)


def _spans_of_call(call: Call, tag: Column) -> Spans | None:
    function = call.function
    if function in ("or", "or_kleene"):
        each = [_spans_of_call(part, tag) if isinstance(part, Call) else None for part in call.arguments]
        return None if None in each else tuple(span for spans in each if spans is not None for span in spans)
    if function in ("and", "and_kleene"):
        known = [_spans_of_call(part, tag) for part in call.arguments if isinstance(part, Call)]
        return next((spans for spans in known if spans is not None), None)
    if function in FLIPPED:
        return _spans_of_comparison(function, *call.arguments, tag=tag)
    if call.options is None or not isinstance(call.arguments[0], Ref):
        return None
    if function == "is_in":
        values = call.options["value_set"].values.to_pylist()
        return _points([value for value in values if value is not None], tag)
    if function in ("match_like", "starts_with") and pt.is_string(tag.type):
        return _spans_of_pattern(function, call.options)
    return None


def _spans_of_pattern(function: str, options: pa.StructScalar) -> Spans | None:
    if options["ignore_case"].as_py():
        return None
    pattern: str = options["pattern"].as_py()
    if function == "starts_with":
        return prefix_span(pattern)
    length = next((at for at, character in enumerate(pattern) if character in _LIKE_SPECIAL), len(pattern))
    return prefix_span(pattern[:length])


def _spans_of_comparison(function: str, left: Any, right: Any, *, tag: Column) -> Spans | None:
    if isinstance(left, Constant):
        function, left, right = FLIPPED[function], right, left
    if not isinstance(left, Ref) or not isinstance(right, Constant) or not right.value.is_valid:
        return None
    value = right.value.as_py()
    if not _fits(value, tag):
        return None
    if function == "equal":
        return (ValueSpan(value, value),)
    if function in ("less", "less_equal"):
        return (ValueSpan(None, value),)
    return (ValueSpan(value, None),) if function in ("greater", "greater_equal") else None

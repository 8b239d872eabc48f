"""Leaving rows out by skipping and full-text indexes: where a column cannot have what a filter asks for.

A row may be left out before the merge only if no other row depends on it: a row that does not match may still hide an
older one that does. So this is for segments that are read directly, where every row stands for itself.

    part     ░░░░████████░░░░░░████░░       rows in which a filter has not found the value
    parts        ████████      ████
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from tsdb.engine.index import RowSpan, TextTest, is_selective
from tsdb.engine.metrics import INDEX_EXCLUDED_ROWS
from tsdb.engine.rows.source import SkippingReader, Wanted, skips_rows
from tsdb.engine.scan.filters.expression import Call, Constant, Ref
from tsdb.engine.scan.filters.filter import Check
from tsdb.engine.scan.filters.texts import text_test
from tsdb.engine.scan.plan.parts import Part
from tsdb.engine.scan.plan.segments import Segment
from tsdb.engine.scan.snapshot.statistics import ScanStatistics
from tsdb.model import Column, ColumnId, RegionSchema

_PARTS_MAX = 64
"""More parts of one segment are not made: the shortest gaps between them are read."""
_VALUES_MAX = 100
"""A filter on more values excludes little."""
_EXACT_MAX = 1 << 53


def skip_rows(
    schema: RegionSchema, segments: Sequence[Segment], texts: Sequence[TextTest], statistics: ScanStatistics
) -> list[Segment]:
    """Return the segments without rows that skipping and full-text indexes exclude."""
    found: list[Segment] = []
    for segment in segments:
        part = segment.parts[0]
        if segment.is_direct and (part.checks or texts) and skips_rows(part.source) and len(part.starts):
            found += _skip(schema, segment, part.source, texts, statistics)
        else:
            found.append(segment)
    return found


def _skip(
    schema: RegionSchema,
    segment: Segment,
    source: SkippingReader,
    texts: Sequence[TextTest],
    statistics: ScanStatistics,
) -> Iterator[Segment]:
    (part,) = segment.parts
    whole = int(part.starts[0]), int(part.stops[-1])
    values = _narrowed([whole], source, part, _values_wanted(part.checks, schema, source))
    kept = _narrowed(values, source, part, _texts_wanted(part.checks, texts, schema, source)) if values else values
    if kept == [whole]:
        yield segment
        return
    parts = list(_parts_within(part, kept))
    rows = sum(each.rows for each in parts)
    rows_of_values = rows if kept == values else sum(each.rows for each in _parts_within(part, values))
    statistics.add(rows_excluded_by_index=part.rows - rows_of_values, rows_excluded_by_fulltext=rows_of_values - rows)
    INDEX_EXCLUDED_ROWS.inc(part.rows - rows)
    yield from (Segment((each,), True) for each in parts)


def _narrowed(
    rows: list[RowSpan], source: SkippingReader, part: Part, wanted: Iterator[tuple[Column, Wanted]]
) -> list[RowSpan]:
    """Return of some row ranges those in which columns may have what is wanted of them."""
    whole = int(part.starts[0]), int(part.stops[-1])
    for column, each in wanted:
        found = source.rows_with(column.id, each, whole, part.tuning.skip_bytes_ratio)
        if found is not None:
            rows = list(_common(rows, found))
    return rows


def _parts_within(part: Part, rows: Sequence[RowSpan]) -> Iterator[Part]:
    for start, stop in _joined(rows):
        if (within := _within(part, start, stop)) is not None:
            yield within


def _values_wanted(
    checks: Sequence[Check], schema: RegionSchema, source: SkippingReader
) -> Iterator[tuple[Column, Wanted]]:
    """Yield the columns with a skipping index and the values one of which each must have."""
    for check in checks:
        wanted = _values_of(check, schema)
        if wanted is not None and _is_as_stored(source, wanted[0], source.skipping_columns):
            yield wanted


def _texts_wanted(
    checks: Sequence[Check], texts: Sequence[TextTest], schema: RegionSchema, source: SkippingReader
) -> Iterator[tuple[Column, Wanted]]:
    """Yield the columns with a full-text index and what the text of each must fulfil."""
    for test in (*texts, *map(text_test, checks)):
        column = None if test is None else schema.by_name.get(test.column)
        if test is None or column is None or not is_selective(test.wanted):
            continue
        if _is_as_stored(source, column, source.fulltext_columns):
            yield column, test.wanted


def _is_as_stored(source: SkippingReader, column: Column, indexed: frozenset[ColumnId]) -> bool:
    # In a file from before a change of type, values are cast before they are compared.
    return column.id in indexed and source.stored_type(column.id) == column.type


def _values_of(check: Check, schema: RegionSchema) -> tuple[Column, pa.Array] | None:
    """Return the column that a check is about and the values one of which it must have; None if it is another check."""
    if not isinstance(check, Call):
        return None
    if check.function == "equal":
        left, right = check.arguments
        if isinstance(left, Constant):
            left, right = right, left
        values = [right.value.as_py()] if isinstance(right, Constant) else None
    elif check.function == "is_in" and check.options is not None:
        left, values = check.arguments[0], check.options["value_set"].values.to_pylist()
    else:
        return None
    if not isinstance(left, Ref) or values is None or left.name not in schema.by_name:
        return None
    column = schema.by_name[left.name]
    present = [value for value in values if value is not None]
    if not present or len(present) > _VALUES_MAX or not all(_is_exact(value, column.type) for value in present):
        return None
    return column, pa.array(present, column.type)


def _is_exact(value: object, kind: pa.DataType) -> bool:
    """Whether a value equals values of a type only if it is one of them, bit for bit or as the same number."""
    if isinstance(value, bool) or pt.is_boolean(kind):
        return isinstance(value, bool) and bool(pt.is_boolean(kind))
    if isinstance(value, str):
        return bool(pt.is_string(kind))
    if isinstance(value, int):
        return _fits(value, kind) if pt.is_integer(kind) else bool(pt.is_float64(kind)) and abs(value) < _EXACT_MAX
    return isinstance(value, float) and bool(pt.is_float64(kind))


def _fits(value: int, kind: pa.DataType) -> bool:
    bits = int(kind.bit_width)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if pt.is_signed_integer(kind) else (0, (1 << bits) - 1)
    return low <= value <= high


def _common(left: Sequence[RowSpan], right: Sequence[RowSpan]) -> Iterator[RowSpan]:
    """Yield what two lists of row ranges, both in order, have in common."""
    for start, stop in left:
        for begin, end in right:
            low, high = max(start, begin), min(stop, end)
            if low < high:
                yield low, high


def _joined(rows: Sequence[RowSpan]) -> list[RowSpan]:
    """Return row ranges, those that touch as one, and the shortest gaps filled if there are too many."""
    if not rows:
        return []
    starts, stops = (np.array(each, np.int64) for each in zip(*rows, strict=True))
    gaps = starts[1:] - stops[:-1]
    least = 1 if len(gaps) < _PARTS_MAX else max(1, int(np.sort(gaps)[-(_PARTS_MAX - 1)]))
    is_cut = gaps >= least
    first = starts[np.append(True, is_cut)]
    last = stops[np.append(is_cut, True)]
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _within(part: Part, start: int, stop: int) -> Part | None:
    """Return the rows of a part from one row of its source to before another; None if there are none."""
    low = int(np.searchsorted(part.stops, start, side="right"))
    high = int(np.searchsorted(part.starts, stop, side="left"))
    if low >= high:
        return None
    cut = part.slice(low, high)
    starts, stops = np.maximum(cut.starts, start), np.minimum(cut.stops, stop)
    return replace(cut, starts=starts, stops=np.maximum(starts, stops))

"""The newest sample of each series, for federation, and how many series there are, for the status of the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest

import numpy as np

from tsdb.model import Matcher
from tsdb.promql import PromqlTooLarge
from tsdb.promql.evaluation import STALE_BITS, LabelColumn, LabelTable
from tsdb.query.promql._metadata import ALL_TIME, find_series
from tsdb.query.promql._source import TableSeries
from tsdb.query.promql._tables import FIELD_LABEL, NAME_LABEL, chosen_columns, find_tables, split_matchers


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest sample of a series."""

    labels: Mapping[str, str]
    time_ms: int
    value: float


def newest_samples(
    source: TableSeries,
    selectors: Sequence[Sequence[Matcher]],
    *,
    at_ms: int,
    lookback_ms: int,
    series_max: int,
) -> list[Newest]:
    """Return the newest sample of each series that a selector means, by name and labels.

    A series that ended has none; native histograms, which the text format cannot carry, are left out.
    """
    found: dict[tuple[tuple[str, str], ...], Newest] = {}
    for matchers in selectors:
        for field in _fields(source, matchers):
            for sample in _newest_of(replace(source, field=field), matchers, at_ms, lookback_ms, field):
                found[tuple(sample.labels.items())] = sample
            if len(found) > series_max:
                raise PromqlTooLarge(f"more than {series_max} series", hint="select fewer with match[]")
    return sorted(found.values(), key=lambda each: (each.labels.get(NAME_LABEL, ""), tuple(each.labels.items())))


def _fields(source: TableSeries, matchers: Sequence[Matcher]) -> list[str | None]:
    """Return the fields to read one after the other: those of tables with several; tables with one join each time."""
    chosen = split_matchers(matchers, source.database)
    fields: dict[str, None] = {}
    for table in find_tables(source.catalog, chosen):
        columns = chosen_columns(table, chosen.fields)
        if len(columns) > 1:
            fields.update(dict.fromkeys(column.name for column in columns))
    return [*fields] or [None]


def _newest_of(
    source: TableSeries, matchers: Sequence[Matcher], at_ms: int, lookback_ms: int, field: str | None
) -> list[Newest]:
    series = source.select(matchers, at_ms - lookback_ms + 1, at_ms)
    last = series.offsets[1:] - 1
    rows = np.flatnonzero(last >= series.offsets[:-1])
    last = last[rows]
    is_kept = series.values[last].view(np.uint64) != STALE_BITS
    if series.histograms is not None:
        is_kept &= ~series.histograms.is_valid().to_numpy(zero_copy_only=False)[last]
    rows, last = rows[is_kept], last[is_kept]
    labels = _with_field(series.labels.take(rows), source, matchers, field)
    cells = zip(labels.dicts(), series.times[last].tolist(), series.values[last].tolist(), strict=True)
    return [Newest(each, time, value) for each, time, value in cells]


def _with_field(labels: LabelTable, source: TableSeries, matchers: Sequence[Matcher], field: str | None) -> LabelTable:
    """Add the label of the field if a table has several, as answers to queries do."""
    if field is None:
        return labels
    chosen = split_matchers(matchers, source.database)
    several = {
        table.name for table in find_tables(source.catalog, chosen) if len(chosen_columns(table, chosen.fields)) > 1
    }
    texts = [field if name in several else "" for name in labels.column(NAME_LABEL).texts()]
    return labels.with_column(FIELD_LABEL, LabelColumn.of_texts(texts))


@dataclass(frozen=True, slots=True)
class SeriesCounts:
    """How many series a database has, and what they have most of."""

    series: int
    label_pairs: int
    by_metric: list[tuple[str, int]]
    values_by_label: list[tuple[str, int]]
    bytes_by_label: list[tuple[str, int]]
    by_pair: list[tuple[str, int]]


def count_series(source: TableSeries, *, most: int, skipped: int = 0) -> SeriesCounts:
    """Count the series of a database by what their labels say; the lists have `most` entries behind those skipped."""

    def page(counted: Counter[str]) -> list[tuple[str, int]]:
        return nsmallest(skipped + most, counted.items(), key=lambda each: (-each[1], each[0]))[skipped:]

    table = find_series(source, [()], ALL_TIME)
    values, sizes, pairs = Counter[str](), Counter[str](), Counter[str]()
    by_metric: list[tuple[str, int]] = []
    for name, column in table.columns.items():
        source.check()
        counts = np.bincount(column.codes, minlength=len(column.values))
        used = [(column.values[code], int(counts[code])) for code in np.flatnonzero(counts).tolist() if code]
        values[name], sizes[name] = len(used), sum(len(text.encode()) for text, _ in used)
        for text, count in used:
            pairs[f"{name}={text}"] = count
        if name == NAME_LABEL:
            by_metric = page(Counter(dict(used)))
    return SeriesCounts(
        table.rows,
        len(pairs),
        by_metric,
        page(values),
        page(sizes),
        page(pairs),
    )

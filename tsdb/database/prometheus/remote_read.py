"""Prometheus remote read: the series of a metric that match, as an encoded `QueryResult`.

Any table with a value is a metric: one of the metric engine, or an ordinary one whose only field, or field
`tsdb_value`, is a number. Matchers are decided on the distinct values of a tag, before any row is read. Series come in
the order of their labels; labels with an empty value do not exist for Prometheus, so series that differ in nothing else
become one. A row with a native histogram is a sample of that kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb import _kernels
from tsdb.database._services import Services
from tsdb.engine.reading import Conditions, SeriesRequest, SeriesRows, TagMatch
from tsdb.errors import InvalidArguments
from tsdb.ingest.prometheus import VALUE_COLUMN
from tsdb.ingest.prometheus_read import ReadQuery
from tsdb.model import (
    HISTOGRAM_COLUMN,
    METRIC_LABELS,
    ColumnInfo,
    Matcher,
    RegionId,
    TableInfo,
    TimeRange,
    encode_labels,
    matches_empty,
)
from tsdb.query import Session, matching_regions

Positions = npt.NDArray[np.int64]

_PER_MILLISECOND = {"us": 1_000, "ns": 1_000_000}


def read_remote(services: Services, queries: Sequence[ReadQuery], session: Session) -> list[bytes]:
    """Answer queries, each with an encoded result; a metric that there is not has no series."""
    return [_answer(services, query, session) for query in queries]


def _answer(services: Services, query: ReadQuery, session: Session) -> bytes:
    database = query.database or session.database
    if session.identity is not None:
        session.identity.check_read(database)
    if query.database is not None:
        services.catalog.database(database)
    table = services.catalog.find_table(database, query.metric)
    # A physical table is no metric: its rows are those of the metrics on it.
    if table is None or table.is_physical or query.start_ms > query.end_ms:
        return b""
    value = _value_column(table)
    wanted = _series_filter(table, query.matchers)
    regions = matching_regions(services.catalog.stored_in(table), wanted)
    found = [_read(services, table, region, value, query, wanted) for region in regions]
    if not found:
        # It shows a file and has no regions.
        return b""
    rows = _lay_out(_Rows.of(each, table, value) for each in found)
    try:
        return _kernels.encode_read_result(
            query.metric, rows.labels, pa.array(rows.offsets), pa.array(rows.times), rows.values, rows.histograms
        )
    except _kernels.MalformedInput as error:
        raise InvalidArguments(
            f"a row of table {table.name} has no native histogram in {HISTOGRAM_COLUMN}: {error}"
        ) from None


def _value_column(table: TableInfo) -> ColumnInfo:
    fields = table.value_fields
    if len(fields) != 1:
        fields = tuple(field for field in fields if field.name == VALUE_COLUMN)
    if not fields:
        raise InvalidArguments(f"table {table.name} has several fields and none is called {VALUE_COLUMN}")
    if not (pa.types.is_floating(fields[0].type.arrow) or pa.types.is_integer(fields[0].type.arrow)):
        raise InvalidArguments(
            f"the field {fields[0].name} of table {table.name} is {fields[0].type.name}, and no number"
        )
    return fields[0]


def _read(
    services: Services, table: TableInfo, region: RegionId, value: ColumnInfo, query: ReadQuery, wanted: Conditions
) -> SeriesRows:
    fields = [value.name] if table.histogram is None else [value.name, HISTOGRAM_COLUMN]
    span = _time_range(query, table.time_index.type.arrow.unit)
    reader = services.regions.open_reader(region, view=table.view)
    try:
        return reader.series(SeriesRequest(wanted, span, fields))
    finally:
        reader.release()


def _time_range(query: ReadQuery, unit: str) -> TimeRange:
    if unit == "s":
        span = TimeRange(-(-query.start_ms // 1000), query.end_ms // 1000 + 1)
    else:
        factor = _PER_MILLISECOND.get(unit, 1)
        span = TimeRange(query.start_ms * factor, (query.end_ms + 1) * factor)
    return TimeRange.ALL.intersection(span)


def _series_filter(table: TableInfo, matchers: Iterable[Matcher]) -> Conditions:
    """Return the condition on tags; a matcher of a label that the table lacks decides over all series."""
    tags = {tag.name for tag in table.tags}
    known = [matcher for matcher in matchers if matcher.name in tags]
    is_none = any(matcher.name not in tags and not matches_empty(matcher) for matcher in matchers)
    return Conditions(TimeRange(0, 0) if is_none else TimeRange.ALL, tuple(TagMatch(matcher) for matcher in known))


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows series by series: those of series i are `offsets[i]` to `offsets[i + 1]`."""

    labels: pa.Array
    offsets: Positions
    times: Positions
    values: pa.Array
    """NaN where the sample is a histogram."""
    histograms: pa.Array | None
    """Null where the sample is a float; None for a table without histograms."""

    @classmethod
    def of(cls, rows: SeriesRows, table: TableInfo, value: ColumnInfo) -> _Rows:
        """Take what was read, without the rows that have neither value nor histogram."""
        times = _milliseconds(rows.times, table.time_index.type.arrow.unit)
        values, offsets = rows.fields[value.name].cast(pa.float64()), rows.offsets
        histograms = rows.fields.get(HISTOGRAM_COLUMN)
        if histograms is not None:
            values = pc.if_else(histograms.is_valid(), np.nan, values)
        if values.null_count:
            valid = values.is_valid()
            kept = valid.to_numpy(zero_copy_only=False)
            before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
            times, values, offsets = times[kept], values.drop_null(), before[offsets]
            histograms = None if histograms is None else histograms.filter(valid)
        return cls(_labels(rows.tags, table), offsets, times, values, histograms)


def _milliseconds(times: Positions, unit: str) -> Positions:
    return times * 1000 if unit == "s" else times // _PER_MILLISECOND.get(unit, 1)


def _labels(tags: pa.RecordBatch, table: TableInfo) -> pa.Array:
    """Return the labels as texts, without those that are empty."""
    if table.is_logical:
        texts = _plain(tags.column(METRIC_LABELS))
        if not pc.any(pc.match_substring(texts, "\x01\x00")).as_py():
            return texts
    columns = {tag.name: _plain(tags.column(tag.name)).cast(pa.string()) for tag in table.tags}
    none = pa.scalar(None, pa.string())
    return encode_labels(
        {name: pc.if_else(pc.equal(column, ""), none, column) for name, column in columns.items()}, tags.num_rows
    )


def _lay_out(parts: Iterable[_Rows]) -> _Rows:
    """Put parts together in the order of labels, series that are equal into one, rows in the order of time."""
    many = list(parts)
    labels = pa.concat_arrays([part.labels for part in many])
    order = np.asarray(pc.array_sort_indices(labels), np.int64)
    counts = np.concatenate([np.diff(part.offsets) for part in many])
    times = np.concatenate([part.times for part in many])
    values = pa.concat_arrays([part.values for part in many])
    found = [part.histograms for part in many if part.histograms is not None]
    histograms = pa.concat_arrays(found) if found else None
    encoded = labels.dictionary_encode()
    if len(encoded.dictionary) == len(labels) and bool((order == np.arange(len(order))).all()):
        return _without_empty(labels, counts, times, values, histograms)
    # Equal labels share a rank; rows go by rank, then by time, which is enough to make equal series one.
    ranks = np.asarray(pc.rank(labels, tiebreaker="dense"), np.int64) - 1
    row_ranks = np.repeat(ranks, counts)
    rows = np.lexsort((times, row_ranks))
    first = np.zeros(len(encoded.dictionary), np.int64)
    first[ranks] = np.arange(len(labels))
    totals = np.bincount(row_ranks, minlength=len(first)).astype(np.int64)
    chosen = pa.array(rows)
    histograms = None if histograms is None else histograms.take(chosen)
    return _without_empty(labels.take(pa.array(first)), totals, times[rows], values.take(chosen), histograms)


def _without_empty(
    labels: pa.Array, counts: Positions, times: Positions, values: pa.Array, histograms: pa.Array | None
) -> _Rows:
    """Leave out series that have no row."""
    if len(counts) and not counts.all():
        labels, counts = labels.filter(pa.array(counts > 0)), counts[counts > 0]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return _Rows(labels, offsets, times, values, histograms)

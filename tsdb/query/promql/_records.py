"""The answer of a PromQL query as rows: a column for the time, one for each value, one for each label."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.errors import Unsupported
from tsdb.model import TableInfo
from tsdb.promql import Aggregation, Expr, VectorSelector, parse_promql, walk
from tsdb.promql.evaluation import Answer, LabelTable, Natives, Scalar, Vector, concat_labels, format_float
from tsdb.query.promql._engine import PromqlEngine, QueryTimes, fields_of
from tsdb.query.promql._shape import ExpressionColumns, shape_of
from tsdb.query.promql._source import TableSeries
from tsdb.query.promql._tables import find_tables, split_matchers

_TIME_TYPE = pa.timestamp("ms")


def rows_of(
    engine: PromqlEngine, text: str, source: TableSeries, span: QueryTimes, alias: str | None = None
) -> pa.Table:
    """Evaluate a query and return its rows."""
    expr = parse_promql(text)

    def find_table(selector: VectorSelector) -> TableInfo | None:
        found = find_tables(source.catalog, split_matchers(selector.matchers, source.database))
        return found[0] if len(found) == 1 else None

    shape = shape_of(expr, find_table)
    if alias is not None:
        values = (alias,) if len(shape.values) == 1 else tuple(f"{alias}_{each}" for each in shape.values)
        shape = replace(shape, values=values, layout="aliased")
    fields = fields_of(expr, source)
    if len(fields) > 1 and any(isinstance(node, Aggregation) and node.op == "group" for node in walk(expr)):
        raise Unsupported("Multi fields calculation is not supported in group()")
    sources = [replace(source, field=field) for field in fields] if len(fields) > 1 else [source]
    vectors = [_vector_of(engine, expr, text, each, span) for each in sources]
    return _table(vectors, _fit(shape, len(vectors)), _times(span))


def _times(span: QueryTimes) -> npt.NDArray[np.int64]:
    return np.arange(span.start_ms, span.end_ms + 1, max(span.step_ms, 1), dtype=np.int64)


def _fit(shape: ExpressionColumns, count: int) -> ExpressionColumns:
    """Let there be a name for each value."""
    if len(shape.values) == count:
        return shape
    values = (*shape.values, *(f"value_{number}" for number in range(count)))[:count]
    return replace(shape, values=values)


def _vector_of(engine: PromqlEngine, expr: Expr, text: str, source: TableSeries, span: QueryTimes) -> Vector:
    answer: Answer = engine.evaluate(expr, text, source, span)
    value = answer.value
    if isinstance(value, Scalar):
        return Vector.single({}, value.values)
    assert isinstance(value, Vector)
    return value


def _table(vectors: list[Vector], shape: ExpressionColumns, times: npt.NDArray[np.int64]) -> pa.Table:
    """Put the values of each series and step into a row; without a value for any field there is none."""
    labels = concat_labels([vector.labels.without(("__name__", "__field__")) for vector in vectors])
    groups, first = labels.group()
    steps = len(times)
    values = np.zeros((len(vectors), len(first), steps))
    present = np.zeros((len(vectors), len(first), steps), np.bool_)
    cells = np.full((len(vectors), len(first), steps), -1, np.int32)
    position = 0
    for number, vector in enumerate(vectors):
        rows = groups[position : position + vector.rows]
        values[number, rows], present[number, rows] = vector.values, vector.present
        if vector.natives is not None:
            cells[number, rows] = vector.natives.cells
        position += vector.rows
    has = present.any(axis=0)
    series, step = np.nonzero(has)
    columns: dict[str, pa.Array] = {shape.time: pa.array(times[step], pa.int64()).cast(_TIME_TYPE)}
    for number, name in enumerate(shape.values):
        natives = vectors[number].natives
        if natives is None:
            columns[name] = pa.array(values[number][has], mask=~present[number][has], from_pandas=False)
        else:
            plane = Natives(natives.pool, cells[number][has])
            columns[name] = _texts(values[number][has], present[number][has], plane)
    columns |= _label_columns(labels.take(first), shape, series)
    order = [name for name in shape.columns() if name in columns]
    order += [name for name in columns if name not in order]
    return pa.table({name: columns[name] for name in order})


def _texts(values: npt.NDArray[np.float64], present: npt.NDArray[np.bool_], natives: Natives) -> pa.Array:
    """Return a column in which there are native histograms, as text; numbers among them are text, too."""
    shown = natives.pool.texts(pa.array(natives.cells))
    rows = zip(values.tolist(), present.tolist(), shown, strict=True)
    return pa.array([(text or format_float(value)) if has else None for value, has, text in rows], pa.string())


def _label_columns(labels: LabelTable, shape: ExpressionColumns, series: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
    names = [*shape.tags, *(name for name in sorted(labels.columns) if name not in shape.tags)]
    columns = {}
    for name in names:
        column = labels.column(name)
        if name not in shape.tags and not (shape.is_open and column.codes.any()):
            continue
        texts = pa.array([value or None for value in column.values], pa.string())
        columns[name] = texts.take(pa.array(column.codes[series]))
    return columns

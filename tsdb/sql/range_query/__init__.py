"""Range queries as text: `SELECT agg(v) RANGE '5m' FILL PREV … FROM t ALIGN '1m' TO … BY (…)` cut into its parts.

Pure: nothing is planned and nothing is read. `find_range` finds the range query that must be evaluated first, so that a
statement with several is finished by evaluating and replacing one at a time. `tsdb.query.range` evaluates.
"""

from tsdb.sql.range_query._duration import check_span_ms
from tsdb.sql.range_query._errors import RangeExecutionError, RangePlanError
from tsdb.sql.range_query._find import find_range
from tsdb.sql.range_query._model import (
    AlignOrigin,
    Fill,
    FillKind,
    Item,
    RangeCall,
    RangeExpression,
    RangeQuery,
    Span,
)

__all__ = [
    "AlignOrigin",
    "Fill",
    "FillKind",
    "Item",
    "RangeCall",
    "RangeExecutionError",
    "RangeExpression",
    "RangePlanError",
    "RangeQuery",
    "Span",
    "check_span_ms",
    "find_range",
]

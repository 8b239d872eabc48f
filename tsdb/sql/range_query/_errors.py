"""Errors of range queries beyond their grammar."""

from tsdb.errors import InvalidArguments, Status


class RangePlanError(InvalidArguments):
    """The query is well formed but cannot be planned: a length of zero, a fill that does not fit its column."""

    status = Status.PLAN_QUERY


class RangeExecutionError(InvalidArguments):
    """The query uses a column that its result does not have."""

    status = Status.ENGINE_EXECUTE_QUERY

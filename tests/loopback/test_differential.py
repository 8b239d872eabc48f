"""`tests/query/series_aggregate/test_differential.py` over readers that encode everything."""

from tests.query.series_aggregate.test_differential import *  # noqa: F403

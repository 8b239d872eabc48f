"""`tests/query/selection/test_selection.py` over readers that encode everything."""

from tests.query.selection.test_selection import *  # noqa: F403

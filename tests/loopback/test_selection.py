"""`tests/query/test_selection.py` over readers that encode everything."""

from tests.query.test_selection import *  # noqa: F403

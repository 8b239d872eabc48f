"""Remote read over readers that encode everything."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.servers.http.test_prometheus_remote import (  # noqa: F401
    filled,
    test_a_label_that_came_after_a_flush_is_empty_in_what_was_written_before,
    test_a_label_with_an_empty_value_does_not_exist_for_readers,
    test_an_ordinary_table_of_another_unit_is_read_in_milliseconds,
    test_both_ends_of_the_range_are_included,
    test_series_come_sorted_by_their_labels_with_all_samples,
    world,
)


def test_queries_come_through_the_readers(filled: Any, verbs: Counter[str]) -> None:  # noqa: F811
    verbs.clear()
    test_both_ends_of_the_range_are_included(filled)
    assert "series" in verbs

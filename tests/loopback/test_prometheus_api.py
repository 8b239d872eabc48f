"""Queries of the Prometheus API over readers that encode everything."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.servers.http.test_prometheus_api import (  # noqa: F401
    test_a_range_query_gives_a_matrix_in_the_order_of_labels,
    test_an_instant_query_gives_a_vector,
    test_fields_of_a_table_are_told_apart_by_a_label,
    test_native_histograms_come_beside_numbers,
    test_promql_is_also_answered_like_sql,
    test_series_and_their_labels_can_be_browsed,
    test_what_there_is_not_is_an_empty_answer,
    world,
)


def test_queries_come_through_the_readers(world: Any, verbs: Counter[str]) -> None:  # noqa: F811
    verbs.clear()
    test_an_instant_query_gives_a_vector(world)
    test_series_and_their_labels_can_be_browsed(world)
    test_native_histograms_come_beside_numbers(world)
    assert {"known_series", "samples", "series", "list_series"} <= verbs.keys()

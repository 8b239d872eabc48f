"""Labels and answers as JSON: what any JSON reader reads is what was written."""

from __future__ import annotations

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from tsdb.promql.evaluation import LabelTable
from tsdb.servers._prometheus_json import encode_labels

_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
_values = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@settings(deadline=None)
@given(st.lists(st.dictionaries(_names, _values, max_size=4), max_size=6))
def test_labels_read_back_as_they_are(rows: list[dict[str, str]]) -> None:
    table = LabelTable.of_dicts(rows)
    found = [orjson.loads(text) for text in encode_labels(table).to_pylist()]
    assert found == [{name: value for name, value in row.items() if value} for row in rows]


def test_series_without_any_label_are_empty_objects() -> None:
    assert encode_labels(LabelTable.empty(2)).to_pylist() == ["{}", "{}"]
    assert encode_labels(LabelTable.of_dicts([{}, {"a": ","}])).to_pylist() == ["{}", '{"a":","}']

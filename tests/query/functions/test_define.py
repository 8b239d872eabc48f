"""What every function stands on: distinct values are worked on once, and the answer is that of every single row."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.query.functions.asking import column
from tsdb.errors import Reason, Status
from tsdb.query.functions import FunctionError, function_error
from tsdb.query.functions._define import by_distinct, map_distinct, map_rows, to_integers

_KEYS = st.lists(st.sampled_from(["a", "b", "c", None]), max_size=30)


@given(_KEYS)
def test_by_distinct_puts_every_row_back_in_its_place(keys: list[str | None]) -> None:
    values = pa.array([f"v{row}" for row in range(len(keys))], pa.string())

    def prefix(part: pa.Array, key: str) -> pa.Array:
        return pa.array([key + text for text in part.to_pylist()], pa.string())

    joined = by_distinct(values, pa.array(keys, pa.string()), pa.string(), prefix)
    assert joined.to_pylist() == [None if key is None else f"{key}v{row}" for row, key in enumerate(keys)]


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("rows", [1, 2, 511, 512, 513, 4000])
def test_mapping_gives_the_same_whether_values_repeat_or_not(rows: int, repeats: int) -> None:
    texts = pa.array([None if row % 7 == 0 else str(row // repeats) for row in range(rows)], pa.string())
    numbers = pa.array([row // repeats for row in range(rows)])
    expected = [None if row % 7 == 0 else f"{row // repeats}!" for row in range(rows)]
    assert map_distinct(texts, pa.string(), lambda text: text + "!").to_pylist() == expected
    joined = map_rows(pa.string(), lambda text, number: f"{text}-{number}", texts, numbers)
    assert joined.to_pylist() == [None if row % 7 == 0 else f"{row // repeats}-{row // repeats}" for row in range(rows)]


def test_distinct_values_are_converted_once() -> None:
    seen: list[str] = []

    def convert(text: str) -> int:
        seen.append(text)
        return len(text)

    assert map_distinct(pa.array(["x", "yy"] * 2000), pa.int64(), convert).to_pylist() == [1, 2] * 2000
    assert seen == ["x", "yy"]


def test_numbers_that_are_no_integers_become_null() -> None:
    numbers = pa.array([1.9, -1.9, 1e30, float("nan"), float("inf"), None])
    assert to_integers(numbers).to_pylist() == [1, -1, None, None, None, None]


def test_an_error_keeps_its_message_through_the_query_engine() -> None:
    error = FunctionError('it\'s "wrong" (really)', hint="look")
    assert error.status is Status.ENGINE_EXECUTE_QUERY
    assert function_error(f"wrapped: PyErr {{ value: {error!r}, … }}") == (
        'it\'s "wrong" (really); look',
        Reason.INVALID_PARAMETER,
    )
    assert function_error("another error") is None


def test_dictionary_and_view_columns_are_taken_as_strings() -> None:
    texts = pa.array(["a dog", "a cat", "a dog"])
    for kind in (pa.dictionary(pa.int32(), pa.string()), pa.string_view(), pa.large_string()):
        assert column("matches_term(s, 'dog')", pa.table({"s": texts.cast(kind)})) == [True, False, True]

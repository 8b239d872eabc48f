"""Vectors: stored and written, one by one and in groups."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.query.functions.asking import ask, check, column, error, value
from tsdb.query.functions._vectors import parse_vectors, read_vectors, write_vectors


def stored(*elements: float) -> bytes:
    return struct.pack(f"<{len(elements)}f", *elements)


CASES = [
    ("parse_vec('[1, 2.5,-3]')", stored(1, 2.5, -3)),
    ("parse_vec('[]')", b""),
    ("parse_vec(' [ +1 ] ')", stored(1)),
    ("parse_vec(NULL)", None),
    ("vec_to_string(parse_vec('[1.0, 2.50]'))", "[1,2.5]"),
    ("vec_to_string('[]')", "[]"),
    ("vec_to_string('[1e20, 1e-7, -1e9]')", "[100000000000000000000,0.0000001,-1000000000]"),
    ("vec_to_string('[0.1, inf, -inf, NaN]')", "[0.1,inf,-inf,NaN]"),
    ("vec_to_string(NULL)", None),
    ("vec_dim('[1,2,3]')", 3),
    ("vec_dim('[]')", 0),
    ("vec_to_string(vec_add('[1,2]', parse_vec('[3,4]')))", "[4,6]"),
    ("vec_to_string(vec_sub(parse_vec('[1,2]'), '[3,5]'))", "[-2,-3]"),
    ("vec_to_string(vec_mul('[1,2]', '[3,4]'))", "[3,8]"),
    ("vec_to_string(vec_div('[1,0]', '[0,0]'))", "[inf,NaN]"),
    ("vec_add('[1]', NULL)", None),
    ("vec_to_string(vec_scalar_add(0.5, '[1,2]'))", "[1.5,2.5]"),
    ("vec_to_string(vec_scalar_mul(-2, '[1,2]'))", "[-2,-4]"),
    ("vec_scalar_mul(NULL, '[1,2]')", None),
    ("vec_elem_sum('[1,2,3]')", 6.0),
    ("vec_elem_avg('[1,2,3]')", 2.0),
    ("vec_elem_avg('[]')", 0.0),
    ("vec_elem_product('[2,3,-4]')", -24.0),
    ("vec_to_string(vec_norm('[3,4]'))", "[0.6,0.8]"),
    ("vec_cos_distance('[1,0]', '[0,2]')", 1.0),
    ("vec_cos_distance('[1,1]', '[2,2]')", 0.0),
    ("vec_cos_distance('[1,1]', '[0,0]')", 1.0),
    ("vec_l2sq_distance('[1,1]', '[4,5]')", 25.0),
    ("vec_dot_product('[1,2]', '[3,4]')", 11.0),
    ("vec_kth_elem('[7,8,9]', 2)", 9.0),
    ("vec_kth_elem(NULL, 2)", None),
    ("vec_to_string(vec_subvector('[1,2,3,4]', 1, 3))", "[2,3]"),
    ("vec_to_string(vec_subvector('[1,2]', 2, 2))", "[]"),
]


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=[case[0] for case in CASES])
def test_vector_function_gives(expression: str, expected: object) -> None:
    check(expression, expected)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("parse_vec('1,2')", "'1,2'"),
        ("parse_vec('[1,x]')", "'x'"),
        ("parse_vec('[1,,2]')", "not a number"),
        ("vec_dim('[1')", "not enclosed"),
        ("vec_dim(1.5)", "not enclosed"),
        ("vec_cos_distance('[1,2]', '[1]')", "vectors length not match"),
        ("vec_add('[1,2]', parse_vec('[1]'))", "2 and 1"),
        ("vec_kth_elem('[1,2]', 2)", "no element 2"),
        ("vec_kth_elem('[1,2]', -1)", "no element -1"),
        ("vec_subvector('[1,2]', 1, 3)", "1 to 3"),
        ("vec_subvector('[1,2]', 2, 1)", "2 to 1"),
    ],
)
def test_vector_function_refuses(expression: str, named: str) -> None:
    assert named in error(expression)


def test_rows_may_be_null_and_differ_in_dimension() -> None:
    table = pa.table({"v": ["[1,2]", None, "[3]", "[]"], "w": [stored(1, 1), stored(9), None, b""]})
    assert column("vec_elem_sum(v)", table) == [3.0, None, 3.0, 0.0]
    assert column("vec_to_string(vec_add(v, w))", table) == ["[2,3]", None, None, "[]"]
    assert column("vec_dot_product(w, v)", table) == [3.0, None, None, 0.0]
    assert column("vec_dim(w)", table) == [2, 1, None, 0]


def test_slices_of_columns_read_their_own_rows() -> None:
    rows = pa.array([stored(n, n + 1) for n in range(5)], pa.binary()).slice(2, 2)
    assert write_vectors(read_vectors(rows, call="f")).to_pylist() == ["[2,3]", "[3,4]"]


def test_aggregates_work_on_groups_and_skip_nulls() -> None:
    table = pa.table({"g": [1, 1, 2, 2, 3], "v": ["[1,2]", "[3,4]", "[5]", None, None]})
    query = "SELECT g, {}(v) AS r FROM t GROUP BY g ORDER BY g"
    expected: dict[str, list[Any]] = {
        "vec_sum": [stored(4, 6), stored(5), None],
        "vec_avg": [stored(2, 3), stored(5), None],
        "vec_product": [stored(3, 8), stored(5), None],
    }
    for name, rows in expected.items():
        assert ask(query.format(name), table=table).column("r").to_pylist() == rows


def test_aggregates_keep_their_header_and_clauses() -> None:
    table = pa.table({"g": [1, 1, 2], "v": ["[1]", "[2]", "[4]"]})
    filtered = ask("SELECT vec_to_string(vec_sum(v) FILTER (WHERE g = 1)) FROM t", table=table)
    assert filtered.to_pydict() == {"vec_to_string(vec_sum(t.v) FILTER (WHERE t.g = Int64(1)))": ["[3]"]}
    over = ask("SELECT vec_to_string(vec_sum(v) OVER (PARTITION BY g, g)) FROM t ORDER BY v", table=table)
    assert over.column(0).to_pylist() == ["[3]", "[3]", "[4]"]
    assert over.column_names[0].startswith("vec_to_string(vec_sum(t.v) PARTITION BY [t.g, t.g] ROWS")


def test_aggregate_refuses_a_group_of_different_dimensions() -> None:
    with pytest.raises(Exception, match="vectors length not match"):
        ask("SELECT vec_sum(v) FROM t", table=pa.table({"v": ["[1]", "[1,2]"]}))


@given(st.lists(st.none() | st.lists(st.floats(width=32, allow_nan=False), max_size=4), min_size=1))
def test_what_is_written_reads_back_the_same(rows: list[list[float] | None]) -> None:
    array = pa.array([None if row is None else stored(*row) for row in rows], pa.binary())
    vectors = read_vectors(array, call="f")
    written = write_vectors(vectors)
    assert parse_vectors(written, call="f").to_array().equals(vectors.to_array())
    assert vectors.to_array().to_pylist() == array.to_pylist()


def test_bytes_that_spell_a_vector_are_elements_unless_all_rows_do() -> None:
    odd = b"[12]"
    vectors = read_vectors(pa.array([odd, stored(1.5)], pa.binary()), call="f")
    assert vectors.elements.tolist() == [np.frombuffer(odd, "<f4")[0], 1.5]


def test_many_rows_against_a_constant() -> None:
    numbers = np.random.default_rng(7).random((5000, 8), np.float32)
    table = pa.table({"v": pa.array([row.tobytes() for row in numbers], pa.binary())})
    found = column("vec_l2sq_distance(v, '[1,0,0,0,0,0,0,0]')", table)
    expected = ((numbers - np.eye(1, 8, dtype=np.float32)) ** 2).sum(1)
    assert np.allclose(found, expected, rtol=1e-5)
    assert value("vec_l2sq_distance('[1]', '[1]')") == 0.0

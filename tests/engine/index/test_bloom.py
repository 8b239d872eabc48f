"""Filters as they are built: the bits that readers of them look for, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from tsdb.engine.index._bloom import _make_filter, _positions, may_have


@pytest.mark.parametrize("rate", [1.0, 0.5, 0.01, 0.000_01])
@pytest.mark.parametrize("distinct", [1, 3, 1000])
@pytest.mark.parametrize("rows", [1, 100, 10_240])
def test_a_filter_has_the_bits_of_its_values_and_no_others(rows: int, distinct: int, rate: float) -> None:
    random = np.random.default_rng(rows)
    values = random.integers(0, 1 << 64, (2, distinct), dtype=np.uint64)
    first, second = values[:, random.integers(0, distinct, rows)]
    count, content = _make_filter(first, second, rate)
    bits = np.frombuffer(content, np.uint8)
    assert may_have(bits, count, (first, second)).all()
    expected = np.zeros(8 * len(bits), np.bool_)
    expected[_positions(first, second, count, 8 * len(bits))] = True
    assert np.array_equal(np.unpackbits(bits, bitorder="little").astype(np.bool_), expected)

"""The cache of decoded labels: found by series, bounded by bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tsdb.engine.scan.snapshot.decoded_labels import DecodedLabels
from tsdb.model import encode_labels


def _hashes(first: int, count: int) -> np.ndarray:
    return np.arange(first, first + count, dtype=np.uint64)


def test_columns_of_the_same_series_are_decoded_once() -> None:
    cache = DecodedLabels(1 << 20)
    texts = encode_labels({"host": pa.array(["a", "b"])}, 2)
    first = cache.columns(_hashes(0, 2), _hashes(9, 2), texts, ["host"])
    assert first["host"].to_pylist() == ["a", "b"]
    assert cache.columns(_hashes(0, 2), _hashes(9, 2), texts, ["host"]) is first


def test_other_series_and_other_labels_are_not_mixed_up() -> None:
    cache = DecodedLabels(1 << 20)
    texts = encode_labels({"host": pa.array(["a"]), "job": pa.array(["j"])}, 1)
    others = encode_labels({"host": pa.array(["b"])}, 1)
    assert cache.columns(_hashes(0, 1), _hashes(0, 1), texts, ["host"])["host"].to_pylist() == ["a"]
    assert cache.columns(_hashes(0, 1), _hashes(0, 1), texts, ["job"])["job"].to_pylist() == ["j"]
    assert cache.columns(_hashes(0, 1), _hashes(1, 1), others, ["host"])["host"].to_pylist() == ["b"]


def test_what_was_used_longest_ago_goes_first() -> None:
    texts = encode_labels({"host": pa.array(["a" * 100])}, 1)
    size = DecodedLabels(1 << 20)
    size.columns(_hashes(0, 1), _hashes(0, 1), texts, ["host"])
    cache = DecodedLabels(2 * size.nbytes)
    kept = [cache.columns(_hashes(at, 1), _hashes(0, 1), texts, ["host"]) for at in range(2)]
    assert cache.columns(_hashes(0, 1), _hashes(0, 1), texts, ["host"]) is kept[0]
    cache.columns(_hashes(2, 1), _hashes(0, 1), texts, ["host"])
    assert cache.nbytes <= 2 * size.nbytes
    assert cache.columns(_hashes(0, 1), _hashes(0, 1), texts, ["host"]) is kept[0]
    assert cache.columns(_hashes(1, 1), _hashes(0, 1), texts, ["host"]) is not kept[1]


def test_columns_larger_than_the_cache_are_not_kept() -> None:
    cache = DecodedLabels(8)
    texts = encode_labels({"host": pa.array(["a" * 100])}, 1)
    assert cache.columns(_hashes(0, 1), _hashes(0, 1), texts, ["host"])["host"].to_pylist() == ["a" * 100]
    assert cache.nbytes == 0


def test_less_is_kept_while_memory_is_short() -> None:
    texts = encode_labels({"host": pa.array(["a" * 100])}, 1)
    cache = DecodedLabels(1 << 20)
    for at in range(4):
        cache.columns(_hashes(at, 1), _hashes(0, 1), texts, ["host"])
    full = cache.nbytes
    cache.resize(full)
    cache.limit_memory(0.5)
    assert list(cache.memory_use()) == [("decoded_labels", full // 2, full // 2)]
    cache.limit_memory(1.0)
    for at in range(4):
        cache.columns(_hashes(at, 1), _hashes(0, 1), texts, ["host"])
    assert cache.nbytes == full

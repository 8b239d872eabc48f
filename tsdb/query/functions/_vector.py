"""Functions of vectors. They calculate with 32-bit floats, as the elements are; angles and aggregates with doubles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.query.functions._define import NUMBER, STRING, Function, FunctionError, function
from tsdb.query.functions._vectors import (
    Floats,
    Integers,
    VectorColumn,
    floats,
    parse_vectors,
    read_vectors,
    write_vectors,
)

VECTOR = pa.binary()
FLOAT = pa.float32()

Doubles = npt.NDArray[np.float64]


@function("parse_vec", [STRING], VECTOR)
def parse_vec(texts: pa.Array) -> pa.Array:
    return parse_vectors(texts, call="parse_vec").to_array()


@function("vec_to_string", [VECTOR], STRING)
def vec_to_string(values: pa.Array) -> pa.Array:
    return write_vectors(read_vectors(values, call="vec_to_string"))


@function("vec_dim", [VECTOR], pa.uint64())
def vec_dim(values: pa.Array) -> pa.Array:
    vectors = read_vectors(values, call="vec_dim")
    return pa.array(vectors.dimensions.astype(np.uint64), mask=~vectors.is_valid)


def _pairs(call: str, left: pa.Array, right: pa.Array) -> tuple[VectorColumn, VectorColumn]:
    """Read two columns of vectors; a row is null in both if it is in one."""
    first, second = read_vectors(left, call=call), read_vectors(right, call=call)
    first, second = first.keep(second.is_valid), second.keep(first.is_valid)
    if (differ := first.dimensions != second.dimensions).any():
        row = int(np.flatnonzero(differ)[0])
        sizes = f"{first.dimensions[row]} and {second.dimensions[row]}"
        raise FunctionError(f"vectors length not match: {call} got vectors of {sizes} elements")
    return first, second


def _element_wise(name: str, apply: Callable[[Floats, Floats], Floats]) -> Function:
    def body(left: pa.Array, right: pa.Array) -> pa.Array:
        first, second = _pairs(name, left, right)
        with np.errstate(all="ignore"):
            return first.with_elements(apply(first.elements, second.elements)).to_array()

    return Function(name, (VECTOR, VECTOR), VECTOR, body)


def _distance(name: str, fold: Callable[[Floats, Floats], Any]) -> Function:
    def body(left: pa.Array, right: pa.Array) -> pa.Array:
        first, second = _pairs(name, left, right)
        both = VectorColumn(np.arange(len(first.elements)), first.offsets, first.is_valid)  # type: ignore[arg-type]

        def fold_rows(places: Any) -> Any:
            return fold(first.elements[places], second.elements[places])

        with np.errstate(all="ignore"):
            return floats(both.reduce(fold_rows), first.is_valid)

    return Function(name, (VECTOR, VECTOR), FLOAT, body)


def _cos_distance(first: Floats, second: Floats) -> Doubles:
    """1 minus the cosine of the angle; a vector of zeros has no direction and is at distance 1 from all."""
    left, right = first.astype(np.float64), second.astype(np.float64)
    norms = np.sqrt((left**2).sum(1) * (right**2).sum(1))
    return np.where(norms == 0, 1.0, 1.0 - (left * right).sum(1) / norms)


def _fold(name: str, fold: Callable[[Floats], Any]) -> Function:
    def body(values: pa.Array) -> pa.Array:
        vectors = read_vectors(values, call=name)
        with np.errstate(all="ignore"):
            return floats(vectors.reduce(fold), vectors.is_valid)

    return Function(name, (VECTOR,), FLOAT, body)


def _average(matrix: Floats) -> Any:
    """The mean of no elements is 0, as their sum is."""
    return matrix.sum(1) / max(matrix.shape[1], 1)


@function("vec_norm", [VECTOR], VECTOR)
def vec_norm(values: pa.Array) -> pa.Array:
    vectors = read_vectors(values, call="vec_norm")
    lengths: Floats = vectors.reduce(lambda matrix: np.sqrt((matrix**2).sum(1))).astype(np.float32)
    with np.errstate(all="ignore"):
        divided: Floats = np.divide(vectors.elements, np.repeat(lengths, vectors.dimensions))
    return vectors.with_elements(divided).to_array()


def _by_scalar(name: str, apply: Callable[[Floats, Floats], Floats]) -> Function:
    def body(numbers: pa.Array, values: pa.Array) -> pa.Array:
        vectors = read_vectors(values, call=name).keep(numbers.is_valid().to_numpy(zero_copy_only=False))
        with np.errstate(all="ignore"):
            scalars = numbers.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float32)
            repeated = np.repeat(scalars, vectors.dimensions)
            return vectors.with_elements(apply(vectors.elements, repeated)).to_array()

    return Function(name, (NUMBER, VECTOR), VECTOR, body)


def _positions(numbers: pa.Array) -> Integers:
    """Whole numbers; anything beyond what a vector can have becomes a position no vector has."""
    doubles = numbers.fill_null(0.0).to_numpy(zero_copy_only=False)
    positions: Integers = np.clip(np.nan_to_num(np.trunc(doubles), nan=-1.0), -1, 2**31).astype(np.int64)
    return positions


@function("vec_kth_elem", [VECTOR, NUMBER], FLOAT)
def vec_kth_elem(values: pa.Array, numbers: pa.Array) -> pa.Array:
    vectors = read_vectors(values, call="vec_kth_elem").keep(numbers.is_valid().to_numpy(zero_copy_only=False))
    positions, is_valid = _positions(numbers), vectors.is_valid
    is_bad = is_valid & ((positions < 0) | (positions >= vectors.dimensions))
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        raise FunctionError(
            f"vec_kth_elem: there is no element {positions[row]} in a vector of {vectors.dimensions[row]} elements"
        )
    result = np.zeros(len(vectors), np.float32)
    result[is_valid] = vectors.elements[(vectors.offsets[:-1] + positions)[is_valid]]
    return floats(result, is_valid)


@function("vec_subvector", [VECTOR, NUMBER, NUMBER], VECTOR)
def vec_subvector(values: pa.Array, begins: pa.Array, ends: pa.Array) -> pa.Array:
    is_given = (begins.is_valid().to_numpy(zero_copy_only=False)) & (ends.is_valid().to_numpy(zero_copy_only=False))
    vectors = read_vectors(values, call="vec_subvector").keep(is_given)
    begin, end, is_valid = _positions(begins), _positions(ends), vectors.is_valid
    is_bad = is_valid & ((begin < 0) | (begin > end) | (end > vectors.dimensions))
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        raise FunctionError(
            f"vec_subvector: there are no elements {begin[row]} to {end[row]} "
            f"in a vector of {vectors.dimensions[row]} elements"
        )
    places = np.arange(len(vectors.elements)) - np.repeat(vectors.offsets[:-1], vectors.dimensions)
    chosen = (places >= np.repeat(begin, vectors.dimensions)) & (places < np.repeat(end, vectors.dimensions))
    offsets = np.concatenate(([0], np.cumsum(np.where(is_valid, end - begin, 0))))
    return VectorColumn(vectors.elements[chosen], offsets, is_valid).to_array()


def _over_group(name: str, fold: np.ufunc, *, is_mean: bool = False) -> Function:
    """An aggregate, from the list of vectors of every group."""

    def body(groups: pa.Array) -> pa.Array:
        parents = np.asarray(pc.list_parent_indices(groups))
        vectors = read_vectors(groups.flatten(), call=name)
        groups_of, rows = parents[vectors.is_valid], vectors.dimensions[vectors.is_valid]
        sizes = np.zeros(len(groups), np.int64)
        sizes[groups_of] = rows
        if (rows != sizes[groups_of]).any():
            raise FunctionError(f"vectors length not match: {name} got vectors of different dimensions in one group")
        counts = np.bincount(groups_of, minlength=len(groups))
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        result = np.full(int(offsets[-1]), fold.identity, np.float64)
        within = np.arange(len(vectors.elements)) - np.repeat(vectors.offsets[:-1], vectors.dimensions)
        places = np.repeat(offsets[parents], vectors.dimensions) + within
        with np.errstate(all="ignore"):
            fold.at(result, places, vectors.elements)
            if is_mean:
                result /= np.repeat(counts, sizes)
            return VectorColumn(result.astype(np.float32), offsets, counts > 0).to_array()

    return Function(f"{name}__list", (pa.list_(VECTOR),), VECTOR, body)


FUNCTIONS = [
    parse_vec,
    vec_to_string,
    vec_dim,
    vec_norm,
    vec_kth_elem,
    vec_subvector,
    _element_wise("vec_add", np.add),
    _element_wise("vec_sub", np.subtract),
    _element_wise("vec_mul", np.multiply),
    _element_wise("vec_div", np.divide),
    _by_scalar("vec_scalar_add", np.add),
    _by_scalar("vec_scalar_mul", np.multiply),
    _fold("vec_elem_sum", lambda matrix: matrix.sum(1)),
    _fold("vec_elem_avg", _average),
    _fold("vec_elem_product", lambda matrix: matrix.prod(1)),
    _distance("vec_cos_distance", _cos_distance),
    _distance("vec_l2sq_distance", lambda left, right: ((left - right) ** 2).sum(1)),
    _distance("vec_dot_product", lambda left, right: (left * right).sum(1)),
    _over_group("vec_sum", np.add),
    _over_group("vec_avg", np.add, is_mean=True),
    _over_group("vec_product", np.multiply),
]

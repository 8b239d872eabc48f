"""The values of expressions, for all steps at once.

A `Vector` is a matrix with a row for each series and a column for each step, and a mask of the cells that have a value.
A cell is a number, or, where the second plane says so, a native histogram. The plane is left out when there is none. A
series that loses its name keeps it until the end (`drops_name`), so that functions in between can still use it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tsdb._kernels import Histograms
from tsdb.promql._errors import PromqlFailure
from tsdb.promql.evaluation._labels import METADATA, LabelTable, concat_labels

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Times = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Cells = npt.NDArray[np.int32]

SAME_LABELS = "vector cannot contain metrics with the same labelset"


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A number for each step."""

    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class StringValue:
    """A string."""

    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Natives:
    """The plane of native histograms: for each cell the number of one in the pool, -1 where the cell is a number.

    What stands in cells without a value means nothing.
    """

    pool: Histograms
    cells: Cells

    @classmethod
    def of(cls, pool: Histograms, cells: Cells) -> Natives | None:
        """Return a plane, None if no cell is a histogram."""
        return cls(pool, cells) if len(pool) and (cells >= 0).any() else None


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """Series over steps."""

    labels: LabelTable
    values: Floats
    present: Bools
    drops_name: Bools
    """For each series."""
    is_ordered: bool = False
    """The order of the rows means something, because the query sorts."""
    natives: Natives | None = None

    @classmethod
    def empty(cls, steps: int) -> Vector:
        shape = (0, steps)
        return cls(LabelTable.empty(0), np.zeros(shape), np.zeros(shape, np.bool_), np.zeros(0, np.bool_))

    @classmethod
    def single(cls, labels: dict[str, str], values: Floats, present: Bools | None = None) -> Vector:
        """Return one series."""
        mask = np.ones(len(values), np.bool_) if present is None else present
        return cls(LabelTable.of_dicts([labels]), values.reshape(1, -1), mask.reshape(1, -1), np.zeros(1, np.bool_))

    @property
    def rows(self) -> int:
        return self.labels.rows

    @property
    def steps(self) -> int:
        return int(self.values.shape[1])

    @property
    def floats(self) -> Bools:
        """Where there are numbers."""
        return self.present if self.natives is None else self.present & (self.natives.cells < 0)

    @property
    def histograms(self) -> Bools:
        """Where there are native histograms."""
        return np.zeros_like(self.present) if self.natives is None else self.present & (self.natives.cells >= 0)

    def mapped(self, values: Floats, present: Bools | None = None) -> Vector:
        """Return the same series with other numbers, without name and histograms."""
        mask = self.floats if present is None else present
        return Vector(self.labels, values, mask, np.ones(self.rows, np.bool_))

    def without_histograms(self) -> Vector:
        return self if self.natives is None else replace(self, present=self.floats, natives=None)

    def masked(self, present: Bools) -> Vector:
        return replace(self, present=present)

    def take(self, rows: Rows) -> Vector:
        natives = None if self.natives is None else Natives.of(self.natives.pool, self.natives.cells[rows])
        return Vector(
            self.labels.take(rows),
            self.values[rows],
            self.present[rows],
            self.drops_name[rows],
            self.is_ordered,
            natives,
        )

    def compact(self) -> Vector:
        """Return only the series that have a value somewhere."""
        has = self.present.any(axis=1)
        if has.all():
            return self
        rows = np.flatnonzero(has)
        return replace(self.take(rows), labels=self.labels.thin(rows))


Value: TypeAlias = Scalar | StringValue | Vector


def broadcast(value: Value, steps: int) -> Value:
    """Repeat the value of one step for many."""
    if isinstance(value, Scalar):
        return Scalar(np.repeat(value.values[:1], steps))
    if isinstance(value, Vector):
        natives = value.natives
        if natives is not None:
            natives = Natives(natives.pool, np.repeat(natives.cells[:, :1], steps, 1))
        return replace(
            value,
            values=np.repeat(value.values[:, :1], steps, 1),
            present=np.repeat(value.present[:, :1], steps, 1),
            natives=natives,
        )
    return value


def concat_vectors(vectors: list[Vector]) -> Vector:
    """Put the series of several vectors one behind the other."""
    if len(vectors) == 1:
        return vectors[0]
    return Vector(
        concat_labels([each.labels for each in vectors]),
        np.concatenate([each.values for each in vectors]),
        np.concatenate([each.present for each in vectors]),
        np.concatenate([each.drops_name for each in vectors]),
        natives=concat_natives([(each.natives, each.present.shape) for each in vectors]),
    )


def concat_natives(planes: list[tuple[Natives | None, tuple[int, ...]]]) -> Natives | None:
    """Put planes, each of a shape, one behind the other."""
    if all(plane is None for plane, _ in planes):
        return None
    pools, parts, size = [], [], 0
    for plane, shape in planes:
        if plane is None:
            parts.append(np.full(shape, -1, np.int32))
            continue
        parts.append(np.where(plane.cells < 0, np.int32(-1), plane.cells + np.int32(size)))
        pools.append(plane.pool)
        size += len(plane.pool)
    return Natives(Histograms.concat(pools), np.concatenate(parts))


def merge_same(vector: Vector) -> Vector:
    """Make series with the same labels one; an error if two have a value at the same step."""
    if vector.rows < 2:
        return vector
    groups, first = vector.labels.group()
    if len(first) == vector.rows:
        return vector
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(len(first)))
    present = vector.present[order]
    if (np.add.reduceat(present.astype(np.int64), starts, axis=0) > 1).any():
        raise PromqlFailure(SAME_LABELS)
    values = np.add.reduceat(np.where(present, vector.values[order], 0.0), starts, axis=0)
    drops = np.logical_or.reduceat(vector.drops_name[order], starts)
    merged = np.logical_or.reduceat(present, starts, axis=0)
    natives = vector.natives
    if natives is not None:
        cells = np.where(present, natives.cells[order], np.int32(-1))
        natives = Natives.of(natives.pool, np.maximum.reduceat(cells, starts, axis=0))
    return Vector(vector.labels.take(first), values, merged, drops, vector.is_ordered, natives)


def merge_whole(vector: Vector) -> Vector:
    """Make series one that have the same labels and the same fate of their names."""
    if not vector.rows or vector.drops_name.all() or not vector.drops_name.any():
        return merge_same(vector)
    parts = [vector.take(np.flatnonzero(vector.drops_name == drops)) for drops in (False, True)]
    return concat_vectors([merge_same(part) for part in parts])


def finish(vector: Vector) -> Vector:
    """Take away the names that were to go, and series without values."""
    vector = vector.compact()
    if not vector.drops_name.any():
        return merge_same(vector)
    labels = vector.labels.dropping(METADATA, vector.drops_name)
    return merge_same(replace(vector, labels=labels, drops_name=np.zeros(vector.rows, np.bool_)))

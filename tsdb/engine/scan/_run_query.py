"""What an aggregation over runs asks for, and the cells it makes.

A cell is a group of series in a bucket of time. A state is what is kept of a column's values in a cell; states of the
same cell from several places are put together at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.rows.series import Positions

Values = npt.NDArray[Any]

State = tuple[str, str]
"""A column and what is kept of its values: count, sum, total, min, max, mean and squares."""


@dataclass(frozen=True, slots=True, eq=False)
class ComputedKey:
    """A key that is computed from tags: `Evaluate` is asked for the expression of this number."""

    names: tuple[str, ...]
    """The tags it is computed from."""
    number: int


@dataclass(frozen=True)
class RunQuery:
    """Which cells there are, and what is wanted of them.

    Statements of one shape share it, so what follows from it is found once.
    """

    keys: tuple[str, ...]
    """The tags whose values make a group, and names of what is computed from tags."""
    computed: Mapping[str, ComputedKey] = field(default_factory=dict)
    """What is computed from tags, by name."""
    width: int = 0
    """Of a bucket, in ticks of the time column; 0 when there are no buckets."""
    origin: int = 0
    """Where a bucket starts: from 0 to before the width."""
    states: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By column; `spread` gives `mean` and `squares`."""
    newest: tuple[str, ...] | None = None
    """The columns whose value in the newest row of a cell is wanted."""
    oldest: tuple[str, ...] | None = None
    gathered: tuple[str, ...] = ()
    """The columns all of whose values are wanted, cell by cell; they are among `states`."""

    is_counted: bool = True
    """Whether it matters how many rows a cell has."""

    @cached_property
    def is_of_ends(self) -> bool:
        """Whether nothing is wanted but the newest row of each group, or the oldest."""
        is_alone = (self.newest is None) != (self.oldest is None)
        return is_alone and not (self.width or self.states or self.is_counted)

    @cached_property
    def needs_times(self) -> bool:
        return bool(self.width) or self.newest is not None or self.oldest is not None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Every column whose values are read."""
        return tuple(dict.fromkeys([*self.states, *(self.newest or ()), *(self.oldest or ())]))

    @cached_property
    def asked(self) -> list[list[str]]:
        """For each column of `states`, what a kernel is asked for: how many values there are comes first."""
        return [["count", *(kind for kind in kinds if kind != "count")] for kinds in self.states.values()]

    @cached_property
    def answered(self) -> list[list[State]]:
        """The states that a kernel answers that with."""
        return [
            [(name, part) for kind in kinds for part in (("mean", "squares") if kind == "spread" else (kind,))]
            for name, kinds in zip(self.states, self.asked, strict=True)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """The newest row of every cell, or the oldest."""

    times: npt.NDArray[np.int64]
    values: dict[str, pa.Array]

    def take(self, chosen: Positions) -> Ends:
        positions = pa.array(chosen)
        return Ends(self.times[chosen], {name: values.take(positions) for name, values in self.values.items()})


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Cells with their states, ascending by group and bucket."""

    groups: Positions
    buckets: Positions
    rows: Positions
    row_count: int
    """Of all cells together."""
    states: dict[State, Values]
    """A count that is `rows` itself is one of a column without nulls."""
    newest: Ends | None = None
    oldest: Ends | None = None
    gathered: dict[str, Values] = field(default_factory=dict)
    """By column the values that are not null, cell after cell; the state `count` tells how many each cell has."""

    def __len__(self) -> int:
        return len(self.groups)


def combine_cells(parts: Sequence[Cells]) -> Cells | None:
    """Put cells from several places together; None when there are none."""
    filled = [part for part in parts if len(part)]
    if len(filled) < 2:
        return filled[0] if filled else None
    groups = np.concatenate([part.groups for part in filled])
    buckets = np.concatenate([part.buckets for part in filled])
    order = np.lexsort((buckets, groups))
    groups, buckets = groups[order], buckets[order]
    starts = np.flatnonzero(np.append(True, (groups[1:] != groups[:-1]) | (buckets[1:] != buckets[:-1])))
    if len(starts) == len(order):
        starts = np.arange(len(order))
    states = _combine_states(filled, order, starts)
    return Cells(
        groups[starts],
        buckets[starts],
        np.add.reduceat(np.concatenate([part.rows for part in filled])[order], starts),
        sum(part.row_count for part in filled),
        states,
        _combine_ends([part.newest for part in filled], order, starts, is_newest=True),
        _combine_ends([part.oldest for part in filled], order, starts, is_newest=False),
        {name: _combine_gathered(filled, name, order, starts) for name in filled[0].gathered},
    )


def _combine_gathered(parts: Sequence[Cells], name: str, order: Positions, starts: Positions) -> Values:
    """Lay the values of cells from several places together."""
    counts = np.concatenate([part.states[name, "count"] for part in parts])
    values = np.concatenate([part.gathered[name] for part in parts])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.searchsorted(starts, np.arange(len(order)), side="right")
    laid: Values = values[np.argsort(np.repeat(place, counts), kind="stable")]
    return laid


def _combine_states(parts: Sequence[Cells], order: Positions, starts: Positions) -> dict[State, Values]:
    laid = {state: np.concatenate([part.states[state] for part in parts])[order] for state in parts[0].states}
    combined: dict[State, Values] = {}
    for (column, kind), values in laid.items():
        if kind in ("min", "max"):
            combined[column, kind] = _combine_extremes(values, laid[column, "count"], starts, is_max=kind == "max")
        elif kind == "mean":
            mean, squares = _combine_spread(laid[column, "count"], values, laid[column, "squares"], starts)
            combined[column, "mean"], combined[column, "squares"] = mean, squares
        elif kind != "squares":
            with np.errstate(over="ignore", invalid="ignore"):
                combined[column, kind] = np.add.reduceat(values, starts)
    return combined


def _combine_extremes(values: Values, counts: Values, starts: Positions, *, is_max: bool) -> Values:
    """Return the extreme of the values that are there; floats compare as their bits in the order of all floats."""
    keys = sortable_bits(values) if values.dtype.kind == "f" else values
    limits = np.iinfo(keys.dtype)
    filled = np.where(counts == 0, limits.min if is_max else limits.max, keys).astype(keys.dtype)
    found: Values = (np.maximum if is_max else np.minimum).reduceat(filled, starts)
    return floats_of_bits(found, values.dtype) if values.dtype.kind == "f" else found


def sortable_bits(values: Values) -> npt.NDArray[np.integer]:
    """Return floats as integers that have their total order."""
    kind = np.int64 if values.dtype.itemsize == 8 else np.int32
    bits: Values = np.ascontiguousarray(values).view(kind)
    flipped: npt.NDArray[np.integer] = bits ^ ((bits >> (values.dtype.itemsize * 8 - 1)) & np.iinfo(kind).max)
    return flipped


def floats_of_bits(bits: Values, kind: np.dtype[Any]) -> Values:
    """The way back."""
    integers: Values = bits.view(np.int64 if kind.itemsize == 8 else np.int32)
    plain: Values = integers ^ ((integers >> (kind.itemsize * 8 - 1)) & np.iinfo(integers.dtype).max)
    return plain.view(kind)


def _combine_spread(
    counts: Values,
    means: Values,
    squares: Values,
    starts: Positions,
) -> tuple[Values, Values]:
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        weights = counts.astype(np.float64)
        filled = np.where(weights > 0, means.astype(np.float64), 0.0)
        total = np.add.reduceat(weights, starts)
        mean = np.add.reduceat(weights * filled, starts) / np.where(total > 0, total, 1.0)
        lengths = np.diff(np.append(starts, len(counts)))
        apart = filled - np.repeat(mean, lengths)
        own = np.where(weights > 0, squares.astype(np.float64) + weights * apart * apart, 0.0)
        return mean, np.add.reduceat(own, starts)


def _combine_ends(ends: Iterable[Ends | None], order: Positions, starts: Positions, *, is_newest: bool) -> Ends | None:
    found = [each for each in ends if each is not None]
    if not found:
        return None
    times = np.concatenate([each.times for each in found])
    lengths = np.diff(np.append(starts, len(order)))
    cell = np.repeat(np.arange(len(starts)), lengths)
    # Within a cell by time; the last of the newest or the first of the oldest is the one.
    by_time = np.lexsort((times[order], cell))
    at = starts + lengths - 1 if is_newest else starts
    chosen = order[by_time[at]]
    values = {
        name: pa.concat_arrays([each.values[name] for each in found]).take(pa.array(chosen)) for name in found[0].values
    }
    return Ends(times[chosen], values)

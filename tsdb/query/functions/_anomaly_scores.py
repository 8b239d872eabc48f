"""How far values lie from what is usual in their frames, for a whole partition at once.

A frame is a row range; its usable values are the finite ones. They stand next to each other in one array `x`, and
a frame is `x[begin:end]`. Three ways lead through many frames, by what they have in common:

    the same frame for all rows           its statistics are taken once
    frames that only grow (from the       running sums for the mean, a list that is kept sorted for quantiles
    first row, or to the last)
    few different widths                  all frames of a width are the rows of one matrix
"""

from __future__ import annotations

import bisect
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_MATRIX_CELLS = 1 << 21
_MAD_SCALE = 1.4826
"""Makes the median deviation of normally distributed values equal to their standard deviation."""


class Score(ABC):
    """What is usual in a frame: a centre and a spread, and the distance from them."""

    least: int
    """Fewest values of a frame that has a score."""

    @abstractmethod
    def of_rows(self, matrix: Doubles) -> Doubles:
        """The statistics of each row of a matrix, as its columns."""

    @abstractmethod
    def of_growing(self, x: Doubles, ends: Integers) -> Doubles:
        """The statistics of `x[:end]` for ends in ascending order."""

    @abstractmethod
    def score(self, values: Doubles, statistics: Doubles) -> Doubles:
        """The distance of values from what is usual; NaN where there is none."""


class ZScore(Score):
    """Distance from the mean in standard deviations."""

    least = 2

    def of_rows(self, matrix: Doubles) -> Doubles:
        # Relative to a value of the row: equal values have a deviation of exactly zero then.
        origin = matrix[:, :1]
        shifted = matrix - origin
        return np.stack([shifted.mean(1) + origin[:, 0], shifted.std(1)], axis=1)

    def of_growing(self, x: Doubles, ends: Integers) -> Doubles:
        shifted = x - x[0]
        counts = np.arange(1, len(x) + 1)
        means = np.cumsum(shifted) / counts
        before = np.concatenate(([0.0], means[:-1]))
        squares = np.cumsum((shifted - before) * (shifted - means))
        deviations = np.sqrt(np.maximum(squares, 0.0) / counts)
        return np.stack([means + x[0], deviations], axis=1)[ends - 1]

    def score(self, values: Doubles, statistics: Doubles) -> Doubles:
        return _relative(np.abs(values - statistics[:, 0]), statistics[:, 1])


class MadScore(Score):
    """Distance from the median in median deviations."""

    least = 3

    def of_rows(self, matrix: Doubles) -> Doubles:
        centre = np.median(matrix, axis=1)
        deviation = np.median(np.abs(matrix - centre[:, None]), axis=1)
        return np.stack([centre, _MAD_SCALE * deviation], axis=1)

    def of_growing(self, x: Doubles, ends: Integers) -> Doubles:
        return _sorted_statistics(x, ends, self._of_sorted)

    def _of_sorted(self, ordered: list[float]) -> tuple[float, float]:
        size = len(ordered)
        centre = (ordered[(size - 1) // 2] + ordered[size // 2]) / 2
        low, high = _kth_distance(ordered, centre, (size - 1) // 2), _kth_distance(ordered, centre, size // 2)
        return centre, _MAD_SCALE * (low + high) / 2

    def score(self, values: Doubles, statistics: Doubles) -> Doubles:
        return _relative(np.abs(values - statistics[:, 0]), statistics[:, 1])


class IqrScore(Score):
    """Distance from the range around the quartiles in interquartile ranges."""

    least = 3

    def __init__(self, factors: Doubles) -> None:
        """`factors` is, for each row, how many interquartile ranges its range goes beyond the quartiles."""
        self._factors = factors

    def of_rows(self, matrix: Doubles) -> Doubles:
        return np.quantile(matrix, (0.25, 0.75), axis=1).T

    def of_growing(self, x: Doubles, ends: Integers) -> Doubles:
        return _sorted_statistics(x, ends, lambda ordered: (_quantile(ordered, 0.25), _quantile(ordered, 0.75)))

    def score(self, values: Doubles, statistics: Doubles) -> Doubles:
        low, high = statistics[:, 0], statistics[:, 1]
        spread = high - low
        beyond = self._factors * spread
        outside = np.maximum(np.maximum(low - beyond - values, values - high - beyond), 0.0)
        return np.where(self._factors >= 0, _relative(outside, spread), np.nan)


def score_frames(score: Score, values: Doubles, begins: Integers, ends: Integers) -> Doubles:
    """Score each value within its frame, the rows `begins[i]` to `ends[i]`; NaN is no value and no score."""
    is_usable = np.isfinite(values)
    x = values[is_usable]
    before = np.concatenate(([0], np.cumsum(is_usable)))
    first, last = before[begins], before[np.maximum(ends, begins)]
    rows = np.flatnonzero(is_usable & (last - first >= score.least))
    result = np.full(len(values), np.nan)
    with np.errstate(all="ignore"):
        statistics = np.full((len(values), 2), np.nan)
        statistics[rows] = _statistics(score, x, first[rows], last[rows])
        result[rows] = score.score(values, statistics)[rows]
    return result


def _statistics(score: Score, x: Doubles, first: Integers, last: Integers) -> Doubles:
    frames, inverse = np.unique(first * (len(x) + 1) + last, return_inverse=True)
    begins, ends = frames // (len(x) + 1), frames % (len(x) + 1)
    if not len(frames):
        return np.empty((0, 2))
    if len(frames) > 1 and (begins == begins[0]).all():
        found = score.of_growing(x[begins[0] : ends[-1]], ends - begins[0])
    elif len(frames) > 1 and (ends == ends[0]).all():
        found = score.of_growing(x[begins[0] : ends[0]][::-1], (ends - begins)[::-1])[::-1]
    else:
        found = _by_width(score, x, begins, ends)
    return found[inverse]


def _by_width(score: Score, x: Doubles, begins: Integers, ends: Integers) -> Doubles:
    found = np.empty((len(begins), 2))
    widths = ends - begins
    for width in np.unique(widths):
        rows = np.flatnonzero(widths == width)
        windows = np.lib.stride_tricks.sliding_window_view(x, int(width))
        step = max(_MATRIX_CELLS // int(width), 1)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            found[part] = score.of_rows(windows[begins[part]])
    return found


def _sorted_statistics(x: Doubles, ends: Integers, read: Callable[[list[float]], tuple[float, float]]) -> Doubles:
    ordered: list[float] = []
    found, position = np.empty((len(ends), 2)), 0
    numbers = x.tolist()
    for row, end in enumerate(ends.tolist()):
        while position < end:
            bisect.insort(ordered, numbers[position])
            position += 1
        found[row] = read(ordered)
    return found


def _quantile(ordered: list[float], q: float) -> float:
    """Linear between the two neighbours."""
    place = q * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _kth_distance(ordered: list[float], centre: float, k: int) -> float:
    """The k-th smallest distance from a centre, counted from 0.

    The k + 1 values that lie nearest stand next to each other. The search finds where they begin: as long as the value
    behind the range is nearer than the one at its start, the range lies too far to the left.
    """
    low, high = 0, len(ordered) - k - 1
    while low < high:
        middle = (low + high) // 2
        if ordered[middle + k + 1] - centre < centre - ordered[middle]:
            low = middle + 1
        else:
            high = middle
    return max(abs(ordered[low] - centre), abs(ordered[low + k] - centre))


def _relative(distance: Doubles, spread: Doubles) -> Doubles:
    """A distance in units of a spread; without spread everything else is infinitely far."""
    return np.where(spread > 0, distance / spread, np.where(distance > 0, np.inf, 0.0))

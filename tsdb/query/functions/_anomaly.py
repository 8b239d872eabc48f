"""Window functions that tell how unusual a value is among those of its frame.

Each has two forms. `…__frame` gets the frame as text and a whole partition at once; calls are rewritten to it wherever
the text of a query says what the frame is (`tsdb.sql.aggregate_calls`). Any other frame, one of time distances or one
with a name, is handed over row by row by the query engine, which is about a hundred times slower.

A frame is `rows FIRST LAST` or `range FIRST LAST`: distances from the current row, or `unbounded`. The bound 0 of a
range is the first or last row with the same order key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datafusion import WindowUDF, udwf
from datafusion.user_defined import WindowEvaluator

from tsdb.query.functions._anomaly_scores import Doubles, Integers, IqrScore, MadScore, Score, ZScore, score_frames
from tsdb.query.functions._define import NUMBER, STRING

Maker = Callable[[list[pa.Array]], Score]


def _doubles(values: pa.Array) -> Doubles:
    found: Doubles = values.fill_null(np.nan).to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def _array(scores: Doubles) -> pa.Array:
    return pa.array(scores, mask=np.isnan(scores))


def frame_bounds(frame: str, keys: pa.Array, rows: int) -> tuple[Integers, Integers]:
    """Return where the frame of each row begins and ends."""
    kind, first, last = frame.split()
    current = np.arange(rows, dtype=np.int64)
    peers_first, peers_last = _peers(keys, rows) if kind == "range" else (current, current)
    begins = np.zeros(rows, np.int64) if first == "unbounded" else peers_first + int(first)
    ends = np.full(rows, rows, np.int64) if last == "unbounded" else peers_last + int(last) + 1
    return np.clip(begins, 0, rows), np.clip(ends, 0, rows)


def _peers(keys: pa.Array, rows: int) -> tuple[Integers, Integers]:
    """The first and the last row with the key of each row; equal keys stand next to each other."""
    codes = pc.fill_null(keys.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    sizes = np.diff(np.append(starts, rows))
    return np.repeat(starts, sizes), np.repeat(starts + sizes - 1, sizes)


def _partition_evaluator(make: Maker) -> type[WindowEvaluator]:
    class PartitionEvaluator(WindowEvaluator):
        """Gets value, further arguments, frame and key of all rows of a partition."""

        def evaluate_all(self, values: list[pa.Array], num_rows: int) -> pa.Array:
            *arguments, frames, keys = values
            if not num_rows:
                return pa.nulls(0, NUMBER)
            begins, ends = frame_bounds(frames[0].as_py(), keys, num_rows)
            return _array(score_frames(make(arguments), _doubles(arguments[0]), begins, ends))

    return PartitionEvaluator


def _row_evaluator(make: Maker, count: int) -> type[WindowEvaluator]:
    class RowEvaluator(WindowEvaluator):
        """Gets the frames of a partition's rows, one row after the other."""

        def __init__(self) -> None:
            self._row = 0

        def uses_window_frame(self) -> bool:
            return True

        def evaluate(self, values: list[pa.Array], eval_range: tuple[int, int]) -> pa.Scalar:
            row, self._row = self._row, self._row + 1
            begin, end = eval_range
            # The frame and behind it the value itself, which the frame need not hold.
            arguments = [
                pa.concat_arrays([each.slice(begin, end - begin), each.slice(row, 1)]) for each in values[:count]
            ]
            size = end - begin
            begins, ends = np.full(size + 1, 0, np.int64), np.full(size + 1, size, np.int64)
            scored = _array(score_frames(make(arguments), _doubles(arguments[0]), begins, ends))
            return scored[size]

    return RowEvaluator


def _make(name: str, types: list[pa.DataType], make: Maker) -> list[WindowUDF]:
    per_row: Any = _row_evaluator(make, len(types))
    whole: Any = _partition_evaluator(make)
    return [
        udwf(per_row, types, NUMBER, "immutable", name),
        udwf(whole, [*types, STRING, STRING], NUMBER, "immutable", f"{name}__frame"),
    ]


WINDOW_FUNCTIONS = [
    *_make("anomaly_score_zscore", [NUMBER], lambda arguments: ZScore()),
    *_make("anomaly_score_mad", [NUMBER], lambda arguments: MadScore()),
    *_make("anomaly_score_iqr", [NUMBER, NUMBER], lambda arguments: IqrScore(_doubles(arguments[1]))),
]

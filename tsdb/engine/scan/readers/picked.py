"""Rows that pass checks on fields, picked out of the pieces in which columns lie in memory.

    part ─▶ row ranges in its time range ─▶ pieces they lie in ─▶ checks on their columns ─▶ rows that pass ─▶ block

Checks are evaluated on columns as they are held, which may be in a narrow type, and over everything between the first
and the last row of a piece that is wanted; what lies between row ranges is dropped afterwards. So what does not pass is
never copied, and of the other columns only rows that pass are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb import _kernels
from tsdb.engine.rows.narrow import DOUBLE, WIDE, widened
from tsdb.engine.rows.series import Positions
from tsdb.engine.rows.slices import Slices
from tsdb.engine.rows.source import Held, SourceReader, read_field
from tsdb.engine.rows.vectors import as_arrow
from tsdb.engine.scan.filters.compare import FLIPPED, Value
from tsdb.engine.scan.filters.evaluate import CONNECTIVES, evaluate
from tsdb.engine.scan.filters.expression import Call, Constant, Node, Ref
from tsdb.engine.scan.filters.filter import Check
from tsdb.engine.scan.plan.parts import Part, group_rows
from tsdb.engine.scan.readers.block import Runs
from tsdb.engine.scan.readers.pieces import is_number
from tsdb.model import Column, ColumnId, RegionSchema, Semantic

_PIECES_MAX = 8
"""The columns of so many pieces are held at a time."""
_ROWS_AIM = 32_768
"""So many rows are a block: enough for several threads to make text of, while the next ones are picked."""
_OF_ONE = frozenset({"is_in", "is_null", "is_valid"})
_KINDS: dict[pa.DataType, _kernels.RowsKind] = {WIDE: "int64", DOUBLE: "float64"}
"""What is held in a narrower type is taken in its own."""


def can_pick(part: Part, schema: RegionSchema, checks: Sequence[Check]) -> bool:
    """Tell whether checks can be evaluated on pieces as they lie in memory."""
    source = part.source
    if not checks or source.facts.has_tombstones:
        return False
    for check in checks:
        if not isinstance(check, Call) or not _is_plain(check) or not check.names:
            return False
        for name in check.names:
            column = schema.by_name[name]
            if column.semantic is not Semantic.FIELD or not is_number(column.type):
                return False
            if source.stored_type(column.id) != column.type:
                return False
    return True


def _is_plain(node: Node) -> bool:
    """Tell whether a check comes to the same whichever type has room for the values of its columns."""
    if not isinstance(node, Call):
        return False
    if node.function in CONNECTIVES:
        return all(_is_plain(each) for each in node.arguments)
    if node.function in _OF_ONE:
        return isinstance(node.arguments[0], Ref)
    return node.function in FLIPPED and {type(each) for each in node.arguments} == {Ref, Constant}


class _PieceFrame:
    """Rows of a piece as a check sees them."""

    def __init__(self, columns: dict[str, pa.Array]) -> None:
        self._columns = columns

    def decide(self, _: Node) -> Value | None:
        return None

    def column(self, name: str) -> pa.Array:
        return self._columns[name]


def pick(
    part: Part, schema: RegionSchema, checks: Sequence[Check], *, rows_max: int
) -> Iterator[tuple[int, PickedBlock]]:
    """Yield the rows of a part that pass all checks, each block with how many rows were looked at for it.

    The first block is of one piece, and none has more than `rows_max` rows.
    """
    source = part.source
    is_first = True
    for first, last in group_rows(part.starts, part.stops, part.tuning.group_rows):
        group = part.slice(first, last).narrowed()
        filled = np.flatnonzero(group.stops > group.starts)
        row_ranges = Slices(group.starts[filled], group.stops[filled])
        numbers = _touched(row_ranges, source.piece_offsets)
        while numbers:
            rows_aim = 0 if is_first else min(_ROWS_AIM, rows_max)
            count, looked_at, rows, owners = _pick_rows(source, schema, checks, row_ranges, numbers, rows_aim)
            ranks = filled[owners]
            for low in range(0, max(1, len(rows)), rows_max):
                cut = slice(low, low + rows_max)
                yield 0 if low else looked_at, PickedBlock(group, rows[cut], ranks[cut], first=first)
            is_first, numbers = False, numbers[count:]


def _touched(row_ranges: Slices, offsets: npt.NDArray[np.int64]) -> list[int]:
    """Return the numbers of the pieces that row ranges lie in; none of them is empty."""
    low = row_ranges.stops.searchsorted(offsets[:-1], side="right")
    high = row_ranges.starts.searchsorted(offsets[1:], side="left")
    numbers: list[int] = np.flatnonzero(high > low).tolist()
    return numbers


def _pick_rows(
    source: SourceReader,
    schema: RegionSchema,
    checks: Sequence[Check],
    row_ranges: Slices,
    numbers: Sequence[int],
    rows_aim: int,
) -> tuple[int, int, Positions, Positions]:
    """Pick rows of pieces, one after the other, until there are enough.

    Returns how many pieces that took, how many of their rows are in row ranges, the rows that pass the checks, and the
    number of the row range of each of these.
    """
    names = sorted(frozenset().union(*(check.names for check in checks)))
    wanted = [schema.by_name[name] for name in names]
    held = source.pieces_as_held(numbers[:_PIECES_MAX], [column.id for column in wanted])
    columns = [[_compared(each, column) for each in own] for own, column in zip(held, wanted, strict=True)]
    looked_at = count = picked = 0
    found: list[Positions] = []
    owners: list[Positions] = []
    for number, *arrays in zip(numbers, *columns, strict=False):
        begin, end = (int(each) for each in source.piece_offsets[number : number + 2])
        low = int(row_ranges.stops.searchsorted(begin, side="right"))
        high = int(row_ranges.starts.searchsorted(end, side="left"))
        starts = np.maximum(row_ranges.starts[low:high], begin)
        stops = np.minimum(row_ranges.stops[low:high], end)
        looked_at += int((stops - starts).sum())
        first, length = int(starts[0]), int(stops[-1] - starts[0])
        own = {name: values.slice(first - begin, length) for name, values in zip(names, arrays, strict=True)}
        rows, numbers_in_piece = _kernels.passing_rows(_mask(checks, _PieceFrame(own), length), first, starts, stops)
        found.append(np.frombuffer(memoryview(rows), np.int64))
        owners.append(np.frombuffer(memoryview(numbers_in_piece), np.int64) + low)
        picked += len(found[-1])
        count += 1
        if picked >= rows_aim:
            break
    return count, looked_at, np.concatenate(found), np.concatenate(owners)


def _compared(held: Held, column: Column) -> pa.Array:
    """Return a column of a piece as checks compare it: integers as they are held, everything else in its own type."""
    values = as_arrow(held)
    return values if column.type == WIDE else widened(values, column.type)


def _mask(checks: Sequence[Check], frame: _PieceFrame, length: int) -> pa.Array:
    mask: Value | None = None
    for check in checks:
        assert isinstance(check, Call)
        own = evaluate(check, frame)
        mask = own if mask is None else pc.and_kleene(mask, own)
    return pa.repeat(mask, length) if isinstance(mask, pa.Scalar) else mask


class PickedBlock:
    """Rows of one part, each given by its place in the source; they ascend."""

    def __init__(self, part: Part, rows: Positions, ranks: Positions, *, first: int) -> None:
        self._part = part
        self._source = part.source
        self._places = rows
        self._ranks = ranks
        self.series = part.series
        self.first = first
        self.rows = len(rows)

    @cached_property
    def runs(self) -> Runs:
        return Runs.of_rows(self._ranks)

    @cached_property
    def _in_pieces(self) -> tuple[list[int], list[pa.Array]]:
        """The pieces that have rows, and which of their rows these are."""
        offsets = self._source.piece_offsets
        cuts = self._places.searchsorted(offsets)
        numbers: list[int] = np.flatnonzero(cuts[1:] > cuts[:-1]).tolist()
        places = [pa.array(self._places[cuts[each] : cuts[each + 1]] - offsets[each]) for each in numbers]
        return numbers, places

    def times(self) -> npt.NDArray[np.int64]:
        (found,) = self._take([self._source.schema.time.id], [WIDE])
        times: npt.NDArray[np.int64] = found.to_numpy()
        return times

    def read(self, column: Column) -> pa.Array:
        return self.read_all([column])[0]

    def read_all(self, columns: Sequence[Column]) -> list[pa.Array]:
        source = self._source
        stored = [source.stored_type(column.id) == column.type for column in columns]
        is_plain = [known and is_number(column.type) for known, column in zip(stored, columns, strict=True)]
        plain = [column for column, known in zip(columns, is_plain, strict=True) if known]
        taken = iter(self._take([column.id for column in plain], [column.type for column in plain]))
        return [
            _viewed(next(taken), column.type) if known else self._read_other(column, is_stored=is_stored)
            for column, known, is_stored in zip(columns, is_plain, stored, strict=True)
        ]

    def _take(self, columns: Sequence[ColumnId], types: Sequence[pa.DataType]) -> list[pa.Array]:
        """Read columns of numbers."""
        numbers, places = self._in_pieces
        pieces = self._source.pieces_as_held(numbers, columns) if numbers else [[] for _ in columns]
        kinds = [_KINDS.get(kind, "own") for kind in types]
        return [pa.array(taken) for taken in _kernels.take_rows(pieces, places, kinds)]

    def _read_other(self, column: Column, *, is_stored: bool) -> pa.Array:
        numbers, places = self._in_pieces
        if not is_stored or not numbers:
            return read_field(self._source, column, Slices(self._places, self._places + 1))
        (pieces,) = self._source.pieces(numbers, [column.id])
        return pa.concat_arrays([piece.take(own) for piece, own in zip(pieces, places, strict=True)])

    def select(self, chosen: Positions) -> PickedBlock:
        return PickedBlock(self._part, self._places[chosen], self._ranks[chosen], first=self.first)


def _viewed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return numbers as what they are: times came as integers, and so does a column without rows."""
    if values.type == kind:
        return values
    return values.view(kind) if len(values) else pa.array([], kind)

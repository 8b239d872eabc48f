"""Range queries by the letter of their definition, one row and one slot at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Value = int | float | None
Aggregate = Callable[[Sequence[Value]], Value]


@dataclass(frozen=True)
class SlowCall:
    """An aggregate over a range, with its fill: None, `NULL`, `PREV`, `LINEAR` or a number."""

    aggregate: Aggregate
    span: int
    fill: str | int | None = None


def known(values: Sequence[Value]) -> list[int | float]:
    return [value for value in values if value is not None]


AGGREGATES: dict[str, Aggregate] = {
    "sum": lambda values: sum(known(values)) if known(values) else None,
    "min": lambda values: min(known(values), default=None),
    "max": lambda values: max(known(values), default=None),
    "count": lambda values: len(known(values)),
    "avg": lambda values: sum(known(values)) / len(known(values)) if known(values) else None,
    "first_value": lambda values: values[0] if values else None,
    "last_value": lambda values: values[-1] if values else None,
    "median": lambda values: _median(sorted(known(values))),
}


def _median(values: list[int | float]) -> float | None:
    if not values:
        return None
    middle = len(values) // 2
    return float(values[middle]) if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def evaluate(
    rows: Sequence[tuple[int, str, Value]], calls: Sequence[SlowCall], *, align: int, origin: int
) -> list[tuple[object, ...]]:
    """Return (slot, series, values…) sorted by series and slot."""
    answer: list[tuple[object, ...]] = []
    for series in sorted({row[1] for row in rows}):
        points = sorted((time, value) for time, name, value in rows if name == series)
        slots = sorted({slot for time, _ in points for slot in _slots(time, calls, align, origin)})
        if any(call.fill is not None for call in calls) and slots:
            slots = list(range(slots[0], slots[-1] + 1, align))
        columns = []
        for call in calls:
            values = [
                call.aggregate([value for time, value in points if slot <= time < slot + call.span]) for slot in slots
            ]
            columns.append(_filled(values, call.fill))
        answer += [(slot, series, *cells) for slot, *cells in zip(slots, *columns, strict=True)]
    return answer


def _slots(time: int, calls: Sequence[SlowCall], align: int, origin: int) -> list[int]:
    last = origin + (time - origin) // align * align
    widest = max(call.span for call in calls)
    return [slot for slot in range(last, last - widest - 1, -align) if slot <= time < slot + widest]


def _filled(values: list[Value], fill: str | int | None) -> list[Value]:
    if fill == "PREV":
        for place in range(1, len(values)):
            if values[place] is None:
                values[place] = values[place - 1]
    elif fill == "LINEAR":
        return _linear(values)
    elif isinstance(fill, int):
        return [fill if value is None else value for value in values]
    return values


def _linear(values: list[Value]) -> list[Value]:
    points = [(place, float(value)) for place, value in enumerate(values) if value is not None]
    if len(points) < 2:
        return [None if value is None else float(value) for value in values]
    result: list[Value] = []
    for place, value in enumerate(values):
        before = [point for point in points if point[0] < place]
        after = [point for point in points if point[0] > place]
        if value is not None:
            result.append(float(value))
            continue
        if before and after:
            (x0, y0), (x1, y1) = before[-1], after[0]
        elif before:
            (x0, y0), (x1, y1) = before[-2], before[-1]
        else:
            (x0, y0), (x1, y1) = after[0], after[1]
        result.append(y0 + (y1 - y0) * (place - x0) / (x1 - x0))
    return result

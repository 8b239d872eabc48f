"""Integers of SQL: which type two of them have together, and between which bounds a result lies."""

from __future__ import annotations

from typing import NamedTuple


class Integers(NamedTuple):
    """A type of integers, and the bounds of its values."""

    bits: int
    is_signed: bool
    low: int
    high: int

    @property
    def sql(self) -> str:
        name = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}[self.bits]
        return name if self.is_signed else f"{name} UNSIGNED"

    @property
    def whole(self) -> Integers:
        """The same type with all of its values."""
        return integers(self.bits, is_signed=self.is_signed)


def integers(bits: int, *, is_signed: bool = True) -> Integers:
    if is_signed:
        return Integers(bits, True, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return Integers(bits, False, 0, (1 << bits) - 1)


INT32 = integers(32)
INT64 = integers(64)
UINT64 = integers(64, is_signed=False)

NAMED: dict[str, Integers] = {
    **{f"Int{bits}": integers(bits) for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": integers(bits, is_signed=False) for bits in (8, 16, 32, 64)},
}
"""By the names that the data model gives them."""

CAST_NAMES: dict[str, Integers] = {
    **dict.fromkeys(("TINYINT",), integers(8)),
    **dict.fromkeys(("SMALLINT", "INT2", "INT16"), integers(16)),
    **dict.fromkeys(("INT", "INTEGER", "INT4", "INT32"), INT32),
    **dict.fromkeys(("BIGINT", "INT8", "INT64"), INT64),
    "UINT8": integers(8, is_signed=False),
    "UINT16": integers(16, is_signed=False),
    "UINT32": integers(32, is_signed=False),
    "UINT64": UINT64,
}
"""By the words behind `::` and AS."""


def literal(value: int) -> Integers | None:
    """Return the type of an integer as it is written; None for one that no type of integers holds."""
    kind = INT64 if INT64.low <= value <= INT64.high else UINT64
    return kind._replace(low=value, high=value) if kind.low <= value <= kind.high else None


def together(left: Integers, right: Integers) -> Integers | None:
    """Return the type in which two integers are computed with; None if that is a decimal."""
    if left.is_signed == right.is_signed:
        return integers(max(left.bits, right.bits), is_signed=left.is_signed)
    signed, unsigned = (left, right) if left.is_signed else (right, left)
    if signed.bits > unsigned.bits:
        return signed.whole
    return integers(unsigned.bits * 2) if unsigned.bits < 64 else None


def bounds(operator: str, left: Integers, right: Integers) -> tuple[int, int]:
    """Return the least and the greatest result of an operation."""
    if operator == "+":
        return left.low + right.low, left.high + right.high
    if operator == "-":
        return left.low - right.high, left.high - right.low
    if operator == "*":
        corners = [one * other for one in (left.low, left.high) for other in (right.low, right.high)]
        return min(corners), max(corners)
    largest = max(abs(left.low), abs(left.high))
    return -largest if min(left.low, right.low) < 0 else 0, largest

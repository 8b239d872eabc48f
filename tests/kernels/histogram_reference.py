"""Native histograms in plain Python: the definition that the kernel is compared with, and their stored form."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field, replace

CUSTOM = -53
UNKNOWN, RESET, NOT_RESET, GAUGE = range(4)


@dataclass(frozen=True)
class Hist:
    """Buckets by their index; those of a custom schema by the place of their upper bound."""

    count: float = 0.0
    sum: float = 0.0
    positive: dict[int, float] = field(default_factory=dict)
    negative: dict[int, float] = field(default_factory=dict)
    schema: int = 0
    zero: float = 0.0
    width: float = 0.0
    bounds: tuple[float, ...] = ()
    hint: int = UNKNOWN

    def encode(self) -> bytes:
        """Return the stored form, with float counts."""
        out = struct.pack("<BBBBi", 1, 1, self.hint, 0, self.schema)
        out += struct.pack("<dddd", self.width, self.sum, self.count, self.zero)
        for side in (self.positive, self.negative):
            spans, following = [], 0
            for index in sorted(side):
                spans.append((index - following, 1))
                following = index + 1
            out += struct.pack("<I", len(spans)) + b"".join(struct.pack("<iI", *span) for span in spans)
            out += struct.pack("<I", len(side)) + b"".join(struct.pack("<d", side[index]) for index in sorted(side))
        return out + struct.pack("<I", len(self.bounds)) + b"".join(struct.pack("<d", each) for each in self.bounds)

    @classmethod
    def decode(cls, blob: bytes) -> Hist:
        hint, schema = struct.unpack_from("<xxBxi", blob)
        width, total, count, zero = struct.unpack_from("<dddd", blob, 8)
        at, sides = 40, []
        for _ in range(2):
            (number,) = struct.unpack_from("<I", blob, at)
            spans = [struct.unpack_from("<iI", blob, at + 4 + 8 * i) for i in range(number)]
            at += 8 + 8 * number
            side, index = {}, 0
            for offset, length in spans:
                index += offset
                for _ in range(length):
                    (side[index],) = struct.unpack_from("<d", blob, at)
                    at, index = at + 8, index + 1
            sides.append(side)
        (number,) = struct.unpack_from("<I", blob, at)
        bounds = struct.unpack_from(f"<{number}d", blob, at + 4)
        return cls(count, total, sides[0], sides[1], schema, zero, width, bounds, hint)

    def upper(self, index: int) -> float:
        if self.schema == CUSTOM:
            return [-math.inf, *self.bounds, math.inf][index + 1]
        return float(2.0 ** (index * 2.0**-self.schema))

    def coarser(self, schema: int) -> Hist:
        def reduce(side: dict[int, float]) -> dict[int, float]:
            out: dict[int, float] = {}
            for index, count in side.items():
                place = math.ceil(index / 2 ** (self.schema - schema))
                out[place] = out.get(place, 0.0) + count
            return out

        return replace(self, positive=reduce(self.positive), negative=reduce(self.negative), schema=schema)

    def widened(self, width: float) -> Hist:
        """Let the zero bucket reach to `width` at least, and further if it would cut a bucket."""
        while True:
            inside = [(side, i) for side in (self.positive, self.negative) for i in side if self.upper(i - 1) < width]
            reach = max([width, *(self.upper(index) for _, index in inside)])
            if reach == width:
                break
            width = reach
        zero = self.zero + sum(side[index] for side, index in inside)
        positive, negative = (
            {index: count for index, count in side.items() if self.upper(index - 1) >= width}
            for side in (self.positive, self.negative)
        )
        return replace(self, zero=zero, width=width, positive=positive, negative=negative)

    def plus(self, other: Hist, sign: float = 1.0) -> Hist:
        left, right = self, other
        if self.schema == CUSTOM:
            common = tuple(bound for bound in self.bounds if bound in other.bounds)
            left, right = left.within(common), right.within(common)
        else:
            while left.width != right.width:
                width = max(left.width, right.width)
                left, right = left.widened(width), right.widened(width)
            schema = min(left.schema, right.schema)
            left, right = left.coarser(schema), right.coarser(schema)

        def add(a: dict[int, float], b: dict[int, float]) -> dict[int, float]:
            return {i: a.get(i, 0.0) + sign * b.get(i, 0.0) for i in {*a, *b}}

        return replace(
            left,
            count=left.count + sign * right.count,
            sum=left.sum + sign * right.sum,
            zero=left.zero + sign * right.zero,
            positive=add(left.positive, right.positive),
            negative=add(left.negative, right.negative),
        )

    def within(self, bounds: tuple[float, ...]) -> Hist:
        out: dict[int, float] = {}
        for index, count in self.positive.items():
            place = sum(1 for bound in bounds if bound < self.upper(index))
            out[place] = out.get(place, 0.0) + count
        return replace(self, positive=out, bounds=bounds)

    def is_close(self, other: Hist) -> bool:
        def same(a: dict[int, float], b: dict[int, float]) -> bool:
            return all(math.isclose(a.get(i, 0.0), b.get(i, 0.0), abs_tol=1e-9) for i in {*a, *b})

        numbers = zip(
            (self.count, self.sum, self.zero, self.width),
            (other.count, other.sum, other.zero, other.width),
            strict=True,
        )
        return (
            self.schema == other.schema
            and self.bounds == other.bounds
            and all(math.isclose(a, b, abs_tol=1e-9) for a, b in numbers)
            and same(self.positive, other.positive)
            and same(self.negative, other.negative)
        )

"""Numbers as text, in labels and results."""

from __future__ import annotations

import math
from decimal import Decimal


def format_float(value: float) -> str:
    """Return the shortest decimal text without an exponent: `0.1`, `5`, `+Inf`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == math.trunc(value) and abs(value) < 1e15:
        return "-0" if value == 0 and math.copysign(1, value) < 0 else str(int(value))
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text

"""The metadata of a metric: type, unit and help.

The types are those of Prometheus, in the order of the numbers that remote write gives them. Most of them are families:
the samples of a histogram are in tables of other names, which `FAMILY_SUFFIXES` derives from the family's.
"""

from __future__ import annotations

from typing import NamedTuple

METRIC_TYPES = ("unknown", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset")
"""By their numbers in remote write, versions 1 and 2."""

FAMILY_SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "gaugehistogram": ("_bucket", "_gsum", "_gcount"),
    "summary": ("_sum", "_count"),
    "info": ("_info",),
}
"""The suffixes of the tables of a family."""


class MetricDescription(NamedTuple):
    """The metadata of a metric."""

    kind: str
    """One of `METRIC_TYPES`."""
    unit: str
    help: str


def metric_type(number: int) -> str:
    """Return the type of a number; one that this version does not know is unknown."""
    return METRIC_TYPES[number] if 0 <= number < len(METRIC_TYPES) else METRIC_TYPES[0]

"""Calls of aggregates and window functions that the query engine lacks, written with what it has.

    vec_sum(v)                          vec_sum__list(array_agg(v))
    hll(x) FILTER (WHERE a)             hll__list(array_agg(hll__place(x)) FILTER (WHERE a))
    anomaly_score_mad(v) OVER (w)       anomaly_score_mad__frame(v, 'the frame of w', what w is ordered by) OVER (w)

An aggregate of ours is the list of a group's values and a function that folds many such lists in one step; what follows
the brackets of the call, FILTER and OVER, belongs to `array_agg` then. A window function sees a whole partition in one
step, if it knows what its frame is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Form = Callable[[list[str], str], str | None]
"""From the arguments of a call, and what stands behind its brackets, to its new text; None leaves it alone."""

_DISTINCT = re.compile(r"\s*DISTINCT\b", re.IGNORECASE)
LEADING = {"uddsketch_state": 2, "uddsketch_merge": 2}
"""How many arguments stand before the one that is aggregated."""


def _listed(name: str, wrapper: str = "") -> Form:
    """The values of a group as a list; `wrapper` is a function that each of them goes through first."""
    leading = LEADING.get(name, 0)

    def write(arguments: list[str], tail: str) -> str | None:
        if len(arguments) != leading + 1:
            return None
        value = arguments[-1]
        if wrapper:
            value = f"{wrapper}({_DISTINCT.sub('', value, count=1)})"
        constants = "".join(f"{each}, " for each in arguments[:-1])
        return f"{name}__list({constants}array_agg({value}){tail})"

    return write


def _path(name: str) -> Form:
    """Points with their times, which the path is put in order by."""

    def write(arguments: list[str], tail: str) -> str | None:
        if len(arguments) != 3:
            return None
        latitude, longitude, time = arguments
        return f"{name}__list(array_agg({name}__point({latitude}, {longitude}, CAST({time} AS BIGINT))){tail})"

    return write


AGGREGATES: dict[str, Form] = {
    "vec_sum": _listed("vec_sum"),
    "vec_avg": _listed("vec_avg"),
    "vec_product": _listed("vec_product"),
    "hll": _listed("hll", "hll__place"),
    "hll_merge": _listed("hll_merge"),
    "uddsketch_state": _listed("uddsketch_state"),
    "uddsketch_merge": _listed("uddsketch_merge"),
    "json_encode_path": _path("json_encode_path"),
    "geo_path": _path("geo_path"),
}

WINDOWS: frozenset[str] = frozenset({"anomaly_score_zscore", "anomaly_score_mad", "anomaly_score_iqr"})
"""Window functions whose frame is told to them, where it can be read from the text."""

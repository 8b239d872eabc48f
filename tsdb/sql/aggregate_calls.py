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
PERCENTILES = frozenset({"percentile_cont", "quantile_cont"})
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


_WITHIN = re.compile(r"\s*WITHIN\s+GROUP\s*\(\s*ORDER\s+BY\s+", re.IGNORECASE)
_DIRECTION = re.compile(r"(?:\s+(ASC|DESC))?(?:\s+NULLS\s+(FIRST|LAST))?\s*$", re.IGNORECASE)


def _percentile(name: str) -> Form:
    """`name(x, p)` or `name(p) WITHIN GROUP (ORDER BY x DESC)`: the query engine rounds where between two values."""

    def write(arguments: list[str], tail: str) -> str | None:
        if len(arguments) == 2:
            value, order = _DISTINCT.sub("", arguments[0], count=1), ""
            share, is_distinct = arguments[1], value != arguments[0]
        elif len(arguments) == 1 and (match := _WITHIN.match(tail)) is not None:
            share = _DISTINCT.sub("", arguments[0], count=1)
            is_distinct = share != arguments[0]
            end = _closing_bracket(tail, match.end())
            if end is None:
                return None
            value, tail = tail[match.end() : end], tail[end + 1 :]
            found = _DIRECTION.search(value)
            assert found is not None
            order = "ASC NULLS " if (found[1] or "ASC").upper() == "ASC" else "DESC NULLS "
            order += (found[2] or ("LAST" if order[0] == "A" else "FIRST")).upper()
            value = value[: found.start()]
        else:
            return None
        distinct = "DISTINCT " if is_distinct else ""
        return f"{name}__list({share}, '{order}', array_agg({distinct}CAST({value} AS DOUBLE)){tail})"

    return write


def _closing_bracket(text: str, start: int) -> int | None:
    """Return where the bracket closes in which a place stands; None for text with strings, which may hold any."""
    depth = 0
    for position in range(start, len(text)):
        if text[position] in "'\"`":
            return None
        if text[position] == ")":
            if not depth:
                return position
            depth -= 1
        depth += text[position] == "("
    return None


AGGREGATES: dict[str, Form] = {
    "percentile_cont": _percentile("percentile_cont"),
    "quantile_cont": _percentile("quantile_cont"),
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
"""Window functions that get their frame as an argument, where the text states it."""

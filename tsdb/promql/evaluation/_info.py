"""`info`: the labels of info metrics, added to the series of the same instance and job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tsdb.model import Matcher, matches, matches_empty
from tsdb.promql._ast import Expr, FunctionCall, Subquery, VectorSelector
from tsdb.promql._errors import PromqlFailure
from tsdb.promql.evaluation._context import EvalContext
from tsdb.promql.evaluation._labels import NAME, LabelTable, format_labels
from tsdb.promql.evaluation._selectors import timed_vector
from tsdb.promql.evaluation._values import Bools, Times, Vector, merge_same

IDENTITY = ("instance", "job")
"""The labels by which a series is joined with its info."""

TARGET_INFO = "target_info"

_ANY_INFO = Matcher(NAME, "=~", ".+_info")


@dataclass(slots=True)
class _InfoSeries:
    """The info series of one query: labels, and for each step when their sample was taken, -1 without one."""

    labels: list[dict[str, str]]
    seen: Times
    by_identity: dict[tuple[str, ...], list[int]] = field(default_factory=dict)


def info(
    context: EvalContext, call: FunctionCall, base: Vector, selector: VectorSelector | None, times: Times
) -> Vector:
    """Return series with the labels of their infos."""
    given = selector.matchers if selector is not None else ()
    names = _info_names(given)
    wanted = [each for each in given if each.name != NAME]
    base = base.compact()
    labels = base.labels.dicts()
    ignored = [all(matches(each, row.get(NAME, "")) for each in names) for row in labels]
    found = _find(context, call, (*names, *wanted), times)
    parts: list[tuple[dict[str, str], int, Bools]] = []
    for row, own in enumerate(labels):
        context.check()
        if ignored[row]:
            parts.append((own, row, base.present[row]))
            continue
        for text, mask in _enriched(own, found, wanted, base.present[row]):
            parts.append((text, row, mask))
    if not parts:
        return Vector.empty(base.steps)
    rows = np.array([row for _, row, _ in parts], np.intp)
    table = LabelTable.of_dicts([text for text, _, _ in parts])
    mask = np.stack([mask for _, _, mask in parts])
    return merge_same(replace(base.take(rows), labels=table, present=mask, is_ordered=False))


def _info_names(given: Sequence[Matcher]) -> list[Matcher]:
    """Return the conditions on the names of info metrics: `target_info` without any, `*_info` beside negative ones."""
    names = [each for each in given if each.name == NAME]
    if not names:
        return [Matcher(NAME, "=", TARGET_INFO)]
    return names if any(each.op in ("=", "=~") for each in names) else [_ANY_INFO, *names]


def _times_of_first_selector(context: EvalContext, expr: Expr, times: Times) -> Times:
    """Return the times at which the first selector of an expression looks, through the subqueries around it."""
    pending = [(expr, times)]
    while pending:
        node, ats = pending.pop()
        if isinstance(node, VectorSelector):
            return context.shifted(ats, node.shift)
        if isinstance(node, Subquery):
            ats = context.shifted(ats, node.shift)
        pending.extend((child, ats) for child in reversed(node.children()))
    return times


def _find(context: EvalContext, call: FunctionCall, matchers: tuple[Matcher, ...], times: Times) -> _InfoSeries:
    """Read the info series at the times at which the first selector of the argument looks."""
    node = VectorSelector(call.span, "", matchers)
    vector, seen = timed_vector(context, node, _times_of_first_selector(context, call.args[0], times))
    wrong = np.flatnonzero(vector.histograms.any(axis=1))
    if len(wrong):
        labels = format_labels(vector.labels.row(int(wrong[0])))
        raise PromqlFailure(f"this should be an info metric, with float samples: {labels}")
    found = _InfoSeries(vector.labels.dicts(), np.where(vector.present, seen, np.iinfo(np.int64).min))
    for row, own in enumerate(found.labels):
        found.by_identity.setdefault(tuple(own.get(name, "") for name in IDENTITY), []).append(row)
    return found


def _enriched(
    own: dict[str, str],
    found: _InfoSeries,
    wanted: Sequence[Matcher],
    present: Bools,
) -> list[tuple[dict[str, str], Bools]]:
    """Return the labels a series gets, each with the steps at which it gets them."""
    identity = tuple(own.get(name, "") for name in IDENTITY)
    rows = found.by_identity.get(identity, []) if any(identity) else []
    by_name: dict[str, list[int]] = {}
    for row in rows:
        by_name.setdefault(found.labels[row].get(NAME, ""), []).append(row)
    data_names = {each.name for each in wanted}
    may_lack = all(matches_empty(each) for each in wanted)
    out: dict[tuple[int, ...], Bools] = {}
    for step in np.flatnonzero(present).tolist():
        chosen = tuple(_latest(found, members, step) for members in by_name.values())
        key = tuple(row for row in chosen if row >= 0)
        if not key and not may_lack:
            continue
        out.setdefault(key, np.zeros(len(present), np.bool_))[step] = True
    return [({**own, **_added(own, found, key, data_names)}, mask) for key, mask in out.items()]


def _latest(found: _InfoSeries, rows: list[int], step: int) -> int:
    """Return the info series with the newest sample, -1 if none has one."""
    seen = found.seen[rows, step]
    newest = int(seen.max())
    if newest == np.iinfo(np.int64).min:
        return -1
    best = [row for row, when in zip(rows, seen.tolist(), strict=True) if when == newest]
    if len(best) > 1:
        raise PromqlFailure("found duplicate series for info metric")
    return best[0]


def _added(own: dict[str, str], found: _InfoSeries, rows: tuple[int, ...], wanted: set[str]) -> dict[str, str]:
    added: dict[str, str] = {}
    for row in rows:
        for name, value in found.labels[row].items():
            if name == NAME or (wanted and name not in wanted):
                continue
            if added.get(name, value) != value:
                raise PromqlFailure(f"conflicting label: {name}")
            if name not in own:
                added[name] = value
    return added

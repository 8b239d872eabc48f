"""Asking two servers the same and comparing what they say, with the differences that are meant.

Version 2.42 of Prometheus, which Debian has, differs from what is documented of version 3:

| theirs | ours | why |
|---|---|---|
| "same labelset" | an answer | names go at the end of a query, so series of several names can be computed with |
| an answer | "multiple matches" | a comparison finds several partners, even if the condition leaves one of them |
| 0 | NaN | the deviation of one infinite value |
| -0 | 0 | the sum of negative zeros, which only `count_values` shows |

What cannot be told from the answers is left out of the expressions: names behind `atan2`, dates of what is no date,
windows with a sample on their edge, counters near zero (see `samples`), and windows at a fixed time in functions that
depend on the step, which wander there.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import httpx

from tests.differential.expressions import Times

RELATIVE = 1e-9
ABSOLUTE = 1e-9
_COMPARES = re.compile(r"[=!<>]=? (on|ignoring)|[=!<>]=?  ")


@dataclass(frozen=True)
class Reply:
    """What a server said: an error, or a kind of result with its series."""

    error: str = ""
    kind: str = ""
    result: Any = None


class PromqlClient:
    """Asks one server."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=30)

    def ask(self, query: str, when: Times) -> Reply:
        """Evaluate a query."""
        if when.step_ms:
            path, span = "query_range", {"start": when.start_ms, "end": when.end_ms, "step": when.step_ms}
        else:
            path, span = "query", {"time": when.start_ms}
        form = {"query": query, **{name: f"{ms / 1000:.3f}" for name, ms in span.items()}}
        answer = self._client.post(f"/api/v1/{path}", data=form)
        assert answer.status_code < 500, answer.text
        body = answer.json()
        if body["status"] != "success":
            return Reply(error=body["error"])
        return Reply(kind=body["data"]["resultType"], result=body["data"]["result"])

    def close(self) -> None:
        self._client.close()


def is_excepted(query: str, theirs: Reply, ours: Reply) -> bool:
    """Tell whether a difference is one of the table above."""
    if "same labelset" in theirs.error:
        return not ours.error and ("__name__" in query or " or " in query)
    if "multiple matches" in ours.error:
        return _COMPARES.search(query) is not None
    if "count_values" in query and "'-0'" in str(theirs.result):
        return True
    return "std" in query and "NaN" in str(ours.result)


def difference(theirs: Reply, ours: Reply) -> str:
    """Return what differs, nothing if the answers are the same."""
    if theirs.error or ours.error:
        return "" if theirs.error and ours.error else f"errors: {theirs.error!r}, {ours.error!r}"
    if theirs.kind != ours.kind:
        return f"kinds: {theirs.kind}, {ours.kind}"
    if theirs.kind in ("scalar", "string"):
        return "" if _is_same(theirs.result, ours.result) else f"values: {theirs.result}, {ours.result}"
    left, right = _by_labels(theirs.result), _by_labels(ours.result)
    if left.keys() != right.keys():
        return (
            f"series: only theirs {sorted(left.keys() - right.keys())}, only ours {sorted(right.keys() - left.keys())}"
        )
    for labels, samples in left.items():
        wrong = [(a, b) for a, b in zip(samples, right[labels], strict=False) if not _is_same(a, b)]
        if wrong or len(samples) != len(right[labels]):
            return f"samples of {dict(labels)}: {wrong[:3]}, {len(samples)} and {len(right[labels])} of them"
    if theirs.kind == "matrix" and list(left) != list(right):
        return f"order: {list(left)}, {list(right)}"
    return ""


def _by_labels(result: list[Any]) -> dict[tuple[tuple[str, str], ...], list[Any]]:
    found = {}
    for each in result:
        key = tuple(sorted(each["metric"].items()))
        assert key not in found, key
        found[key] = each["values"] if "values" in each else [each["value"]]
    return found


def _is_same(left: list[Any], right: list[Any]) -> bool:
    one, other = float(left[1]), float(right[1])
    if left[0] != right[0]:
        return False
    return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE)

"""Which of some names was probably meant by one that does not exist.

A name is suggested only when it is near: the number of edits (insert, delete, replace, swap two neighbours) must be
small for the length of the name, and upper and lower case do not count. A suggestion that is far off is worse than
none.
"""

from __future__ import annotations

from collections.abc import Iterable

CANDIDATES_MAX = 20_000
"""How many names are compared: with more, a mistake would cost a noticeable part of a second."""


def edits_allowed(name: str) -> int:
    """Return how many edits a suggestion may be away from a name of this length."""
    length = len(name)
    return 0 if length < 3 else 1 if length < 5 else 2 if length < 9 else 3


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that is nearest to a name, None if none is near."""
    return next(iter(nearest_many(name, candidates, count=1)), None)


def nearest_many(name: str, candidates: Iterable[str], *, count: int) -> list[str]:
    """Return the candidates that are near to a name, the nearest first, at most `count`."""
    wanted, allowed = name.lower(), edits_allowed(name)
    found = []
    for number, candidate in enumerate(candidates):
        if number >= CANDIDATES_MAX:
            break
        if abs(len(candidate) - len(wanted)) > allowed:
            continue
        distance = _distance(wanted, candidate.lower(), allowed)
        if distance <= allowed and candidate != name:
            found.append((distance, candidate))
    return [candidate for _, candidate in sorted(found)[:count]]


def _distance(left: str, right: str, allowed: int) -> int:
    """Return the number of edits between two texts, or more than `allowed` as soon as it is known to be more."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        last, before, row = before, row, [i]
        for j, b in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > allowed:
            return allowed + 1
    return row[-1]

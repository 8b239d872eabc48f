"""The judge of the soak: it finds rows that are missing, doubled, torn or wrong, and accepts what a ledger allows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.soak.check import find_problems
from tests.soak.requests import PROTOCOLS, ROWS, Table
from tests.soak.writer import Ledger, expected_sum

LEDGER = Ledger(following=4, attempts=Counter({1: 2, 2: 1, 4: 1}), doubtful={2})
"""Requests 0, 1 and 3 are acknowledged, the second one at the third attempt; 2 was given up, 4 is under way."""


def judge(table: Table, copies: dict[int, int], *, rows: int = 0, value: int = 0) -> list[str]:
    """Judge a table with so many copies of requests, and with some more rows of request 3."""
    requests = np.array(sorted(copies), np.int64)
    counts = np.array([copies[n] * ROWS + (rows if n == 3 else 0) for n in requests], np.int64)
    sums = np.array([copies[n] * expected_sum(n) + (value if n == 3 else 0) for n in requests], np.int64)
    return find_problems(table, LEDGER, requests, counts, sums)


@pytest.mark.parametrize("doubtful", [{}, {2: 1}, {4: 1}, {2: 1, 4: 1}])
def test_what_was_acknowledged_is_enough_and_what_is_in_doubt_may_be_there(doubtful: dict[int, int]) -> None:
    assert judge(Table("t"), {0: 1, 1: 1, 3: 1, **doubtful}) == []


@pytest.mark.parametrize(
    "copies",
    [
        {1: 1, 3: 1},
        {0: 1, 1: 1},
        {0: 2, 1: 1, 3: 1},
        {0: 1, 1: 2, 3: 1},
        {0: 1, 1: 1, 2: 2, 3: 1},
        {0: 1, 1: 1, 3: 1, 5: 1},
    ],
)
def test_what_is_missing_or_too_much_is_found(copies: dict[int, int]) -> None:
    assert len(judge(Table("t"), copies)) == 1


def test_in_append_mode_a_request_may_be_there_once_for_each_attempt() -> None:
    table = Table("t", is_append=True)
    assert judge(table, {0: 1, 1: 3, 2: 1, 3: 1}) == []
    assert len(judge(table, {0: 2, 1: 1, 3: 1})) == 1
    assert len(judge(table, {0: 1, 1: 4, 3: 1})) == 1


def test_a_torn_request_and_a_wrong_value_are_found() -> None:
    whole = {0: 1, 1: 1, 3: 1}
    assert len(judge(Table("t"), whole, rows=-1)) == 1
    assert len(judge(Table("t", is_atomic=False), whole, rows=-1)) == 1
    assert len(judge(Table("t"), whole, value=1)) == 1


def test_half_of_a_request_in_doubt_is_accepted_only_where_nothing_else_is_promised() -> None:
    requests = np.arange(5)
    counts = np.full(5, ROWS)
    counts[2] = ROWS // 2
    sums = np.array([expected_sum(n) for n in range(5)])
    assert find_problems(Table("t", is_atomic=False), LEDGER, requests, counts, sums) == []
    assert len(find_problems(Table("t"), LEDGER, requests, counts, sums)) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_a_request_that_is_made_again_is_the_same(protocol: object) -> None:
    make = protocol.make  # type: ignore[attr-defined]
    assert make("w", 7) == make("w", 7)
    assert make("w", 7) != make("w", 8)

"""Which regions are whole: tables of what a log holds, and the verdict.

A log is written as words: `7/3` is entry 3 of region 7, `7/3!` the same with a damaged payload, `##` bytes without a
trusted header, `seal(7/3,8/1)` a seal, `drop(7)` a drop marker. Region 99 exists, but the log holds nothing of it.
"""

from __future__ import annotations

import re

import pytest

from tsdb.engine.log.continuity import Continuity, Corruption


def read(log: str) -> Continuity:
    continuity = Continuity()
    for position, word in enumerate(log.split()):
        corruption = Corruption(0, position, 1, "test")
        pairs = [(int(region), int(entry)) for region, entry in re.findall(r"(\d+)/(\d+)", word)]
        if word == "##":
            continuity.see_damage(corruption)
        elif word.startswith("seal"):
            continuity.see_seal(dict(pairs))
        elif word.startswith("drop"):
            continuity.see_drop(int(word[5:-1]))
        elif word.endswith("!"):
            continuity.see_lost_frame(*pairs[0], corruption)
        else:
            continuity.see_frame(*pairs[0])
    return continuity


@pytest.mark.parametrize(
    ("log", "quarantined"),
    [
        ("", ""),
        ("7/1 8/1 7/2 8/2", ""),
        # A trusted header says whose entry is lost.
        ("7/1 8/1 7/2! 8/2", "7"),
        ("7/1 8/1 7/2!", "7"),
        ("7/1! 8/1", "7"),
        # Untrusted bytes: a region that goes on behind them is intact.
        ("7/1 8/1 ## 7/2 8/2", "99"),
        ("7/1 8/1 ## 7/2 8/3", "8 99"),
        ("7/1 8/1 ## 7/2", "8 99"),
        ("7/1 ## 8/1", "7 99"),
        ("7/1 ## 7/2 8/2", "8 99"),
        ("##", "99"),
        # Twice damaged: each range has to be proved.
        ("7/1 ## 7/2 ## 7/3", "99"),
        ("7/1 ## 7/2 ##", "7 99"),
        ("7/1 ## ## 7/3", "7 99"),
        # Seals prove it for all, also for those that were never heard of.
        ("7/1 8/1 ## seal(7/1,8/1)", ""),
        ("7/1 8/1 ## seal(7/1,8/2)", "8"),
        ("7/1 ## seal(7/1,8/1)", "8"),
        ("7/1 8/1 seal(7/1,8/1) ## 7/2", "8 99"),
        ("7/1 ## seal(7/1) 7/2 ## 7/3", "99"),
        ("7/1 ## seal(7/2) 7/3", "7"),
        # A drop marker voids everything before it.
        ("7/1 8/1 ## 8/2 drop(7)", "99"),
        ("7/1 7/2! 8/1 drop(7) 7/1", ""),
        ("7/5 drop(7) 7/1 7/2", ""),
        ("7/1 drop(7) ## 7/2", "7 99"),
        # Missing although nothing is damaged.
        ("7/1 7/3", "7"),
        ("7/2", "7"),
        ("7/1 7/2 7/2", "7"),
        ("seal(7/5) 7/6", "7"),
    ],
)
def test_verdict_when_nothing_is_flushed(log: str, quarantined: str) -> None:
    continuity = read(log)
    known = {99} | {int(region) for region in re.findall(r"(\d+)/", log)}
    found = {region for region in known if continuity.reason(region, 0) is not None}
    assert found == {int(region) for region in quarantined.split()}


@pytest.mark.parametrize(
    ("log", "floor", "is_whole"),
    [
        ("7/3 7/4", 1, False),
        ("7/3 7/4", 2, True),
        ("7/1 7/2! 7/3", 1, False),
        ("7/1 7/2! 7/3", 2, True),
        ("7/1 ## 7/5", 3, False),
        ("7/1 ## 7/5", 4, True),
        ("7/1 7/2 ##", 2, False),  # a third entry may have been in there
        ("7/1 ## seal(7/4)", 3, False),
        ("7/1 ## seal(7/4)", 4, True),
        ("seal(7/5) 7/6", 5, True),
        ("7/1 7/2 7/2", 2, True),
    ],
)
def test_losing_what_is_flushed_is_no_loss(log: str, floor: int, is_whole: bool) -> None:
    assert (read(log).reason(7, floor) is None) == is_whole


def test_damage_names_the_regions_that_it_may_have_cost_entries() -> None:
    found = read("7/1 8/1 9/1 10/1 7/2! ## 8/2 9/3 12/1").corruptions()
    assert [corruption.regions for corruption in found] == [(7,), (7, 9, 10)]


def test_reasons_say_which_entries_are_lost_and_where() -> None:
    assert read("7/1 7/2! 7/3").reason(7, 0) == "entry 2 is lost in segment 0000000000000000 bytes 1 to 2: test"
    assert read("7/1 ## 7/5").reason(7, 2) == "entries 3 to 4 are lost in segment 0000000000000000 bytes 1 to 2: test"
    assert read("7/4 7/2").reason(7, 3) == "entry ids go back from 4 to 2"
    assert "entries 1 to 4 are missing although nothing is damaged" in str(read("7/5").reason(7, 0))

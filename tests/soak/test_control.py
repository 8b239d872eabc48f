"""The control of the soaks: what the machine stood still is counted once."""

from __future__ import annotations

import pytest

from tests.soak.control import Control, Span, overlap


@pytest.mark.parametrize(
    ("stills", "seconds"),
    [
        ([], 0),
        ([(0, 9)], 0),
        ([(0, 12), (11, 13)], 3),
        ([(12, 14), (11, 19), (13, 15)], 8),
        ([(18, 30), (5, 11)], 3),
        ([(0, 99)], 10),
    ],
)
def test_what_several_noticed_is_counted_once(stills: list[Span], seconds: float) -> None:
    assert overlap((10, 20), stills) == seconds
    assert Control(stills).still_within((10, 20)) == seconds

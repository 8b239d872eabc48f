"""A suggestion is near, or there is none."""

from __future__ import annotations

import pytest

from tsdb.nearest import nearest, nearest_many


@pytest.mark.parametrize(
    ("name", "candidates", "expected"),
    [
        ("hst", ["host", "ts", "usage"], "host"),
        ("Host", ["host"], "host"),
        ("uasge", ["usage"], "usage"),
        ("foo", ["now", "fold"], None),
        ("quantile", ["to_time", "ntile"], None),
        ("x", ["y"], None),
        ("abss", ["abs", "atan"], "abs"),
        ("temprature_celsius", ["temperature_celsius", "temperature"], "temperature_celsius"),
        ("cpu", [], None),
    ],
)
def test_only_what_is_near_is_suggested(name: str, candidates: list[str], expected: str | None) -> None:
    assert nearest(name, candidates) == expected


def test_the_nearest_comes_first() -> None:
    assert nearest_many("health", ["wealth", "healths", "heal", "status"], count=2) == ["healths", "wealth"]

"""The documentation as a site: every page is in the navigation, once. The generator itself runs in `make docs`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tidy.site import foreign_loads

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]


def _pages(entry: Any) -> Iterator[str]:
    """The pages of an entry of the navigation: a path, or a title with entries."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for entries in entry.values():
            yield from _pages(entries)
    else:
        for each in entry:
            yield from _pages(each)


def test_every_page_is_in_the_navigation_once() -> None:
    docs = ROOT / PROJECT["docs_dir"]
    pages = sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    assert sorted(_pages(PROJECT["nav"])) == pages, "zensical.toml lists the pages of docs/"


def test_the_navigation_is_in_the_order_of_use() -> None:
    titles = [title for entry in PROJECT["nav"] for title in entry]
    assert titles == ["Start", "Guides", "Protocols", "Operations", "Reference", "Decisions"]
    decisions = list(_pages(PROJECT["nav"][-1]))
    assert decisions == sorted(decisions)


def test_every_page_begins_with_its_title() -> None:
    for page in _pages(PROJECT["nav"]):
        assert (ROOT / PROJECT["docs_dir"] / page).read_text(encoding="utf-8").startswith("# "), page


def test_no_fonts_come_from_another_host() -> None:
    assert PROJECT["theme"]["font"] is False


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<script src="assets/page.js"></script><link rel="stylesheet" href="../a.css"><img src="x.png">', []),
        ('<a href="https://semver.org">versions</a><link rel="canonical" href="https://example.org/a">', []),
        ('<script src="https://example.org/a.js"></script>', ["script https://example.org/a.js"]),
        ('<link rel="stylesheet" href="//example.org/a.css">', ["link //example.org/a.css"]),
        ('<img src="http://example.org/a.png">', ["img http://example.org/a.png"]),
    ],
)
def test_what_a_page_loads_from_other_hosts_is_found(html: str, expected: list[str]) -> None:
    assert foreign_loads(html) == expected

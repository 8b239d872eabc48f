"""Pages of decisions: listed, complete, and with measurements and files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.__main__ import find_names

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "decisions").glob("*.md"))
COMPLETE = [page for page in PAGES if page.name >= "0003"]
MEASURED = [page for page in COMPLETE if "**Measurement.**" in page.read_text(encoding="utf-8")]
PARTS = ("**Decision.**", "**Why.**", "**Alternatives.**", "**What would reverse it.**")


def test_every_page_is_listed_once() -> None:
    listed = re.findall(r"\(decisions/([^)]+)\)", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    assert sorted(listed) == [page.name for page in PAGES]


@pytest.mark.parametrize("page", COMPLETE, ids=lambda page: page.stem)
def test_a_page_has_all_parts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [part for part in PARTS if part not in text] == []


@pytest.mark.parametrize("page", MEASURED, ids=lambda page: page.stem)
def test_a_measured_page_names_benchmarks_and_files_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = re.findall(r"`python -m benchmarks ([^`]+)`", text)
    assert commands
    assert {name for command in commands for name in command.split()} <= set(find_names())
    for path in re.findall(r"`((?:tsdb|kernels|tests)/[^`]*)`", text):
        assert (ROOT / path).exists(), path

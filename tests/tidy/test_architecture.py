"""`docs/architecture.md` names files that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FILES = frozenset(path.relative_to(ROOT).as_posix() for path in ROOT.glob("t*/**/*.py"))


def test_every_path_exists() -> None:
    named = set(re.findall(r"\btsdb/[\w/]+\.py\b", TEXT))
    assert len(named) > 40
    assert sorted(named - FILES) == []


def test_every_shortened_path_is_the_end_of_one() -> None:
    named = set(re.findall(r"[\w/]+\.py\b", TEXT))
    assert sorted(name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in FILES)) == []


def test_every_package_exists() -> None:
    named = set(re.findall(r"`(tsdb/[\w/]+/)`", TEXT))
    assert named
    assert sorted(name for name in named if not (ROOT / name).is_dir()) == []

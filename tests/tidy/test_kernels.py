"""The Rust crate: modules are grouped by what they serve, and a group uses only the groups below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "kernels" / "src"
LAYERS = {"rows": 1, "wire": 1, "parquet": 1, "ingest": 2, "prom": 2}
SHARED_FILES_MAX = 6
LINES_MAX = 700
FUNCTION_LINES_MAX = 70

_GROUP = re.compile(r"\bcrate::(\w+)")
_FUNCTION = re.compile(r"^( *)(?:pub(?:\(\w+\))? )?(?:const )?(?:unsafe )?fn (\w+)")


def _files() -> list[Path]:
    return sorted(SOURCES.rglob("*.rs"))


def test_a_group_uses_only_lower_groups() -> None:
    offences = []
    for path in _files():
        here = path.relative_to(SOURCES).with_suffix("").parts[0]
        if here == "lib":
            continue
        for there in _GROUP.findall(path.read_text(encoding="utf-8")):
            if there != here and LAYERS.get(there, 0) >= max(1, LAYERS.get(here, 0)):
                offences.append(f"{path.relative_to(SOURCES)} uses {there}")
    assert not offences, "\n".join(offences)


def test_the_root_has_the_groups_and_a_few_shared_files() -> None:
    root = {path.stem for path in SOURCES.glob("*.rs")} - {"lib"}
    assert root >= set(LAYERS)
    assert len(root - set(LAYERS)) <= SHARED_FILES_MAX


@pytest.mark.parametrize("path", _files(), ids=lambda path: str(path.relative_to(SOURCES)))
def test_a_file_opens_with_what_it_is_and_stays_readable(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("//! ")
    assert len(lines) <= LINES_MAX
    for number, line in enumerate(lines):
        found = _FUNCTION.match(line)
        if found and not line.endswith(("}", ";")):
            length = lines[number:].index(f"{found[1]}}}") + 1
            assert length <= FUNCTION_LINES_MAX, f"{found[2]} has {length} lines"

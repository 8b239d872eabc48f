"""The lock file of the dashboard names what is installed by its content, and no place that it comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[2] / "dashboard" / "package-lock.json"


def _packages() -> dict[str, dict[str, Any]]:
    packages: dict[str, dict[str, Any]] = json.loads(LOCK.read_text(encoding="utf-8"))["packages"]
    return {name: package for name, package in packages.items() if name}


def test_every_package_that_is_needed_here_has_a_checksum() -> None:
    """Without one are only Biome's programs for other systems, which are never installed on these."""
    without = [name for name, package in _packages().items() if "integrity" not in package]
    assert [name for name in without if not name.startswith("node_modules/@biomejs/cli-")] == []
    assert all(_packages()[name]["optional"] for name in without)


def test_no_host_is_named() -> None:
    assert not [name for name, package in _packages().items() if "resolved" in package]
    assert "://" not in json.dumps([package | {"funding": None} for package in _packages().values()])

"""Which build this is: the version of the distribution, and commit and branch when it runs from a checkout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tsdb import __version__

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """The build information that `/status` shows."""

    version: str
    commit: str
    branch: str


def build_info(checkout: Path = Path(__file__).parents[2]) -> BuildInfo:
    """Read the build's identity; an installed distribution has no commit to tell."""
    head = _read(checkout / ".git/HEAD")
    reference = head.removeprefix("ref: ")
    if head == reference:
        return BuildInfo(__version__, head or UNKNOWN, UNKNOWN)
    commit = _read(checkout / ".git" / reference) or _packed(checkout / ".git/packed-refs", reference)
    return BuildInfo(__version__, commit or UNKNOWN, reference.removeprefix("refs/heads/"))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _packed(path: Path, reference: str) -> str:
    for line in _read(path).splitlines():
        commit, _, name = line.partition(" ")
        if name == reference:
            return commit
    return ""

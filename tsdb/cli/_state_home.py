"""Where command-line clients keep what lasts: history and the states of imports."""

from __future__ import annotations

import os
from pathlib import Path


def state_directory() -> Path:
    """`$XDG_STATE_HOME/tsdb`, or `~/.local/state/tsdb`."""
    given = os.environ.get("XDG_STATE_HOME", "")
    base = Path(given) if given.startswith("/") else Path.home() / ".local" / "state"
    return base / "tsdb"

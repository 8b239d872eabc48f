"""The history of the shell: one file per user, readable only by the user, and without passwords."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from tsdb.cli._state_home import state_directory

BYTES_MAX = 4 << 20
"""A longer file loses its older half when a shell starts."""
_SECRET = re.compile(r"\b(?:password|identified\s+by|secret_?access_?key|account_?key|sas_?token)\b", re.IGNORECASE)


class SecretFreeHistory(FileHistory):
    """A history whose file does not get statements with passwords or keys."""

    def store_string(self, string: str) -> None:
        if not _SECRET.search(string):
            with suppress(OSError):  # a full disk must not end the shell
                super().store_string(string)

    def load_history_strings(self) -> Iterable[str]:
        with suppress(OSError):
            yield from super().load_history_strings()


def open_history() -> History:
    """Open the history; without a place to write it lasts as long as the shell."""
    try:
        directory = state_directory()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = directory / "history"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
        _shorten(path)
    except OSError:
        return InMemoryHistory()
    return SecretFreeHistory(str(path))


def _shorten(path: Path) -> None:
    if path.stat().st_size <= BYTES_MAX:
        return
    kept = path.read_bytes()[-BYTES_MAX // 2 :]
    start = kept.find(b"\n# ")
    shorter = path.with_suffix(".new")
    shorter.write_bytes(kept[start:] if start >= 0 else b"")
    shorter.chmod(0o600)
    shorter.replace(path)

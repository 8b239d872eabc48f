"""What an interrupted export leaves: a part of the file, and a state that says how much of it counts.

Both are beside the file, so that they are on the same file system, and move with it:

    .cpu.csv.part          rows, in the format of the file; as Arrow on their way to Parquet
    .cpu.csv.part.state    JSON: what is exported, the time up to which, and how long the part is then

- The part is synced before a state is saved that counts on it. What is behind its end in the state is cut off.
- The part is locked while an export writes it.
- The part gets its final name first, then the state is removed: a state without a part is worth nothing.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import orjson

from tsdb.cli.transfer._state import replace_file
from tsdb.errors import InvalidArguments

_VERSION = 1
_STATE_BYTES_MAX = 16 << 20
_RESTART = "continue with the same command, or begin anew with --restart"


class OtherExport(InvalidArguments):
    """What was kept belongs to another export, or the table is another one by now."""


@dataclass
class ExportState:
    """How far an export has come."""

    settings: dict[str, str]
    """What has to be the same, as people call it."""
    columns: list[list[str]]
    """Names and types."""
    first: int
    """The first time of the table, in the unit of its time column."""
    last: int
    """The last time; an empty table has it before the first one."""
    next: int
    """Rows before this time are in the part."""
    size: int = 0
    """How many bytes of the part count."""
    rows: int = 0
    left_out: int = 0
    version: int = _VERSION

    @property
    def is_read(self) -> bool:
        """Whether all rows are in the part."""
        return self.next > self.last


class KeptExport:
    """The part and the state of the export to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.part = path.with_name(f".{path.name}.part")
        self.state = path.with_name(f".{path.name}.part.state")

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open the part for this export alone; it is removed at the end if there is no state that counts on it."""
        descriptor = os.open(self.part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "r+b") as file:
            self._lock(file)
            try:
                yield file
            finally:
                if not self.state.exists() and self._is_ours(file):
                    self.part.unlink(missing_ok=True)

    def _lock(self, file: BinaryIO) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = self._is_ours(file)
        except BlockingIOError:
            is_free = False
        if not is_free:
            raise InvalidArguments(f"another export to {self.path} is running", hint="wait for its end")

    def _is_ours(self, file: BinaryIO) -> bool:
        """Whether the part is still the file that was opened: who had the lock before may have renamed it."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), self.part.stat())
        except FileNotFoundError:
            return False

    def load(self, settings: Mapping[str, str], columns: list[list[str]], *, size: int) -> ExportState | None:
        """Return the state of an interrupted export; that of another export is an error."""
        found = self._read()
        if found is None:
            return None
        differing = [name for name in settings if found.settings.get(name) != settings[name]]
        if differing:
            what = ", ".join(
                f"{name} {_shown(found.settings.get(name))}, now {_shown(settings[name])}" for name in differing
            )
            raise OtherExport(f"an interrupted export to {self.path} was another one: {what}", hint=_RESTART)
        if found.columns != columns:
            raise changed_columns()
        return found if size >= found.size else None

    def _read(self) -> ExportState | None:
        try:
            with self.state.open("rb") as file:
                found = orjson.loads(file.read(_STATE_BYTES_MAX))
            if found["version"] != _VERSION:
                raise OtherExport(f"{self.state} is of another version of tsdb", hint=_RESTART)
            return ExportState(**found)
        except FileNotFoundError:
            return None
        except (orjson.JSONDecodeError, TypeError, KeyError) as error:
            raise OtherExport(f"{self.state} is not the state of an export", hint=_RESTART) from error

    def save(self, state: ExportState) -> None:
        replace_file(self.state, orjson.dumps(asdict(state)), self.state.with_name(f"{self.state.name}.new"))

    def finish(self, whole: Path) -> None:
        """Give the whole file its name, and forget everything else."""
        whole.replace(self.path)
        self.forget()

    def forget(self) -> None:
        with suppress(FileNotFoundError):
            self.state.unlink()


def changed_columns() -> OtherExport:
    hint = "begin anew with --restart"
    return OtherExport("the columns of the table have changed since the export began", hint=hint)


def _shown(value: str | None) -> str:
    return value or "none"

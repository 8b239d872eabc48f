"""The state of an import: up to where everything was acknowledged, so that an interrupted one can continue there.

A state fits an import if source and options are the same. The file is replaced as a whole, and removed when the import
is complete. Whatever came after the position is written again: a row with the same tags and time replaces itself.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tsdb.cli._state_home import state_directory
from tsdb.errors import InvalidArguments

VERSION = 1
_STATE_BYTES_MAX = 64 << 20
_HEAD_BYTES = 1 << 16


@dataclass
class ImportState:
    """How far an import has come."""

    fingerprint: str
    position: dict[str, Any] = field(default_factory=dict)
    """In the terms of the source; empty at its beginning."""
    rows: int = 0
    rejected: int = 0
    extra: dict[str, Any] = field(default_factory=dict)
    """What the source decided at the start and has to keep."""
    version: int = VERSION


class StateFile:
    """Where a state is kept between runs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self, fingerprint: str) -> ImportState | None:
        """Return the state if it is one of the same import."""
        try:
            if self.path.stat().st_size > _STATE_BYTES_MAX:
                return None
            found = orjson.loads(self.path.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return None
        if not isinstance(found, dict) or found.get("version") != VERSION or found.get("fingerprint") != fingerprint:
            return None
        return ImportState(**found)

    def save(self, state: ImportState) -> None:
        """Replace the file, so that a crash leaves the old state or the new one."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            beside = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            replace_file(self.path, orjson.dumps(asdict(state)), beside)
        except OSError as error:
            hint = "choose another place with --state, or --no-resume"
            raise InvalidArguments(f"the state file {self.path} cannot be written: {error}", hint=hint) from error

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes, beside: Path) -> None:
    """Write a file as a whole, beside the old one, and sync it before it takes the name."""
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def default_state_path(identity: str) -> Path:
    """A file for each source and target, in the user's state directory."""
    name = hashlib.sha256(identity.encode()).hexdigest()[:24]
    return state_directory() / "imports" / f"{name}.json"


def file_identity(path: Path) -> list[object]:
    """What makes a file the same one: its size, when it was changed, and how it begins."""
    facts = path.stat()
    with path.open("rb") as file:
        head = hashlib.sha256(file.read(_HEAD_BYTES)).hexdigest()
    return [str(path.resolve()), facts.st_size, facts.st_mtime_ns, head]


def fingerprint_of(*parts: object) -> str:
    """A short text that differs when any of the parts does."""
    return hashlib.sha256(orjson.dumps(parts, default=str)).hexdigest()

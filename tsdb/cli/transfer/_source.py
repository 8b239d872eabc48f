"""What every source of an import offers: pieces with the position behind each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tsdb.cli.transfer._batches import RejectedRow, WriteBatch
from tsdb.cli.transfer._progress import SizeUnit
from tsdb.cli.transfer._state import file_identity


@dataclass(frozen=True)
class Piece:
    """A part of a source: what it writes, what of it cannot be written, and the position behind it."""

    batches: Sequence[WriteBatch]
    position: dict[str, Any]
    done: int
    """How much of the source lies behind, in the unit of `ImportSource.size`."""
    rejected: Sequence[RejectedRow] = field(default=())


class ImportSource(Protocol):
    """Where rows come from."""

    name: str

    @property
    def unit(self) -> SizeUnit:
        """What its size counts."""

    @property
    def size(self) -> int | None:
        """How much there is; None if that is not known."""

    def identity(self) -> list[object] | None:
        """What makes the source the same one in a later run; None if it cannot be continued."""

    def prepare(self, extra: dict[str, Any]) -> dict[str, Any]:
        """Decide what has to be the same after an interruption, or take what was decided before."""

    def pieces(self, position: dict[str, Any]) -> Iterator[Piece]:
        """Read from a position on; an empty one is the beginning."""


class FileSource:
    """Common to sources that are files, or the standard input, which cannot be continued."""

    unit: SizeUnit = "bytes"

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def size(self) -> int | None:
        return None if self.name == "-" or self.name.endswith(".gz") else Path(self.name).stat().st_size

    def identity(self) -> list[object] | None:
        return None if self.name == "-" else file_identity(Path(self.name))

    def prepare(self, extra: dict[str, Any]) -> dict[str, Any]:
        return extra

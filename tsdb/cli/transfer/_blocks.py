"""A stream of bytes in blocks that end where a record ends.

    NONE       a record ends at a line feed
    DOUBLED    … outside quotes; a quote inside is doubled, as in CSV
    ESCAPED    … outside quotes; a quote inside has a backslash before it, as in line protocol

Quotes are counted: inside a quoted text the number of quotes before a place is odd.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from tsdb.errors import InvalidArguments

BLOCK_BYTES = 1 << 20
RECORD_BYTES_MAX = 32 << 20
_LINE_FEED, _QUOTE, _BACKSLASH = 0x0A, 0x22, 0x5C
_LOST_BYTES = 4 << 20

Offsets = npt.NDArray[np.int64]


class Quotes(Enum):
    """How texts are quoted that may have line feeds in them."""

    NONE = "none"
    DOUBLED = "doubled"
    ESCAPED = "escaped"


class UnreadableSource(InvalidArguments):
    """The source of an import cannot be opened, or is not what it is said to be."""


@dataclass(frozen=True)
class SourceBlock:
    """Whole records, and where they are in the stream."""

    data: bytes
    end: int
    """The offset behind it."""
    first_line: int
    """The number of its first line, from 1."""
    lines: int
    """How many lines it has."""
    starts: Offsets
    """Where each record begins in `data`."""

    def record_lines(self) -> Offsets:
        """Return the line on which each record begins."""
        feeds = np.flatnonzero(np.frombuffer(self.data, np.uint8) == _LINE_FEED)
        return self.first_line + np.searchsorted(feeds, self.starts)


@contextmanager
def open_source(name: str) -> Iterator[BinaryIO]:
    """Open a file, unpacked if its name ends with .gz, or the standard input for `-`."""
    if name == "-":
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            if name.endswith(".gz"):
                file = cast(BinaryIO, stack.enter_context(gzip.open(name, "rb")))
            else:
                file = stack.enter_context(Path(name).open("rb"))
        except OSError as error:
            raise UnreadableSource(f"{name} cannot be read: {error.strerror}") from error
        yield file


def read_blocks(stream: BinaryIO, *, offset: int, line: int, quotes: Quotes = Quotes.NONE) -> Iterator[SourceBlock]:
    """Yield blocks from an offset on, at which a record begins; `line` is its line."""
    rest = b""
    while True:
        more = _read(stream)
        data = rest + more
        cut, starts = _cut(data, quotes, is_last=not more)
        if cut:
            block = data[:cut]
            lines = block.count(b"\n") + (not block.endswith(b"\n"))
            yield SourceBlock(block, offset + cut, line, lines, starts)
            offset, line = offset + cut, line + lines
        rest = data[cut:]
        if not more:
            return
        if len(rest) > RECORD_BYTES_MAX:
            raise UnreadableSource(f"the record at line {line} is longer than {RECORD_BYTES_MAX} bytes")


def _read(stream: BinaryIO) -> bytes:
    try:
        return stream.read(BLOCK_BYTES)
    except (OSError, EOFError) as error:
        raise UnreadableSource(f"the rest of the source cannot be read: {error}") from error


def _cut(data: bytes, quotes: Quotes, *, is_last: bool) -> tuple[int, Offsets]:
    """Return where the last whole record ends, and where the records before it begin."""
    view = np.frombuffer(data, np.uint8)
    feeds = np.flatnonzero(view == _LINE_FEED)
    if quotes is not Quotes.NONE and b'"' in data:
        places = np.flatnonzero(view == _QUOTE)
        if quotes is Quotes.ESCAPED:
            places = places[view[places - 1] != _BACKSLASH]
        outside = feeds[np.searchsorted(places, feeds) % 2 == 0]
        # In line protocol a quote may also stand for itself. Lines that seem to have no end are cut at any line feed.
        is_lost = quotes is Quotes.ESCAPED and not len(outside) and len(data) > _LOST_BYTES
        feeds = feeds if is_lost else outside
    end = len(data) if is_last else int(feeds[-1]) + 1 if len(feeds) else 0
    starts = np.concatenate([np.zeros(1, np.int64), feeds + 1])
    return end, starts[starts < end]


def records_of(block: SourceBlock) -> Iterator[tuple[int, bytes]]:
    """Yield line and text of each record that is not blank."""
    stops = np.append(block.starts[1:], len(block.data))
    for number, start, stop in zip(block.record_lines().tolist(), block.starts.tolist(), stops.tolist(), strict=True):
        text = block.data[start:stop].strip()
        if text:
            yield number, text


def split_lines(block: SourceBlock) -> Iterator[tuple[int, bytes]]:
    """Yield number and text of each line that is not blank."""
    for number, text in enumerate(block.data.split(b"\n"), block.first_line):
        stripped = text.strip()
        if stripped:
            yield number, stripped

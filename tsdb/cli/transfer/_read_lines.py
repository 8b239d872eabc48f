"""InfluxDB line protocol: lines go to the server as they are, blank ones and comments left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tsdb.cli.transfer._batches import LinesBatch
from tsdb.cli.transfer._blocks import Quotes, SourceBlock, open_source, read_blocks, records_of
from tsdb.cli.transfer._source import FileSource, Piece


class LineProtocolSource(FileSource):
    """A file of line protocol, or line protocol on the standard input."""

    def __init__(self, name: str, *, database: str, precision: str, source: str) -> None:
        super().__init__(name)
        self._database = database
        self._precision = precision
        self._source = source

    def pieces(self, position: dict[str, Any]) -> Iterator[Piece]:
        with open_source(self.name) as stream:
            if position:
                stream.seek(position["offset"])
            offset, line = position.get("offset", 0), position.get("line", 1)
            for block in read_blocks(stream, offset=offset, line=line, quotes=Quotes.ESCAPED):
                yield self._piece(block)

    def _piece(self, block: SourceBlock) -> Piece:
        found = [(number, text) for number, text in records_of(block) if not text.startswith(b"#")]
        after = {"offset": block.end, "line": block.first_line + block.lines}
        if not found:
            return Piece([], after, block.end)
        numbers, texts = zip(*found, strict=True)
        return Piece([LinesBatch(self._database, self._precision, texts, self._source, numbers)], after, block.end)

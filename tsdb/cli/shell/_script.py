"""Statements of a script, one after the other, read as they arrive."""

from __future__ import annotations

import codecs
from typing import BinaryIO

from tsdb.cli.shell._meta import run_meta
from tsdb.cli.shell._shell import Shell
from tsdb.cli.shell._statements import Entered, ScriptReader
from tsdb.errors import InvalidSyntax, TsdbError

_READ_BYTES = 1 << 16
DEPTH_MAX = 16
"""How deep scripts may include others."""


class _Stream:
    """Text of a stream, as far as it has arrived."""

    def __init__(self, stream: BinaryIO) -> None:
        self._read = getattr(stream, "read1", stream.read)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read_more(self) -> str:
        while True:
            found: bytes = self._read(_READ_BYTES)
            text = self._decoder.decode(found, final=not found)
            if text or not found:
                return text


class _Text:
    def __init__(self, text: str) -> None:
        self._text = text

    def read_more(self) -> str:
        text, self._text = self._text, ""
        return text


class ScriptDepthExceeded(InvalidSyntax):
    """A script includes itself, or too many others."""


def run_script(shell: Shell, stream: BinaryIO, *, name: str, keeps_going: bool = False) -> TsdbError | None:
    """Run everything in a stream; see `run_entries`."""
    return _run_entries(shell, ScriptReader(_Stream(stream)), name=name, keeps_going=keeps_going)


def run_text(shell: Shell, text: str, *, keeps_going: bool = False) -> TsdbError | None:
    """Run everything in a text; see `run_entries`."""
    return _run_entries(shell, ScriptReader(_Text(text)), name=None, keeps_going=keeps_going)


def _run_entries(shell: Shell, reader: ScriptReader, *, name: str | None, keeps_going: bool) -> TsdbError | None:
    """Run entries up to the first error, which is raised with its place; with `keeps_going` it is told and returned."""
    shell.depth += 1
    if shell.depth > DEPTH_MAX:
        raise ScriptDepthExceeded(f"scripts include each other more than {DEPTH_MAX} deep", file=name)
    last: TsdbError | None = None
    try:
        while (entered := reader.next(shell.settings.language)) is not None:
            try:
                run_entry(shell, entered)
            except TsdbError as error:
                if name is not None:
                    error.fields.setdefault("file", name)
                    error.fields.setdefault("line", reader.line)
                if not keeps_going:
                    raise
                shell.tell_error(error)
                last = error
    finally:
        shell.depth -= 1
    return last


def run_entry(shell: Shell, entered: Entered) -> None:
    """Run a statement or a meta command."""
    if entered.is_meta:
        run_meta(shell, entered.text)
    else:
        shell.run(entered.text)

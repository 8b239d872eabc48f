"""Edits of a text: ranges to replace, collected until all are known.

Edits that only insert may stand where others begin; of two insertions at one place the later one goes first, because
what is found later (the second of two casts in a row) encloses what was found before.
"""

from __future__ import annotations

from typing import NamedTuple


class TextEdit(NamedTuple):
    """Replace `text[start:end]`."""

    start: int
    end: int
    replacement: str


class Edits:
    """The edits of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: list[TextEdit] = []

    def __bool__(self) -> bool:
        return bool(self._edits)

    def replace(self, start: int, end: int, replacement: str) -> None:
        self._edits.append(TextEdit(start, end, replacement))

    def insert(self, position: int, text: str) -> None:
        self._edits.append(TextEdit(position, position, text))

    def touches(self, start: int, end: int) -> bool:
        """Return whether something between two places is edited."""
        return any(start <= edit.start and edit.end <= end for edit in self._edits)

    def covers(self, start: int, end: int) -> bool:
        """Return whether a range is replaced as a whole."""
        return any(edit.start <= start and end <= edit.end and edit.start < edit.end for edit in self._edits)

    def absorb(self, start: int, end: int, replacement: str, *, keeps_before: bool = True) -> None:
        """Replace a range together with every edit inside of it; an insertion right before it stays if it should."""
        self._edits = [
            edit
            for edit in self._edits
            if not (start < edit.end and edit.start < end) and (keeps_before or not edit.start == edit.end == start)
        ]
        self.replace(start, end, replacement)

    def take(self, start: int, end: int, replacement: str) -> None:
        """Replace a range together with every edit inside of it and at its ends; not one inside of another edit."""
        if any(edit.start <= start and end <= edit.end and end - start < edit.end - edit.start for edit in self._edits):
            return
        self._edits = [edit for edit in self._edits if not (start <= edit.start and edit.end <= end)]
        self.replace(start, end, replacement)

    def render(self, start: int = 0, end: int | None = None) -> str:
        """Return the text between two places with its edits."""
        end = len(self._text) if end is None else end
        numbered = [
            (edit.start, edit.end > edit.start, -number, edit)
            for number, edit in enumerate(self._edits)
            if start <= edit.start and edit.end <= end
        ]
        if not numbered:
            return self._text[start:end]
        pieces, position = [], start
        for *_, edit in sorted(numbered):
            pieces += [self._text[position : edit.start], edit.replacement]
            position = edit.end
        return "".join(pieces) + self._text[position:end]

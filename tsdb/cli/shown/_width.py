"""How many columns of a terminal a text takes: East Asian characters take two, combining marks none."""

from __future__ import annotations

import re
from functools import lru_cache

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_KNOWN_MAX = 4096


def display_width(text: str) -> int:
    """The width of a text without control characters."""
    return len(text) if text.isascii() else _wide_width(text)


@lru_cache(_KNOWN_MAX)
def _wide_width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def printable(text: str) -> str:
    """Escape what would move the cursor, change colours or reorder text: a value must not control the terminal."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL.sub(lambda found: _SHORT.get(found[0], f"\\u{ord(found[0]):04x}"), text)


def pad(text: str, width: int, *, is_right: bool) -> str:
    """Fill a text up to a width, on the left if it stands at the right."""
    blanks = " " * (width - display_width(text))
    return blanks + text if is_right else text + blanks

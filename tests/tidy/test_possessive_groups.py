"""Regular expressions that work in every Python that tsdb runs with.

Before 3.11.5 a group that is repeated possessively goes on where its last, failed alternative ended (gh-106052), for
instance with Debian 12. An alternative `NEVER` at its end makes it begin anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import tsdb

_PACKAGE = Path(tsdb.__file__).parent


def test_possessive_groups_end_with_an_alternative_that_never_matches() -> None:
    found = 0
    for path in sorted(_PACKAGE.rglob("*.py")):
        text = path.read_text()
        for match in re.finditer(r"\)[*+?]\+", text):
            line = text.count("\n", 0, match.start()) + 1
            assert text[: match.start()].endswith(("|{NEVER}", "|(?!)")), f"{path.relative_to(_PACKAGE)}:{line}"
            found += 1
    assert found > 5

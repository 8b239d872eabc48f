"""Checks that a site of the documentation loads nothing from other hosts: `python -m tests.tidy.site DIR`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

_LOADED = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
}
_NOT_LOADED = {"canonical", "prev", "next"}
"""Relations of a link that name a page and do not load it."""


class _Loads(HTMLParser):
    """Collects the addresses that a page loads from other hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        address = values.get(_LOADED.get(tag, "")) or ""
        if address.startswith(("http:", "https:", "//")) and values.get("rel") not in _NOT_LOADED:
            self.foreign.append(f"{tag} {address}")


def foreign_loads(html: str) -> list[str]:
    """Return what a page loads from other hosts, as tag and address."""
    parser = _Loads()
    parser.feed(html)
    return parser.foreign


def problems(site: Path) -> Iterator[str]:
    """Yield what is wrong with a built site."""
    pages = sorted(site.rglob("*.html"))
    if not pages or not (site / "search.json").stat().st_size:
        yield f"{site} has no pages or no search index"
    for page in pages:
        for load in foreign_loads(page.read_text(encoding="utf-8")):
            yield f"{page} loads from another host: {load}"
    for style in sorted(site.rglob("*.css")):
        if "url(http" in style.read_text(encoding="utf-8"):
            yield f"{style} loads from another host"


if __name__ == "__main__":
    found = list(problems(Path(sys.argv[1])))
    print("\n".join(found) or "the site loads nothing from other hosts")
    sys.exit(bool(found))

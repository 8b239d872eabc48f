"""The files of the built page: what each is, how long it may be cached, and its compressed form.

The names of files in `assets/` contain a hash of their content, so they never change. All others are asked for again
each time, which their ETag makes cheap.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

INDEX = "index.html"
ASSETS = "assets/"
FILE_BYTES_MAX = 4 << 20
"""A larger file is not part of the page."""

_PACKED = ".gz"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class SiteFile:
    """One file of the page."""

    body: bytes
    packed: bytes | None
    """The same compressed with gzip; None if the build has made no such file."""
    content_type: str
    etag: str
    is_immutable: bool


class Site:
    """The files of a folder, read once they are there: a page that is built while the server runs is found."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, SiteFile] = {}

    @property
    def is_read(self) -> bool:
        return bool(self._files)

    def read(self) -> None:
        """Read all files into memory: some hundred kilobytes."""
        if not (self._folder / INDEX).is_file():
            return
        found = {}
        for path in sorted(self._folder.rglob("*")):
            content_type = _TYPES.get(path.suffix)
            if content_type is not None and path.stat().st_size <= FILE_BYTES_MAX:
                name = path.relative_to(self._folder).as_posix()
                found[name] = _read_file(path, content_type, is_immutable=name.startswith(ASSETS))
        self._files = found

    def find(self, name: str) -> SiteFile | None:
        """Return the file of a path below the page; only files that were found in the folder can be asked for."""
        return self._files.get(name)


def _read_file(path: Path, content_type: str, *, is_immutable: bool) -> SiteFile:
    body = path.read_bytes()
    packed = path.with_name(path.name + _PACKED)
    return SiteFile(
        body=body,
        packed=packed.read_bytes() if packed.is_file() else None,
        content_type=content_type,
        etag=blake2b(body, digest_size=12).hexdigest(),
        is_immutable=is_immutable,
    )

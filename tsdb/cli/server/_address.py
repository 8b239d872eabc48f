"""Where a server is, and as whom and how to talk to it."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from tsdb.errors import InvalidArguments

DEFAULT_URL = "http://127.0.0.1:4000"
CONNECT_SECONDS = 10.0
IDLE_SECONDS_MAX = 600.0
"""How long to wait for the next bytes of an answer when the server's own timeout applies."""
_GRACE_SECONDS = 10.0


class InvalidAddress(InvalidArguments):
    """The URL of a server cannot be used."""


@dataclass(frozen=True)
class ServerAddress:
    """The address of a server, the login, and the limits of requests."""

    scheme: str
    host: str
    port: int
    path: str = ""
    """What comes before every path, if a proxy serves several servers."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    timeout_seconds: float | None = None
    """The timeout of each statement; None leaves it to the server, 0 means no limit."""
    connect_seconds: float = CONNECT_SECONDS
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verifies: bool = True
    """Whether the certificate of the server is checked."""

    @property
    def url(self) -> str:
        """The address without the login, as it is shown."""
        return f"{self.scheme}://{self.location}{self.path}"

    @property
    def location(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def read_seconds_max(self) -> float | None:
        """How long to wait for bytes: somewhat longer than the server works on a statement."""
        if self.timeout_seconds is None:
            return IDLE_SECONDS_MAX
        return self.timeout_seconds + _GRACE_SECONDS if self.timeout_seconds else None

    @property
    def headers(self) -> dict[str, str]:
        found = {"User-Agent": "tsdb-cli"}
        if self.timeout_seconds is not None:
            found["x-tsdb-timeout"] = f"{round(self.timeout_seconds * 1000)}ms" if self.timeout_seconds else "0s"
        if self.user is not None:
            login = f"{self.user}:{self.password or ''}".encode()
            found["Authorization"] = f"Basic {base64.b64encode(login).decode('ascii')}"
        return found


def parse_address(url: str) -> ServerAddress:
    """Read `http[s]://[user[:password]@]host[:port][/path]`; the scheme may be missing."""
    text = url if "://" in url else f"http://{url}"
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https"):
        raise InvalidAddress(f"the URL {url!r} begins with {parts.scheme}://, expected http:// or https://")
    if not parts.hostname:
        raise InvalidAddress(f"the URL {url!r} names no host, expected one like {DEFAULT_URL}")
    return ServerAddress(
        parts.scheme,
        parts.hostname,
        _port(parts, url),
        parts.path.rstrip("/"),
        unquote(parts.username) if parts.username else None,
        unquote(parts.password) if parts.password else None,
    )


def _port(parts: SplitResult, url: str) -> int:
    try:
        found = parts.port
    except ValueError as error:
        raise InvalidAddress(f"the URL {url!r} has a port that is not a number from 0 to 65535") from error
    return found if found is not None else 4000 if parts.scheme == "http" else 443

"""What blocks of headers say: read once for each block, because a client sends the same one again and again."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from tsdb.auth import AuthError
from tsdb.servers.http._auth import read_credentials
from tsdb.servers.http.wire import FORM, BadHead, Head, Message, Request, parse_head

BLOCKS_MAX = 512
"""How many blocks of headers are known; the oldest is forgotten."""
BLOCK_BYTES_MAX = 4 << 10
"""A longer block of headers is left to the application."""

_UNUSUAL = frozenset(
    {b"expect", b"transfer-encoding", b"content-encoding", b"upgrade", b"x-tsdb-timeout", b"x-greptime-timeout"}
)
"""Headers of requests that are left to the application."""


class HeaderBlock(NamedTuple):
    """What a block of headers says."""

    length: int
    is_form: bool
    """Whether a body, if there is one, has parameters."""
    accepted: str | None
    credentials: tuple[str, str] | None


class HeaderBlocks:
    """The blocks of headers that are known."""

    def __init__(self, *, needs_login: bool) -> None:
        self._needs_login = needs_login
        self._blocks: OrderedDict[bytes, HeaderBlock | None] = OrderedDict()

    def find(self, headers: bytes, data: bytes) -> HeaderBlock | None:
        """Return what the headers of a request say; None if that is unusual."""
        return self._blocks.get(headers) or self._read(headers, data)

    def _read(self, headers: bytes, data: bytes) -> HeaderBlock | None:
        if headers in self._blocks or len(headers) > BLOCK_BYTES_MAX:
            return None
        try:
            head = parse_head(data)
        except BadHead:
            return None
        if head is None:
            return None
        block = self._blocks[headers] = _block_of(head, needs_login=self._needs_login)
        if len(self._blocks) > BLOCKS_MAX:
            self._blocks.popitem(last=False)
        return block


def request_of(head: Head, client: str) -> Request:
    """Return a request for those who look at its headers."""
    scope = {
        "method": head.method,
        "path": head.path,
        "query_string": b"",
        "headers": head.headers,
        "client": (client, ""),
    }
    return Request(scope, _receive_nothing, body_limit=0)


def _block_of(head: Head, *, needs_login: bool) -> HeaderBlock | None:
    """Return what a block of headers says; None if it says anything unusual."""
    named = dict(head.headers)
    is_twice = len(named) < len(head.headers)
    if (
        is_twice
        or not (head.is_kept and head.is_modern)
        or head.length is None
        or not named.keys().isdisjoint(_UNUSUAL)
    ):
        return None
    kind = named.get(b"content-type")
    is_form = kind is None or kind.partition(b";")[0].strip().lower() == FORM.encode()
    accepted = named.get(b"accept-encoding")
    credentials = None
    if needs_login:
        try:
            credentials = read_credentials(request_of(head, ""))
        except AuthError:
            return None
    return HeaderBlock(head.length, is_form, None if accepted is None else accepted.decode("latin-1"), credentials)


async def _receive_nothing() -> Message:
    return {"type": "http.disconnect"}

"""Bearer tokens, issued for a password and sent with later calls.

Only digests are kept. A token that has been unused for a day is dropped, and the one unused for the longest when there
are too many. A token proves an identity; permissions, and whether the user still exists, are checked with every call.
Used by the event loop only.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict

from tsdb.auth import Identity
from tsdb.clock import Clock, SystemClock

TOKENS_MAX = 10_000
IDLE_SECONDS_MAX = 86_400
TOKEN_BYTES = 32
_TOKEN_CHARS_MAX = 128


class Tokens:
    """The tokens of one server."""

    def __init__(self, clock: Clock | None = None, *, tokens_max: int = TOKENS_MAX) -> None:
        self._clock = clock or SystemClock()
        self._tokens_max = tokens_max
        self._known: OrderedDict[bytes, tuple[Identity, int]] = OrderedDict()
        """By their digest, the one that was used last behind all others."""

    def issue(self, identity: Identity) -> str:
        """Return a new token for an authenticated user."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        while len(self._known) >= self._tokens_max:
            self._known.popitem(last=False)
        self._known[_digest(token)] = identity, self._clock.monotonic_ns()
        return token

    def find(self, token: str) -> Identity | None:
        """Return whose token this is, None if it is not one of ours or has expired."""
        if len(token) > _TOKEN_CHARS_MAX:
            return None
        digest = _digest(token)
        found = self._known.pop(digest, None)
        if found is None:
            return None
        identity, used_ns = found
        now_ns = self._clock.monotonic_ns()
        if now_ns - used_ns > IDLE_SECONDS_MAX * 1_000_000_000:
            return None
        self._known[digest] = identity, now_ns
        return identity


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
